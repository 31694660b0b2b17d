/* SPDX-License-Identifier: BSD-3-Clause */
#include "beside.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>

/* ---- The two sets of calls -------------------------------------------------------------------------------------- */

#define PLAIN(type, name, parameters, call) \
    static type name parameters \
    { \
        type rc = (type)(call); \
        return rc < 0 ? -errno : rc; \
    }
PLAIN(ssize_t, plain_read, (int fd, void *b, size_t n), read(fd, b, n))
PLAIN(ssize_t, plain_readv, (int fd, const struct iovec *v, int n), readv(fd, v, n))
PLAIN(ssize_t, plain_write, (int fd, const void *b, size_t n), write(fd, b, n))
PLAIN(ssize_t, plain_writev, (int fd, const struct iovec *v, int n), writev(fd, v, n))
PLAIN(ssize_t, plain_recv, (int fd, void *b, size_t n, int flags), recv(fd, b, n, flags))
PLAIN(ssize_t, plain_send, (int fd, const void *b, size_t n, int flags), send(fd, b, n, flags))
PLAIN(int, plain_accept, (int fd, struct sockaddr *a, socklen_t *n), accept(fd, a, n))
PLAIN(int, plain_connect, (int fd, const struct sockaddr *a, socklen_t n), connect(fd, a, n))
PLAIN(int, plain_close, (int fd), close(fd))

static int plain_poll(int fd, int events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = poll(&p, 1, 0);
    return n < 0 ? -errno : !n ? -ETIMEDOUT : p.revents & POLLNVAL ? -EBADF : p.revents;
}

static int marcel_poll(int fd, int events)
{
    struct timespec passed = {0, 0};
    return marcel_fd_wait(fd, events, CLOCK_MONOTONIC, &passed);
}

static const calls_t plain = {"plain",    plain_read,   plain_readv,   plain_write, plain_writev, plain_recv,
                              plain_send, plain_accept, plain_connect, plain_close, plain_poll};
static const calls_t ours = {"marcel",    marcel_read,   marcel_readv,   marcel_write, marcel_writev, marcel_recv,
                             marcel_send, marcel_accept, marcel_connect, marcel_close, marcel_poll};

/* ---- An older kernel -------------------------------------------------------------------------------------------- */

bool older; /* true: RWF_NOWAIT fails for sockets, pipes and timers, as before Linux 6.5 */

static bool is_unknown(int fd, const struct iovec *blocks, int count, int flags, int wrong_mode)
{
    char path[64], name[64] = "";
    size_t size = 0;
    int mode = fcntl(fd, F_GETFL);
    if (!older || !(flags & RWF_NOWAIT) || count <= 0 || count > 1024 || mode < 0 || (mode & O_ACCMODE) == wrong_mode)
        return false;
    for (int i = 0; i < count; i++) {
        size += blocks[i].iov_len;
        if (blocks[i].iov_len > SSIZE_MAX)
            return false;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return size && readlink(path, name, sizeof name - 1) > 0 &&
           (strstr(name, "socket:") || strstr(name, "pipe:") || (strstr(name, "[timerfd]") && wrong_mode == O_WRONLY));
}

/* Replaces the C library's function, for libmarcel too. */
ssize_t preadv2(int fd, const struct iovec *blocks, int count, off_t offset, int flags)
{
    if (is_unknown(fd, blocks, count, flags, O_WRONLY))
        return errno = EOPNOTSUPP, -1;
    return syscall(SYS_preadv2, fd, blocks, count, (long)offset, 0L, flags);
}

ssize_t pwritev2(int fd, const struct iovec *blocks, int count, off_t offset, int flags)
{
    if (is_unknown(fd, blocks, count, flags, O_RDONLY))
        return errno = EOPNOTSUPP, -1;
    return syscall(SYS_pwritev2, fd, blocks, count, (long)offset, 0L, flags);
}

/* ---- Results ---------------------------------------------------------------------------------------------------- */

void note(objects_t *o, const char *format, ...)
{
    size_t used = strlen(o->text);
    va_list args;
    va_start(args, format);
    vsnprintf(o->text + used, sizeof o->text - used, format, args);
    va_end(args);
}

void note_bytes(objects_t *o, const void *bytes, ssize_t n)
{
    for (ssize_t i = 0; i < n && i < 24; i++)
        note(o, "%02x", ((const unsigned char *)bytes)[i]);
}

/* ---- One way, and the other ------------------------------------------------------------------------------------- */

typedef struct turn {
    const beside_t *row;
    objects_t *o;
    _Atomic(int) tid; /* kernel id of the plain thread */
    _Atomic(int) done;
} turn_t;

static void *act(void *arg)
{
    turn_t *t = arg;
    atomic_store(&t->tid, (int)syscall(SYS_gettid));
    t->row->act(t->o);
    atomic_store(&t->done, 1);
    return NULL;
}

/* True if the plain thread sleeps in the kernel. */
static bool is_asleep(int tid)
{
    char path[64], line[512] = "", *state;
    FILE *f;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    f = fopen(path, "r");
    if (!f)
        return false;
    state = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return state && state[2] == 'S';
}

/* True if the plain thread waits: it is asleep in several checks in a row, and has not ended. */
static bool plain_waits(turn_t *t)
{
    for (int looks = 0; !atomic_load(&t->done); usleep(100)) {
        looks = atomic_load(&t->tid) && is_asleep(t->tid) ? looks + 1 : 0;
        if (looks == 4)
            return !atomic_load(&t->done);
    }
    return false;
}

/* Make the plain call of the row.  True if the call waited. */
static bool do_plain(turn_t *t)
{
    pthread_t thread;
    bool waited;
    if (!CHECK_EQ(pthread_create(&thread, NULL, act, t), 0))
        return false;
    waited = plain_waits(t);
    if (waited && t->row->later)
        t->row->later(t->o);
    pthread_join(thread, NULL);
    return waited;
}

static void settle(void)
{
    for (int i = 0; i < 10; i++)
        marcel_yield();
    marcel_usleep(500);
}

/* Make the call by libmarcel, on this thread's worker, which other threads must be able to use while the call waits. */
static void do_ours(turn_t *t, bool waited)
{
    marcel_attr_t attr;
    marcel_t thread;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, marcel_worker_index()), 0);
    CHECK_EQ(marcel_create(&thread, &attr, act, t), 0);
    marcel_attr_destroy(&attr);
    if (waited && t->row->later) {
        settle();
        CHECK_MSG(!atomic_load(&t->done), "%s, %s: it does not wait", t->row->kind, t->row->call);
        t->row->later(t->o);
    }
    CHECK_EQ(marcel_join(thread, NULL), 0);
}

static void make(const beside_t *row, objects_t *o, const calls_t *calls)
{
    memset(o, 0, sizeof *o);
    o->calls = calls;
    for (int i = 0; i < 4; i++)
        o->fd[i] = -1;
    row->make(o);
    if (row->more_flags)
        fcntl(o->fd[0], F_SETFL, fcntl(o->fd[0], F_GETFL) | row->more_flags);
}

static void finish(const beside_t *row, objects_t *o)
{
    if (row->look)
        row->look(o);
    for (int i = 0; i < 4; i++)
        if (o->fd[i] >= 0)
            marcel_close(o->fd[i]);
}

void beside(const beside_t *row)
{
    static objects_t first, second;
    turn_t there = {.row = row, .o = &first}, here = {.row = row, .o = &second};
    char name[96];
    bool waited;
    snprintf(name, sizeof name, "%s, %s%s%s", row->kind, row->call, row->more_flags ? ", O_NONBLOCK" : "",
             older ? ", older kernel" : "");
    test_begin(name, 30);
    make(row, &first, &plain);
    waited = do_plain(&there);
    finish(row, &first);
    make(row, &second, &ours);
    do_ours(&here, waited);
    finish(row, &second);
    CHECK_MSG(!strcmp(first.text, second.text), "%s\n    plain:  %s%s\n    marcel: %s", name, first.text,
              waited ? " (waited)" : "", second.text);
    test_end();
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

void unblock(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void make_pair(objects_t *o, int type)
{
    CHECK_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, o->fd), 0);
}

/* Make a TCP connection from fd[0] to fd[1]. */
void make_tcp(objects_t *o)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    CHECK_EQ(bind(listening, (struct sockaddr *)&at, size), 0);
    CHECK_EQ(listen(listening, 4), 0);
    CHECK_EQ(getsockname(listening, (struct sockaddr *)&at, &size), 0);
    o->fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(o->fd[0], (struct sockaddr *)&at, size), 0);
    o->fd[1] = accept(listening, NULL, NULL);
    setsockopt(o->fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(o->fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    close(listening);
}

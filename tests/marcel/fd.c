/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors, as marcel.h promises: fd [TEST...]. */
#include "support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

static bool pipe_make(int fd[2])
{
    return CHECK_EQ(pipe2(fd, O_CLOEXEC), 0);
}

static void close_both(int fd[2])
{
    CHECK_EQ(marcel_close(fd[0]), 0);
    CHECK_EQ(marcel_close(fd[1]), 0);
}

/* Let threads that were created run, until they wait. */
static void settle(void)
{
    for (int i = 0; i < 10; i++)
        marcel_yield();
    marcel_usleep(1000);
}

/* ---- An older kernel -------------------------------------------------------------------------------------------- */

static bool older; /* RWF_NOWAIT is known for files only, as before Linux 6.5 */

/* In place of the C library's, for libmarcel too. */
ssize_t preadv2(int fd, const struct iovec *blocks, int count, off_t offset, int flags)
{
    if (older && flags & RWF_NOWAIT)
        return errno = EOPNOTSUPP, -1;
    return syscall(SYS_preadv2, fd, blocks, count, (long)offset, 0L, flags);
}

ssize_t pwritev2(int fd, const struct iovec *blocks, int count, off_t offset, int flags)
{
    if (older && flags & RWF_NOWAIT)
        return errno = EOPNOTSUPP, -1;
    return syscall(SYS_pwritev2, fd, blocks, count, (long)offset, 0L, flags);
}

/* ---- To and fro ------------------------------------------------------------------------------------------------- */

#define ROUNDS 2000

typedef struct ends {
    int in, out;
} ends_t;

static void *echo(void *arg)
{
    ends_t *ends = arg;
    int64_t n;
    while (marcel_read(ends->in, &n, sizeof n) == sizeof n) {
        n++;
        CHECK_EQ(marcel_write(ends->out, &n, sizeof n), sizeof n);
    }
    return NULL;
}

static void to_and_fro(int in, int out)
{
    for (int64_t i = 0, n; i < ROUNDS; i++) {
        n = i;
        if (!CHECK_EQ(marcel_write(out, &n, sizeof n), sizeof n) || !CHECK_EQ(marcel_read(in, &n, sizeof n), sizeof n) ||
            !CHECK_EQ(n, i + 1))
            return;
    }
}

static void *pipes_main(void *arg)
{
    int there[2], back[2];
    ends_t ends;
    marcel_t thread;
    (void)arg;
    if (!pipe_make(there) || !pipe_make(back))
        return NULL;
    ends = (ends_t){there[0], back[1]};
    CHECK_EQ(marcel_create(&thread, NULL, echo, &ends), 0);
    to_and_fro(back[0], there[1]);
    CHECK_EQ(marcel_close(there[1]), 0); /* it reads the end */
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(marcel_close(there[0]), 0);
    close_both(back);
    return NULL;
}

static void *sockets_main(void *arg)
{
    int fd[2];
    ends_t ends;
    marcel_t thread;
    (void)arg;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    ends = (ends_t){fd[0], fd[0]};
    CHECK_EQ(marcel_create(&thread, NULL, echo, &ends), 0);
    to_and_fro(fd[1], fd[1]);
    shutdown(fd[1], SHUT_WR);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    close_both(fd);
    return NULL;
}

/* The threads are on one worker, and one is always in the way of the other; also from a plain pthread. */
static void test_to_and_fro(void)
{
    in_thread(pipes_main, NULL);
    in_thread(sockets_main, NULL);
    pipes_main(NULL);
    sockets_main(NULL);
}

/* ---- Many ------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    int fd[2];
    int64_t sum;
    marcel_t thread;
} reader_t;

static void *read_all(void *arg)
{
    reader_t *reader = arg;
    int n;
    while (marcel_read(reader->fd[0], &n, sizeof n) == sizeof n)
        reader->sum += n;
    return NULL;
}

/* Thousands of threads, each on its own pipe, and no kernel thread for any of them. */
static void test_many(void)
{
    enum { TIMES = 5 };
    struct rlimit limit;
    int many = 5000, before;
    reader_t *readers;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * (rlim_t)many + 100)
        many = ((int)limit.rlim_cur - 100) / 2;
    readers = calloc((size_t)many, sizeof *readers);
    if (!CHECK(readers != NULL))
        return;
    CHECK_EQ(marcel_init(), 0);
    before = kernel_threads();
    for (int i = 0; i < many; i++)
        if (!pipe_make(readers[i].fd) || !CHECK_EQ(marcel_create(&readers[i].thread, NULL, read_all, &readers[i]), 0))
            abort();
    for (int t = 1; t <= TIMES; t++)
        for (int i = 0; i < many; i++)
            CHECK_EQ(write(readers[i].fd[1], &t, sizeof t), sizeof t);
    CHECK_EQ(kernel_threads(), before);
    for (int i = 0; i < many; i++)
        close(readers[i].fd[1]);
    for (int i = 0; i < many; i++) {
        CHECK_EQ(marcel_join(readers[i].thread, NULL), 0);
        CHECK_EQ(readers[i].sum, TIMES * (TIMES + 1) / 2);
        CHECK_EQ(marcel_close(readers[i].fd[0]), 0);
    }
    free(readers);
}

/* ---- Several on one descriptor ---------------------------------------------------------------------------------- */

static _Atomic(int) got;

static void *read_one(void *arg)
{
    char c;
    CHECK_EQ(marcel_read(*(int *)arg, &c, 1), 1);
    atomic_fetch_add(&got, 1);
    return NULL;
}

/* Each byte wakes somebody, and nobody is forgotten. */
static void *shared_main(void *arg)
{
    enum { READERS = 300 };
    marcel_t threads[READERS];
    int fd[2];
    (void)arg;
    atomic_store(&got, 0);
    if (!pipe_make(fd))
        return NULL;
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_create(&threads[i], NULL, read_one, &fd[0]), 0);
    settle();
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(marcel_write(fd[1], "x", 1), 1);
        if (i % 3 == 0) /* one at a time, and several together */
            settle();
        CHECK(atomic_load(&got) <= i + 1);
    }
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    CHECK_EQ(atomic_load(&got), READERS);
    close_both(fd);
    return NULL;
}

#define BLOCK ((size_t)1 << 20)

static void *read_block(void *arg)
{
    char *buffer = calloc(1, BLOCK);
    if (!CHECK(buffer != NULL))
        return NULL;
    CHECK_EQ(marcel_recv(*(int *)arg, buffer, BLOCK, MSG_WAITALL), BLOCK);
    for (size_t i = 0; i < BLOCK; i++)
        if (!CHECK_EQ(buffer[i], (char)(i * 7)))
            break;
    free(buffer);
    return NULL;
}

static void *write_block(void *arg)
{
    char *buffer = malloc(BLOCK);
    struct iovec blocks[3] = {{buffer, 70001}, {buffer + 70001, 0}, {buffer + 70001, BLOCK - 70001}};
    if (!CHECK(buffer != NULL))
        return NULL;
    for (size_t i = 0; i < BLOCK; i++)
        buffer[i] = (char)(i * 7);
    CHECK_EQ(marcel_writev(*(int *)arg, blocks, 3), BLOCK);
    free(buffer);
    return NULL;
}

/* One reads and one writes the same socket, more than fits into it, and both wait. */
static void *both_ways_main(void *arg)
{
    marcel_t threads[4];
    int fd[2];
    (void)arg;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(marcel_create(&threads[2 * i], NULL, read_block, &fd[i]), 0);
        settle();
        CHECK_EQ(marcel_create(&threads[2 * i + 1], NULL, write_block, &fd[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    close_both(fd);
    return NULL;
}

static void test_shared(void)
{
    in_thread(shared_main, NULL);
    in_thread(both_ways_main, NULL);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------ */

static void *read_slowly(void *arg)
{
    reader_t *reader = arg;
    char buffer[7000];
    ssize_t n;
    while ((n = marcel_read(reader->fd[0], buffer, sizeof buffer)) > 0)
        reader->sum += n;
    CHECK_EQ(n, 0);
    return NULL;
}

/* A pipe holds less: it is all written all the same. */
static void *big_main(void *arg)
{
    enum { SIZE = 1000000 };
    reader_t reader = {.sum = 0};
    char *buffer = calloc(1, SIZE);
    (void)arg;
    if (!CHECK(buffer != NULL) || !pipe_make(reader.fd))
        return NULL;
    CHECK_EQ(marcel_create(&reader.thread, NULL, read_slowly, &reader), 0);
    CHECK_EQ(marcel_write(reader.fd[1], buffer, SIZE), SIZE);
    CHECK_EQ(marcel_write(reader.fd[1], buffer, 0), 0);
    CHECK_EQ(marcel_close(reader.fd[1]), 0);
    CHECK_EQ(marcel_join(reader.thread, NULL), 0);
    CHECK_EQ(reader.sum, SIZE);
    CHECK_EQ(marcel_close(reader.fd[0]), 0);
    free(buffer);
    return NULL;
}

static void test_big(void)
{
    in_thread(big_main, NULL);
}

/* ---- Connections ------------------------------------------------------------------------------------------------ */

enum { CLIENTS = 100 };

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[100];
    ssize_t n;
    while ((n = marcel_recv(fd, buffer, sizeof buffer, 0)) > 0)
        CHECK_EQ(marcel_send(fd, buffer, (size_t)n, MSG_NOSIGNAL), n);
    CHECK_EQ(n, 0);
    CHECK_EQ(marcel_close(fd), 0);
    return NULL;
}

static void *accept_half(void *arg)
{
    marcel_t threads[CLIENTS / 2];
    int n = 0;
    for (; n < CLIENTS / 2; n++) {
        int fd = marcel_accept(*(int *)arg, NULL, NULL);
        if (!CHECK(fd >= 0) || !CHECK_EQ(marcel_create(&threads[n], NULL, serve, (void *)(intptr_t)fd), 0))
            break;
    }
    while (n-- > 0)
        CHECK_EQ(marcel_join(threads[n], NULL), 0);
    return NULL;
}

static int listener(struct sockaddr_storage *address, socklen_t *size, int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(address, 0, sizeof *address);
    address->ss_family = (sa_family_t)family;
    if (family == AF_INET)
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(sa_family_t); /* a name from the kernel */
    CHECK_EQ(bind(fd, (struct sockaddr *)address, *size), 0);
    *size = sizeof *address;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, size), 0);
    CHECK_EQ(listen(fd, family == AF_INET ? CLIENTS : 4), 0); /* local ones wait for room */
    return fd;
}

typedef struct place {
    struct sockaddr_storage address;
    socklen_t size;
} place_t;

static void *client(void *arg)
{
    place_t *place = arg;
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[20] = "";
    CHECK_EQ(marcel_connect(fd, (struct sockaddr *)&place->address, place->size), 0);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(marcel_send(fd, "how do you do", 13, MSG_NOSIGNAL), 13);
        CHECK_EQ(marcel_recv(fd, text, 13, MSG_WAITALL), 13);
        CHECK(!strcmp(text, "how do you do"));
    }
    CHECK_EQ(marcel_close(fd), 0);
    return NULL;
}

/* Two threads take from one listening socket. */
static void *connections_main(void *arg)
{
    marcel_t servers[2], clients[CLIENTS];
    place_t place;
    int fd = listener(&place.address, &place.size, *(int *)arg);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(marcel_create(&servers[i], NULL, accept_half, &fd), 0);
    settle();
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(marcel_create(&clients[i], NULL, client, &place), 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(marcel_join(clients[i], NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(marcel_join(servers[i], NULL), 0);
    CHECK_EQ(marcel_close(fd), 0);
    fd = socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(marcel_connect(fd, (struct sockaddr *)&place.address, place.size), -ECONNREFUSED);
    CHECK_EQ(marcel_close(fd), 0);
    return NULL;
}

static void test_connections(void)
{
    int family = AF_INET;
    in_thread(connections_main, &family);
}

/* ---- Poll, deadlines, other kinds -------------------------------------------------------------------------------- */

static void *poll_main(void *arg)
{
    int fd[2];
    struct timespec t = after_ms(CLOCK_MONOTONIC, 20), now;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_MONOTONIC, &t), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec));
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_MONOTONIC, &t), -ETIMEDOUT); /* long past */
    t = after_ms(CLOCK_REALTIME, 5);
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_REALTIME, &t), -ETIMEDOUT);
    t.tv_nsec = 1000000000;
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_REALTIME, &t), -EINVAL);
    CHECK_EQ(marcel_poll_fd(fd[1], POLLOUT, CLOCK_MONOTONIC, NULL), POLLOUT);
    CHECK_EQ(marcel_write(fd[1], "x", 1), 1);
    t = after_ms(CLOCK_MONOTONIC, 60000);
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_MONOTONIC, &t), POLLIN);
    CHECK_EQ(marcel_close(fd[1]), 0);
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_MONOTONIC, NULL), POLLIN | POLLHUP);
    CHECK_EQ(marcel_close(fd[0]), 0);
    CHECK_EQ(marcel_poll_fd(fd[0], POLLIN, CLOCK_MONOTONIC, NULL), -EBADF);
    return NULL;
}

static void test_poll(void)
{
    in_thread(poll_main, NULL);
    poll_main(NULL);
}

static void *post(void *arg)
{
    uint64_t n = 3;
    settle();
    CHECK_EQ(marcel_write(*(int *)arg, &n, sizeof n), sizeof n);
    return NULL;
}

/* Also kinds whose calls cannot be asked not to block, and files. */
static void *kinds_main(void *arg)
{
    struct itimerspec soon = {.it_value = {0, 5 * MS}};
    int fd = eventfd(0, EFD_CLOEXEC), file;
    uint64_t n = 0;
    char text[8] = "";
    FILE *f = tmpfile();
    marcel_t thread;
    (void)arg;
    CHECK_EQ(marcel_create(&thread, NULL, post, &fd), 0);
    CHECK_EQ(marcel_read(fd, &n, sizeof n), sizeof n);
    CHECK_EQ(n, 3);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(marcel_close(fd), 0);
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    CHECK_EQ(timerfd_settime(fd, 0, &soon, NULL), 0);
    CHECK_EQ(marcel_read(fd, &n, sizeof n), sizeof n);
    CHECK_EQ(n, 1);
    CHECK_EQ(marcel_close(fd), 0);
    if (CHECK(f != NULL)) {
        file = fileno(f);
        CHECK_EQ(marcel_write(file, "a text", 6), 6);
        CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
        CHECK_EQ(marcel_read(file, text, 8), 6);
        CHECK(!strcmp(text, "a text"));
        CHECK_EQ(marcel_read(file, text, 8), 0);
        CHECK_EQ(marcel_poll_fd(file, POLLIN, CLOCK_MONOTONIC, NULL), POLLIN);
        fclose(f);
    }
    return NULL;
}

static void test_kinds(void)
{
    in_thread(kinds_main, NULL);
    kinds_main(NULL);
}

/* ---- Flags and errors ------------------------------------------------------------------------------------------- */

static void *errors_main(void *arg)
{
    int fd[2];
    char c;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    CHECK_EQ(marcel_recv(fd[0], &c, 1, 0), -ENOTSOCK);
    CHECK_EQ(marcel_read(fd[1], &c, 1), -EBADF);
    CHECK_EQ(marcel_write(fd[0], &c, 1), -EBADF);
    CHECK_EQ(marcel_read(-1, &c, 1), -EBADF);
    CHECK_EQ(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(marcel_read(fd[0], &c, 1), -EAGAIN);
    CHECK_EQ(marcel_close(fd[0]), 0);
    CHECK_EQ(marcel_write(fd[1], "x", 1), -EPIPE);
    CHECK_EQ(marcel_close(fd[1]), 0);
    CHECK_EQ(marcel_close(fd[1]), -EBADF);
    CHECK_EQ(marcel_read(fd[1], &c, 1), -EBADF);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    CHECK_EQ(marcel_recv(fd[0], &c, 1, MSG_DONTWAIT), -EAGAIN);
    CHECK_EQ(marcel_accept(fd[0], NULL, NULL), -EINVAL);
    close_both(fd);
    return NULL;
}

static void test_errors(void)
{
    in_thread(errors_main, NULL);
}

/* ---- Close ------------------------------------------------------------------------------------------------------ */

static void *read_closed(void *arg)
{
    char c;
    CHECK_EQ(marcel_read(*(int *)arg, &c, 1), -EBADF);
    return NULL;
}

static void *close_main(void *arg)
{
    enum { READERS = 20 };
    marcel_t threads[READERS];
    int fd[2], other[2], copy;
    char c = 0;
    struct timespec t;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_create(&threads[i], NULL, read_closed, &fd[0]), 0);
    settle();
    copy = dup(fd[0]); /* the pipe goes on */
    CHECK_EQ(marcel_close(fd[0]), 0);
    if (!pipe_make(other))
        return NULL;
    CHECK_EQ(other[0], fd[0]); /* the number is another's */
    CHECK_EQ(marcel_write(fd[1], "a", 1), 1);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    t = after_ms(CLOCK_MONOTONIC, 10);
    CHECK_EQ(marcel_poll_fd(other[0], POLLIN, CLOCK_MONOTONIC, &t), -ETIMEDOUT);
    CHECK_EQ(marcel_read(copy, &c, 1), 1);
    CHECK_EQ(c, 'a');
    /* Behind the library's back, while it is registered: the number's next bearer is waited for all the same. */
    close(copy);
    close(other[0]);
    close(other[1]);
    close(fd[1]);
    if (!pipe_make(other))
        return NULL;
    CHECK_EQ(other[0], fd[0]);
    CHECK_EQ(marcel_create(&threads[0], NULL, read_one, &other[0]), 0);
    settle();
    CHECK_EQ(marcel_write(other[1], "b", 1), 1);
    CHECK_EQ(marcel_join(threads[0], NULL), 0);
    close_both(other);
    return NULL;
}

static void test_close(void)
{
    in_thread(close_main, NULL);
}

/* ---- Others go on ------------------------------------------------------------------------------------------------ */

static _Atomic(int) over;

static void *count_up(void *arg)
{
    int64_t *n = arg;
    for (; !atomic_load(&over); (*n)++)
        marcel_yield();
    return NULL;
}

static void *write_and_read(void *arg)
{
    int *fd = arg;
    char c;
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(marcel_write(fd[1], "x", 1), 1);
        CHECK_EQ(marcel_read(fd[0], &c, 1), 1);
    }
    return NULL;
}

/* While one waits others run; they do too beside one that never has to. */
static void *others_main(void *arg)
{
    int fd[2];
    int64_t n = 0;
    marcel_attr_t attr;
    marcel_t counter, reader;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    atomic_store(&over, 0);
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, marcel_worker()), 0);
    CHECK_EQ(marcel_create(&counter, &attr, count_up, &n), 0);
    marcel_attr_destroy(&attr);
    CHECK_EQ(marcel_create(&reader, NULL, read_one, &fd[0]), 0);
    while (n < 1000)
        marcel_yield();
    CHECK_EQ(marcel_write(fd[1], "x", 1), 1); /* met by a busy worker */
    CHECK_EQ(marcel_join(reader, NULL), 0);
    n = 0;
    write_and_read(fd);
    CHECK(n > 0);
    atomic_store(&over, 1);
    CHECK_EQ(marcel_join(counter, NULL), 0);
    close_both(fd);
    return NULL;
}

static void test_others(void)
{
    in_thread(others_main, NULL);
}

static void *sleep_main(void *arg)
{
    struct timespec before, now;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK_EQ(marcel_usleep(2000), 0);
    CHECK_EQ(marcel_sleep(0), 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK((now.tv_sec - before.tv_sec) * 1000000000 + now.tv_nsec - before.tv_nsec >= 2 * MS);
    return NULL;
}

static void test_sleep(void)
{
    in_thread(sleep_main, NULL);
    sleep_main(NULL);
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static const test_case_t cases[] = {
    {"to_and_fro", test_to_and_fro}, {"many", test_many}, {"shared", test_shared}, {"big", test_big},
    {"connections", test_connections}, {"poll", test_poll}, {"kinds", test_kinds}, {"errors", test_errors},
    {"close", test_close}, {"others", test_others}, {"sleep", test_sleep}, {NULL, NULL},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    older = true;
    test_run(&(test_suite_t){.cases = cases, .seconds = 60, .suffix = ", older kernel"}, argc, argv);
    return test_over(end_now);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on descriptors that leave the worker to others while they wait.
 *
 * Each is tried without blocking, and without touching the descriptor's flags, which others see: preadv2 and pwritev2 take
 * RWF_NOWAIT for pipes and sockets (from Linux 6.5 on), sockets take MSG_DONTWAIT; what takes neither is polled first,
 * and then called by one thread at a time.  When it would block, the thread waits (watch.h) and tries again.
 *
 * errno is read in functions that do not switch and are not put in line: compilers keep its address (worker.h). */
#include "base/clock.h"
#include "marcel/cancel.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"
#include "marcel/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <marcel.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define CONNECT_AGAIN 200 /* us */
#define BLOCKS (-ENOSYS) /* the call would block, and nobody can tell for how long: a file */

typedef struct call call_t;
typedef ssize_t attempt_t(const call_t *call);

struct call {
    attempt_t *attempt; /* -EAGAIN: it would block; BLOCKS */
    attempt_t *plain;   /* the blocking call */
    int fd, flags;
    uint32_t events; /* what to wait for */
    union {
        struct iovec *out_of; /* never written by those that write */
        const struct iovec *blocks;
    };
    int count;
    struct sockaddr *address;
    socklen_t *address_size;
};

static inline ssize_t result(ssize_t n)
{
    return n < 0 ? -errno : n;
}

/* ---- What is it ----------------------------------------------------------------------------------------------- */

/* MADI_FD_UNKNOWN: a file.  That is not remembered: a pipe may have its number next, if it is closed by close(2). */
static APART int kind_find(int fd)
{
    struct stat st;
    enum madi_fd_kind kind = MADI_FD_OTHER;
    if (fstat(fd, &st))
        return -errno;
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode))
        return MADI_FD_UNKNOWN;
    if (S_ISSOCK(st.st_mode))
        kind = MADI_FD_SOCKET;
    madi_fd_kind_set(fd, kind);
    return (int)kind;
}

static int kind_of(int fd)
{
    int kind = (int)madi_fd_kind_get(fd);
    return MADI_LIKELY(kind != MADI_FD_UNKNOWN) ? kind : kind_find(fd);
}

static APART int flags_of(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -errno : flags;
}

/* May a call wait that would block?  -EAGAIN: no; -EBADF: not for that, and a poll will never say so. */
static int may_wait(const call_t *call)
{
    int flags = flags_of(call->fd);
    if (flags < 0)
        return flags;
    if ((flags & O_ACCMODE) == (call->events & POLLOUT ? O_RDONLY : O_WRONLY))
        return -EBADF;
    return flags & O_NONBLOCK ? -EAGAIN : 0;
}

static APART int poll_now(int fd, uint32_t events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = poll(&p, 1, 0);
    return n < 0 ? -errno : !n ? 0 : p.revents & POLLNVAL ? -EBADF : p.revents;
}

/* Those that know no other way. */
static ssize_t polled(const call_t *call)
{
    ssize_t n = -EAGAIN;
    int ready;
    if (!madi_fd_turn_take(call->fd))
        return -EAGAIN;
    ready = poll_now(call->fd, call->events);
    if (ready)
        n = ready < 0 ? ready : call->plain(call);
    madi_fd_turn_leave(call->fd);
    return n;
}

/* ---- Read and write ------------------------------------------------------------------------------------------- */

static struct msghdr message(const call_t *call)
{
    return (struct msghdr){.msg_iov = call->out_of, .msg_iovlen = (size_t)call->count};
}

static APART ssize_t recv_now(const call_t *call)
{
    struct msghdr m = message(call);
    return result(recvmsg(call->fd, &m, (call->flags & ~MSG_WAITALL) | MSG_DONTWAIT));
}

static APART ssize_t send_now(const call_t *call)
{
    struct msghdr m = message(call);
    return result(sendmsg(call->fd, &m, call->flags | MSG_DONTWAIT));
}

static APART ssize_t readv_now(const call_t *call)
{
    return result(preadv2(call->fd, call->blocks, call->count, -1, RWF_NOWAIT));
}

static APART ssize_t writev_now(const call_t *call)
{
    return result(pwritev2(call->fd, call->blocks, call->count, -1, RWF_NOWAIT));
}

static APART ssize_t read_plain(const call_t *call)
{
    return result(readv(call->fd, call->blocks, call->count));
}

static APART ssize_t write_plain(const call_t *call)
{
    return result(writev(call->fd, call->blocks, call->count));
}

static APART ssize_t recv_plain(const call_t *call)
{
    struct msghdr m = message(call);
    return result(recvmsg(call->fd, &m, call->flags));
}

static APART ssize_t send_plain(const call_t *call)
{
    struct msghdr m = message(call);
    return result(sendmsg(call->fd, &m, call->flags));
}

/* A pipe that can be written to has room for that much at least. */
static ssize_t write_polled(const call_t *call)
{
    struct iovec one = call->blocks[0];
    call_t part = *call;
    if (one.iov_len > PIPE_BUF)
        one.iov_len = PIPE_BUF;
    part.blocks = &one;
    part.count = 1;
    return polled(&part);
}

/* As a vector; where that knows no flags, as a socket; else when a poll says that it will not block. */
static inline __attribute__((always_inline)) ssize_t attempt_by(const call_t *call, attempt_t *vector, attempt_t *socket,
                                                                attempt_t *when_polled)
{
    int kind = kind_of(call->fd);
    ssize_t n;
    if (kind < 0)
        return kind;
    if (kind == MADI_FD_UNKNOWN)
        return BLOCKS;
    n = vector(call);
    if (MADI_LIKELY(n != -EOPNOTSUPP))
        return n;
    n = kind == MADI_FD_SOCKET ? socket(call) : -ENOTSOCK;
    return n == -ENOTSOCK ? when_polled(call) : n;
}

static ssize_t read_attempt(const call_t *call)
{
    return attempt_by(call, readv_now, recv_now, polled);
}

static ssize_t write_attempt(const call_t *call)
{
    return attempt_by(call, writev_now, send_now, write_polled);
}

/* ---- The wait ------------------------------------------------------------------------------------------------- */

/* Others' turn comes as often as if each call were a switch. */
static inline void passed(void)
{
    madi_worker_t *worker = madi_ult_self()->worker; /* home again, if the monitor came (monitor.h) */
    madi_watch_hint();
    if (MADI_UNLIKELY(--worker->tick == 0)) {
        worker->tick = 1;
        madi_yield(worker);
    }
}

static MADI_COLD ssize_t wait_for(const call_t *call)
{
    madi_watch_t watch;
    ssize_t n;
    int rc = madi_watch_begin(&watch, call->fd, call->events);
    if (rc)
        return BLOCKS;
    do {
        rc = madi_watch_wait(&watch, MADI_NEVER);
        n = rc ? rc : call->attempt(call);
    } while (n == -EAGAIN);
    madi_watch_end(&watch);
    return !rc || rc == -EBADF || rc == -ECANCELED ? n : BLOCKS; /* cannot be watched */
}

/* Every call is a point of cancellation, where it begins and while it waits (a plain pthread: where it begins).  -ECANCELED:
 * it ends now, if it has done nothing yet. */
static void point(void)
{
    madi_party_t *self = madi_party_self();
    if (self)
        madi_cancel_point(self);
}

static inline ssize_t ended(ssize_t n)
{
    if (MADI_UNLIKELY(n == -ECANCELED))
        point();
    return n;
}

static ssize_t run(const call_t *call)
{
    ssize_t n;
    if (MADI_UNLIKELY(!madi_ult_self()))
        return call->plain(call);
    n = call->attempt(call);
    if (MADI_UNLIKELY(n == -EAGAIN) && !(call->flags & MSG_DONTWAIT) && !(n = may_wait(call)))
        n = wait_for(call);
    if (MADI_UNLIKELY(n == BLOCKS))
        n = call->plain(call);
    passed();
    return n;
}

/* Again with what is left, until all of it is done: those are the blocks from `first` on, of the first of them all but
 * `skip` bytes. */
static ssize_t run_all(call_t *call)
{
    const struct iovec *blocks = call->blocks;
    int count = call->count, first = 0;
    size_t skip = 0;
    ssize_t sum = 0;
    for (;;) {
        struct iovec rest;
        ssize_t n;
        if (skip) {
            rest = (struct iovec){(char *)blocks[first].iov_base + skip, blocks[first].iov_len - skip};
            call->blocks = &rest;
            call->count = 1;
        } else {
            call->blocks = blocks + first;
            call->count = count - first;
        }
        n = run(call);
        if (n < 0)
            return sum ? sum : n;
        sum += n;
        for (size_t left = (size_t)n; first < count; first++, skip = 0) {
            size_t in_this = blocks[first].iov_len - skip;
            if (left < in_this) {
                skip += left;
                break;
            }
            left -= in_this;
        }
        if (first == count || !n)
            return sum;
    }
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

ssize_t marcel_readv(int fd, const struct iovec *blocks, int count)
{
    call_t call = {.attempt = read_attempt, .plain = read_plain, .fd = fd, .events = POLLIN, .blocks = blocks,
                   .count = count};
    point();
    return ended(run(&call));
}

ssize_t marcel_read(int fd, void *buffer, size_t size)
{
    struct iovec block = {buffer, size};
    return marcel_readv(fd, &block, 1);
}

ssize_t marcel_writev(int fd, const struct iovec *blocks, int count)
{
    call_t call = {.attempt = write_attempt, .plain = write_plain, .fd = fd, .events = POLLOUT, .blocks = blocks,
                   .count = count};
    point();
    return count > 0 ? ended(run_all(&call)) : write_plain(&call);
}

ssize_t marcel_write(int fd, const void *buffer, size_t size)
{
    struct iovec block = {(void *)buffer, size};
    return marcel_writev(fd, &block, 1);
}

ssize_t marcel_recv(int fd, void *buffer, size_t size, int flags)
{
    struct iovec block = {buffer, size};
    call_t call = {.attempt = recv_now, .plain = recv_plain, .fd = fd, .flags = flags, .events = POLLIN,
                   .blocks = &block, .count = 1};
    if (flags & MSG_OOB)
        call.events = POLLPRI;
    point();
    return ended((flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL && size ? run_all(&call) : run(&call));
}

ssize_t marcel_send(int fd, const void *buffer, size_t size, int flags)
{
    struct iovec block = {(void *)buffer, size};
    call_t call = {.attempt = send_now, .plain = send_plain, .fd = fd, .flags = flags, .events = POLLOUT,
                   .blocks = &block, .count = 1};
    point();
    return ended(run_all(&call));
}

/* ---- Connections ---------------------------------------------------------------------------------------------- */

static APART ssize_t accept_plain(const call_t *call)
{
    return result(accept(call->fd, call->address, call->address_size));
}

static APART bool is_listening(int fd)
{
    int listening = 0;
    socklen_t size = sizeof listening;
    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) && listening;
}

static ssize_t accept_attempt(const call_t *call)
{
    ssize_t n = polled(call);
    return n == -EAGAIN && !is_listening(call->fd) ? accept_plain(call) : n; /* which says so at once */
}

int marcel_accept(int fd, struct sockaddr *address, socklen_t *size)
{
    call_t call = {.attempt = accept_attempt, .plain = accept_plain, .fd = fd, .events = POLLIN, .address = address,
                   .address_size = size};
    ssize_t n;
    point();
    n = ended(run(&call));
    if (n >= 0)
        madi_fd_kind_set((int)n, MADI_FD_SOCKET);
    return (int)n;
}

static APART int connect_plain(int fd, const struct sockaddr *address, socklen_t size)
{
    return connect(fd, address, size) ? -errno : 0;
}

/* There is no flag for a call that begins to connect: the descriptor has O_NONBLOCK meanwhile. */
static APART int connect_begin(int fd, int flags, const struct sockaddr *address, socklen_t size)
{
    int rc;
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return -errno;
    rc = connect_plain(fd, address, size);
    fcntl(fd, F_SETFL, flags);
    return rc;
}

static APART int connect_end(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? -errno : -error;
}

int marcel_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    int flags = flags_of(fd), rc;
    point();
    if (flags < 0)
        return flags;
    if (!madi_ult_self() || flags & O_NONBLOCK)
        return connect_plain(fd, address, size);
    while ((rc = connect_begin(fd, flags, address, size)) == -EAGAIN) /* a local socket, its queue is full: no event tells */
        marcel_usleep(CONNECT_AGAIN);
    if (rc == -EINPROGRESS) {
        rc = marcel_poll_fd(fd, POLLOUT, CLOCK_MONOTONIC, NULL);
        if (rc >= 0)
            rc = connect_end(fd);
    }
    passed();
    return rc;
}

int marcel_close(int fd)
{
    int rc = madi_watch_close(fd);
    madi_watch_hint(); /* the other end */
    return rc;
}

/* ---- Poll ----------------------------------------------------------------------------------------------------- */

static int poll_plain(int fd, uint32_t events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int64_t left = deadline == MADI_NEVER ? 0 : deadline - madi_now();
    struct timespec time = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
    int n = ppoll(&p, 1, deadline == MADI_NEVER ? NULL : &time, NULL);
    return n < 0 ? -errno : !n ? -ETIMEDOUT : p.revents & POLLNVAL ? -EBADF : p.revents;
}

static int poll_wait(int fd, uint32_t events, int64_t deadline)
{
    madi_watch_t watch;
    int n, rc = madi_watch_begin(&watch, fd, events);
    if (rc)
        return rc;
    do {
        rc = madi_watch_wait(&watch, deadline);
        n = rc ? rc : poll_now(fd, events);
    } while (!n);
    madi_watch_end(&watch);
    return n;
}

int marcel_poll_fd(int fd, int events, int clock, const struct timespec *until)
{
    int64_t deadline = MADI_NEVER;
    int n;
    if (until && madi_deadline_of(clock, until, &deadline))
        return -EINVAL;
    point();
    if (!madi_ult_self())
        return poll_plain(fd, (uint32_t)events, deadline);
    n = poll_now(fd, (uint32_t)events);
    if (!n)
        n = poll_wait(fd, (uint32_t)events, deadline);
    passed();
    return (int)ended(n);
}

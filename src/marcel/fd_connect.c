/* SPDX-License-Identifier: BSD-3-Clause */
/* Accept, connect, close, poll; fd_call.h says how a call waits. */
#include "base/clock.h"
#include "marcel/fd_call.h"
#include "marcel/sleep.h"

#include <fcntl.h>
#include <marcel.h>

#define CONNECT_AGAIN 200 /* us between two attempts to connect while the queue is full */

/* ---- Poll ----------------------------------------------------------------------------------------------------------- */

static APART int poll_plain(int fd, uint32_t events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int64_t left = deadline == MADI_NEVER ? 0 : deadline - madi_now();
    struct timespec time = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
    int n = ppoll(&p, 1, deadline == MADI_NEVER ? NULL : &time, NULL);
    return n < 0 ? -errno : !n ? -ETIMEDOUT : p.revents & POLLNVAL ? -EBADF : p.revents;
}

/* Poll a descriptor that epoll refuses: a file, polled for events other than those that a file always reports. */
static MADI_COLD int poll_outside_worker(int fd, uint32_t events, int64_t deadline)
{
    int entered = marcel_blocking_begin(), n = poll_plain(fd, events, deadline);
    if (!entered)
        marcel_blocking_end();
    return n;
}

static int poll_wait(int fd, uint32_t events, int64_t deadline)
{
    madi_fd_watch_t watch;
    int n = 0, rc = madi_fd_watch_begin(&watch, fd, events);
    if (rc)
        return poll_outside_worker(fd, events, deadline);
    while (!n && !(rc = madi_fd_watch_wait(&watch, deadline)))
        n = madi_fd_poll_now(fd, events);
    madi_fd_watch_end(&watch);
    if (!rc)
        return n;
    return rc == -ETIMEDOUT || rc == -EBADF || rc == -ECANCELED ? rc : poll_outside_worker(fd, events, deadline);
}

static int poll_until(int fd, uint32_t events, int64_t deadline)
{
    int n = madi_fd_poll_now(fd, events);
    return n ? n : poll_wait(fd, events, deadline);
}

int marcel_fd_wait(int fd, int events, int clock, const struct timespec *until)
{
    int64_t deadline = MADI_NEVER;
    uint32_t wanted = (uint16_t)events; /* events in the form that poll takes */
    int n;
    if (until && madi_deadline_of(clock, until, &deadline))
        return -EINVAL;
    madi_fd_point();
    if (!madi_ult_self())
        return poll_plain(fd, wanted, deadline);
    n = poll_until(fd, wanted, deadline);
    madi_fd_passed();
    return (int)madi_fd_ended(n);
}

/* ---- Connections ---------------------------------------------------------------------------------------------------- */

static APART ssize_t accept_plain(madi_fd_call_t *call)
{
    int fd = accept(call->fd, call->address, call->address_size);
    return fd < 0 ? -errno : fd;
}

static ssize_t accept_attempt(madi_fd_call_t *call)
{
    ssize_t n = madi_fd_polled(call);
    return n == -EAGAIN && !madi_fd_option(call->fd, SO_ACCEPTCONN, 0) ? accept_plain(call) : n; /* which fails */
}

int marcel_accept(int fd, struct sockaddr *address, socklen_t *size)
{
    madi_fd_call_t call = {.attempt = accept_attempt,
                           .plain = accept_plain,
                           .fd = fd,
                           .events = POLLIN,
                           .address = address,
                           .address_size = size};
    ssize_t n;
    madi_fd_point();
    n = madi_fd_ended(madi_fd_run(&call));
    if (n >= 0)
        /* the descriptor that had this number before may have been closed by close(2) */
        madi_fd_kind_set((int)n, MADI_FD_UNKNOWN);
    return (int)n;
}

static APART int connect_plain(int fd, const struct sockaddr *address, socklen_t size)
{
    return connect(fd, address, size) ? -errno : 0;
}

/* Begin to connect.  No flag makes connect non-blocking, so the descriptor has O_NONBLOCK during the call. */
static APART int connect_begin(int fd, int flags, const struct sockaddr *address, socklen_t size)
{
    int rc;
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return -errno;
    rc = connect_plain(fd, address, size);
    fcntl(fd, F_SETFL, flags);
    return rc;
}

/* Get the result of a connection that this call or an earlier one began.  For internet sockets a second connect consumes
 * the result; otherwise the program's next connect would get it. */
static int connect_end(int fd, int domain, int flags, const struct sockaddr *address, socklen_t size)
{
    int rc;
    if (domain != AF_INET && domain != AF_INET6)
        return -madi_fd_option(fd, SO_ERROR, 0);
    rc = connect_begin(fd, flags, address, size);
    return rc == -EISCONN ? 0 : rc; /* another thread's call has consumed the result */
}

static int connect_wait(int fd, int flags, const struct sockaddr *address, socklen_t size)
{
    int rc = connect_begin(fd, flags, address, size), domain;
    int64_t deadline;
    if (rc != -EAGAIN && rc != -EINPROGRESS && rc != -EALREADY)
        return rc;
    domain = madi_fd_option(fd, SO_DOMAIN, AF_UNSPEC);
    deadline = madi_fd_deadline(fd, SO_SNDTIMEO);
    /* the queue is full, and no event announces room */
    while (rc == -EAGAIN && domain == AF_UNIX && madi_now() < deadline) {
        marcel_usleep(CONNECT_AGAIN);
        rc = connect_begin(fd, flags, address, size);
    }
    while (rc == -EINPROGRESS || rc == -EALREADY) {
        int ready = poll_until(fd, POLLOUT, deadline);
        if (ready < 0)
            return ready == -ETIMEDOUT ? rc : ready;
        rc = connect_end(fd, domain, flags, address, size);
    }
    return rc;
}

int marcel_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    int flags = madi_fd_flags(fd), rc;
    madi_fd_point();
    if (flags < 0)
        return flags;
    if (!madi_ult_self() || flags & O_NONBLOCK)
        return connect_plain(fd, address, size);
    rc = connect_wait(fd, flags, address, size);
    madi_fd_passed();
    return (int)madi_fd_ended(rc);
}

int marcel_close(int fd)
{
    int rc = madi_fd_watch_close(fd);
    madi_fd_watch_hint(); /* a thread of this process may wait for the other end */
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on descriptors: the kind of a descriptor, and the wait when an attempt would block. */
#include "base/clock.h"
#include "marcel/fd_call.h"

#include <fcntl.h>
#include <marcel.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <termios.h>

/* ---- Queries to the kernel -------------------------------------------------------------------------------------- */

APART int madi_fd_flags(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -errno : flags;
}

APART int madi_fd_poll_now(int fd, uint32_t events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    int n = poll(&p, 1, 0);
    return n < 0 ? -errno : !n ? 0 : p.revents & POLLNVAL ? -EBADF : p.revents;
}

int madi_fd_option(int fd, int name, int otherwise)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) ? otherwise : value;
}

int64_t madi_fd_deadline(int fd, int name)
{
    struct timeval t = {0, 0};
    socklen_t size = sizeof t;
    if (getsockopt(fd, SOL_SOCKET, name, &t, &size) || (!t.tv_sec && !t.tv_usec))
        return MADI_NEVER;
    return madi_now() + t.tv_sec * INT64_C(1000000000) + t.tv_usec * INT64_C(1000);
}

static bool fd_is_terminal(int fd)
{
    struct termios t;
    return !tcgetattr(fd, &t);
}

/* The kind of a file is not stored: if close(2) closes the file, a pipe may get its number. */
APART int madi_fd_kind_find(int fd)
{
    struct stat st;
    enum madi_fd_kind kind = MADI_FD_OTHER;
    if (fstat(fd, &st))
        return -errno;
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK: return MADI_FD_UNKNOWN;
    case S_IFSOCK: kind = madi_fd_option(fd, SO_RCVLOWAT, 1) > 1 ? MADI_FD_LOWAT : MADI_FD_SOCKET; break;
    case S_IFIFO: kind = MADI_FD_PIPE; break;
    case S_IFCHR: kind = fd_is_terminal(fd) ? MADI_FD_TERMINAL : MADI_FD_OTHER; break;
    case 0: kind = MADI_FD_ANONYMOUS; break;
    default: break;
    }
    madi_fd_kind_set(fd, kind);
    return (int)kind;
}

/* ---- Calls without a non-blocking form --------------------------------------------------------------------------- */

/* Descriptors that answer FIONREAD, like inotify, wait before they reject a short size. */
bool madi_fd_refuses_short(const madi_fd_call_t *call)
{
    size_t size = 0;
    int bytes;
    if (madi_fd_kind_get(call->fd) != MADI_FD_ANONYMOUS)
        return false;
    for (int i = 0; i < (call->events & POLLOUT ? 1 : call->count); i++) /* each block is written separately */
        size += call->blocks[i].iov_len;
    return size < 8 && (call->events & POLLOUT || ioctl(call->fd, FIONREAD, &bytes));
}

ssize_t madi_fd_polled(madi_fd_call_t *call)
{
    ssize_t n = -EAGAIN;
    int ready;
    if (!madi_fd_turn_take(call->fd))
        return -EAGAIN;
    ready = madi_fd_poll_now(call->fd, call->events);
    if (ready || madi_fd_refuses_short(call))
        n = ready < 0 ? ready : call->plain(call);
    madi_fd_turn_leave(call->fd);
    return n;
}

ssize_t madi_fd_aside(madi_fd_call_t *call)
{
    int entered = marcel_blocking_begin();
    ssize_t n = call->plain(call); /* if no kernel thread is available, the call blocks the worker */
    if (!entered)
        marcel_blocking_end();
    return n;
}

/* ---- The wait ---------------------------------------------------------------------------------------------------- */

static bool socket_is_internet(int fd)
{
    int domain = madi_fd_option(fd, SO_DOMAIN, AF_UNSPEC);
    return domain == AF_INET || domain == AF_INET6;
}

/* True if flags make the call return -EAGAIN instead of waiting, whatever the mode of the descriptor. */
static bool call_never_waits(const madi_fd_call_t *call)
{
    if (call->flags & MSG_DONTWAIT)
        return true;
    if (!(call->events & POLLIN))
        return false;
    if (call->flags & MSG_OOB && madi_fd_option(call->fd, SO_TYPE, 0) == SOCK_STREAM)
        return true;
    return call->flags & MSG_ERRQUEUE && socket_is_internet(call->fd);
}

int madi_fd_may_wait(const madi_fd_call_t *call)
{
    int flags;
    if (call_never_waits(call))
        return -EAGAIN;
    flags = madi_fd_flags(call->fd);
    if (flags < 0)
        return flags;
    if ((flags & O_ACCMODE) == (call->events & POLLOUT ? O_RDONLY : O_WRONLY))
        return -EBADF;
    return flags & O_NONBLOCK ? -EAGAIN : 0;
}

/* True if an internet socket that needs a port has none, because no port was free. */
static bool socket_has_no_port(int fd)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &size))
        return false;
    if (own.ss_family == AF_INET)
        return !((struct sockaddr_in *)&own)->sin_port;
    return own.ss_family == AF_INET6 && !((struct sockaddr_in6 *)&own)->sin6_port;
}

/* True if the plain call cannot block, though the attempt after an event would.  There are two cases: a datagram socket
 * that was shut down for reading, and a socket that finds no port to send from. */
static bool call_is_stuck(const madi_fd_call_t *call)
{
    if (madi_fd_kind_get(call->fd) >= MADI_FD_PIPE)
        return false;
    return call->events & POLLOUT ? socket_has_no_port(call->fd) : madi_fd_poll_now(call->fd, POLLRDHUP) & POLLRDHUP;
}

static MADI_COLD ssize_t call_wait(madi_fd_call_t *call)
{
    madi_fd_watch_t watch;
    ssize_t n = -EAGAIN;
    int rc = madi_fd_watch_begin(&watch, call->fd, call->events);
    if (rc)
        return MADI_FD_ASIDE;
    if (!call->deadline)
        call->deadline = madi_fd_kind_get(call->fd) >= MADI_FD_PIPE
                             ? MADI_NEVER
                             : madi_fd_deadline(call->fd, call->events & POLLOUT ? SO_SNDTIMEO : SO_RCVTIMEO);
    while (n == -EAGAIN && !(rc = madi_fd_watch_wait(&watch, call->deadline))) {
        n = call->attempt(call);
        if (n == -EAGAIN && call_is_stuck(call))
            n = MADI_FD_BLOCKS;
    }
    madi_fd_watch_end(&watch);
    if (!rc)
        return n;
    return rc == -ETIMEDOUT ? -EAGAIN : rc == -EBADF || rc == -ECANCELED ? rc : MADI_FD_ASIDE; /* cannot be watched */
}

MADI_COLD ssize_t madi_fd_run_slow(madi_fd_call_t *call, ssize_t n)
{
    if (n == -EAGAIN && !(n = madi_fd_may_wait(call)))
        n = call_wait(call);
    if (n == MADI_FD_ASIDE)
        return madi_fd_aside(call);
    return n == MADI_FD_BLOCKS ? call->plain(call) : n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Read, write, receive, send; fd_call.h says how a call waits.
 *
 * Attempts without blocking: preadv2 and pwritev2 take RWF_NOWAIT for pipes and sockets (from Linux 6.5 on), and sockets
 * take MSG_DONTWAIT.  A descriptor that supports neither is polled before the plain call. */
#include "marcel/fd_call.h"

#include <fcntl.h>
#include <limits.h>
#include <marcel.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static inline ssize_t result_or_errno(ssize_t n)
{
    return n < 0 ? -errno : n;
}

/* ---- Plain calls, and calls that do not block -------------------------------------------------------------------- */

static struct msghdr call_message(const madi_fd_call_t *call)
{
    return (struct msghdr){.msg_iov = call->out_of, .msg_iovlen = (size_t)call->count};
}

static APART ssize_t recv_with_flags(madi_fd_call_t *call, int flags)
{
    struct msghdr m = call_message(call);
    ssize_t n = result_or_errno(recvmsg(call->fd, &m, flags));
    call->seen = m.msg_flags;
    return n;
}

static APART ssize_t send_with_flags(const madi_fd_call_t *call, int flags)
{
    struct msghdr m = call_message(call);
    return result_or_errno(sendmsg(call->fd, &m, flags));
}

static ssize_t recv_dontwait(madi_fd_call_t *call)
{
    return recv_with_flags(call, (call->flags & ~MSG_WAITALL) | MSG_DONTWAIT);
}

static ssize_t send_dontwait(madi_fd_call_t *call)
{
    return send_with_flags(call, call->flags | MSG_DONTWAIT);
}

static ssize_t recv_plain(madi_fd_call_t *call)
{
    return recv_with_flags(call, call->flags);
}

static ssize_t send_plain(madi_fd_call_t *call)
{
    return send_with_flags(call, call->flags);
}

static APART ssize_t readv_nowait(const madi_fd_call_t *call)
{
    return result_or_errno(preadv2(call->fd, call->blocks, call->count, -1, RWF_NOWAIT));
}

static APART ssize_t writev_nowait(const madi_fd_call_t *call)
{
    return result_or_errno(pwritev2(call->fd, call->blocks, call->count, -1, RWF_NOWAIT));
}

static APART ssize_t readv_plain(madi_fd_call_t *call)
{
    return result_or_errno(readv(call->fd, call->blocks, call->count));
}

static APART ssize_t writev_plain(madi_fd_call_t *call)
{
    return result_or_errno(writev(call->fd, call->blocks, call->count));
}

static APART ssize_t read_plain(madi_fd_call_t *call)
{
    return result_or_errno(read(call->fd, call->blocks->iov_base, call->blocks->iov_len));
}

static APART ssize_t write_plain(madi_fd_call_t *call)
{
    return result_or_errno(write(call->fd, call->blocks->iov_base, call->blocks->iov_len));
}

/* ---- Attempts on descriptors without a non-blocking call --------------------------------------------------------- */

/* True for a terminal whose reads end by a count of bytes or by time (VMIN, VTIME), which poll does not report. */
static bool terminal_reads_by_count(int fd)
{
    struct termios t;
    return !tcgetattr(fd, &t) && !(t.c_lflag & ICANON) && (t.c_cc[VMIN] != 1 || t.c_cc[VTIME]);
}

static MADI_COLD ssize_t read_other_kind(madi_fd_call_t *call, int kind)
{
    int flags;
    if (kind <= MADI_FD_SOCKET) {
        ssize_t n = recv_dontwait(call);
        if (n != -ENOTSOCK)
            return n;
        kind = madi_fd_kind_find(call->fd); /* the number now belongs to another descriptor */
    }
    flags = madi_fd_flags(call->fd);
    if (flags >= 0 && flags & O_NONBLOCK)
        return call->plain(call);
    if (kind == MADI_FD_TERMINAL && terminal_reads_by_count(call->fd))
        return MADI_FD_ASIDE;
    return madi_fd_polled(call);
}

/* Write to a pipe that poll reports as writable: it has room for at least PIPE_BUF bytes, so a shorter write is complete. */
static ssize_t pipe_write_polled(madi_fd_call_t *call)
{
    madi_fd_call_t part = *call;
    struct iovec one = call->blocks[0];
    size_t size = 0;
    for (int i = 0; i < call->count && size <= PIPE_BUF; i++)
        size += call->blocks[i].iov_len;
    if (size > PIPE_BUF) {
        if (one.iov_len > PIPE_BUF)
            one.iov_len = PIPE_BUF;
        part.blocks = &one;
        part.count = 1;
    }
    return madi_fd_polled(&part);
}

/* True if the write adds 1 to an eventfd, for which a writable eventfd has room.  For other counts, and for terminals,
 * poll does not report whether they fit. */
static bool write_adds_one(const madi_fd_call_t *call, int kind)
{
    return kind == MADI_FD_ANONYMOUS && call->count == 1 && call->blocks->iov_len == sizeof(uint64_t) &&
           *(const uint64_t *)call->blocks->iov_base == 1;
}

static MADI_COLD ssize_t write_other_kind(madi_fd_call_t *call, int kind)
{
    int flags;
    if (kind <= MADI_FD_SOCKET) {
        ssize_t n = send_dontwait(call);
        if (n != -ENOTSOCK)
            return n;
        kind = madi_fd_kind_find(call->fd);
    }
    flags = madi_fd_flags(call->fd);
    if (flags >= 0 && flags & O_NONBLOCK)
        return call->plain(call);
    if (kind == MADI_FD_PIPE)
        return pipe_write_polled(call);
    if (write_adds_one(call, kind) || madi_fd_refuses_short(call))
        return madi_fd_polled(call);
    return madi_fd_poll_now(call->fd, POLLOUT) ? MADI_FD_ASIDE : -EAGAIN;
}

/* ---- Attempts ----------------------------------------------------------------------------------------------------- */

static MADI_COLD ssize_t attempt_by_kind(int kind)
{
    return kind < 0 ? kind : kind == MADI_FD_LOWAT ? MADI_FD_ASIDE : MADI_FD_BLOCKS;
}

static ssize_t readv_attempt(madi_fd_call_t *call)
{
    int kind = madi_fd_kind_of(call->fd);
    ssize_t n;
    /* SO_RCVLOWAT counts the bytes in the queue, not the bytes that this call has already taken */
    if (MADI_UNLIKELY(kind <= MADI_FD_LOWAT))
        return attempt_by_kind(kind);
    n = readv_nowait(call);
    return MADI_LIKELY(n != -EOPNOTSUPP) ? n : read_other_kind(call, kind);
}

static ssize_t writev_attempt(madi_fd_call_t *call)
{
    int kind = madi_fd_kind_of(call->fd);
    ssize_t n;
    if (MADI_UNLIKELY(kind <= MADI_FD_UNKNOWN))
        return attempt_by_kind(kind);
    n = writev_nowait(call);
    return MADI_LIKELY(n != -EOPNOTSUPP) ? n : write_other_kind(call, kind);
}

static ssize_t recv_attempt(madi_fd_call_t *call)
{
    if (MADI_UNLIKELY(madi_fd_kind_of(call->fd) == MADI_FD_LOWAT) && !(call->flags & MSG_DONTWAIT))
        return MADI_FD_ASIDE;
    return recv_dontwait(call);
}

/* Write the rest, if the other end still exists: an error is left for the next call, and raises no SIGPIPE. */
static ssize_t send_rest(madi_fd_call_t *call)
{
    int ready = madi_fd_poll_now(call->fd, POLLOUT);
    if (ready <= 0 || ready & POLLHUP)
        return !ready ? -EAGAIN : ready < 0 ? ready : -EPIPE;
    return send_with_flags(call, call->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Read the rest that MSG_WAITALL requests.  Read nothing after passed descriptors or at the urgent mark, and leave the
 * pending error of an internet socket for the next call. */
static ssize_t recv_rest(madi_fd_call_t *call)
{
    int at_mark = 0, bytes = 0, ready;
    if (call->seen & MSG_CTRUNC || (!ioctl(call->fd, SIOCATMARK, &at_mark) && at_mark))
        return 0;
    ready = madi_fd_poll_now(call->fd, POLLIN);
    if (ready < 0 || (ready & POLLERR && madi_fd_option(call->fd, SO_DOMAIN, AF_UNIX) != AF_UNIX &&
                      !ioctl(call->fd, FIONREAD, &bytes) && !bytes))
        return 0;
    return recv_dontwait(call);
}

/* ---- Streams: until all is done ----------------------------------------------------------------------------------- */

/* Continue a call that has moved its first n bytes, until all bytes are moved, the stream ends, or an error occurs. */
static MADI_COLD ssize_t call_move_rest(madi_fd_call_t *call, ssize_t n)
{
    const struct iovec *block = call->blocks;
    int left = call->count;
    size_t skip = 0; /* number of bytes to skip in the first block */
    ssize_t sum = 0;
    while (n > 0) {
        struct iovec rest;
        sum += n;
        skip += (size_t)n;
        while (left && skip >= block->iov_len) {
            skip -= block->iov_len;
            block++;
            left--;
        }
        if (!left)
            break;
        rest = (struct iovec){(char *)block->iov_base + skip, block->iov_len - skip};
        call->blocks = skip ? &rest : block;
        call->count = skip ? 1 : left;
        n = madi_fd_run(call);
    }
    return sum;
}

static bool socket_is_stream(int fd)
{
    return madi_fd_option(fd, SO_TYPE, 0) == SOCK_STREAM;
}

/* Continue a write after its first n bytes: a blocking write to a stream must write the rest. */
static MADI_COLD ssize_t write_rest(madi_fd_call_t *call, ssize_t n)
{
    int kind = (int)madi_fd_kind_get(call->fd);
    bool socket = kind <= MADI_FD_SOCKET && socket_is_stream(call->fd);
    if (!madi_ult_self() || (kind != MADI_FD_PIPE && !socket) || madi_fd_may_wait(call))
        return n; /* the call was made once, or no more can be written now */
    if (socket)
        call->attempt = send_rest;
    return call_move_rest(call, n);
}

static ssize_t write_until_done(madi_fd_call_t *call)
{
    ssize_t n = madi_fd_run(call);
    if (n > 0) {
        size_t size = 0;
        for (int i = 0; i < call->count; i++)
            size += call->blocks[i].iov_len;
        if (MADI_UNLIKELY((size_t)n < size))
            n = write_rest(call, n);
    }
    return madi_fd_ended(n);
}

/* Continue a receive after its first n bytes, if MSG_WAITALL requests more. */
static MADI_COLD ssize_t recv_until_done(madi_fd_call_t *call, ssize_t n)
{
    if (!madi_ult_self() || madi_fd_kind_get(call->fd) == MADI_FD_LOWAT || !socket_is_stream(call->fd) ||
        madi_fd_may_wait(call))
        return n;
    if (call->flags & MSG_PEEK)
        return madi_fd_aside(call);
    call->attempt = recv_rest;
    return call_move_rest(call, n);
}

/* ---- Calls ---------------------------------------------------------------------------------------------------------- */

ssize_t marcel_readv(int fd, const struct iovec *blocks, int count)
{
    madi_fd_call_t call = {
        .attempt = readv_attempt, .plain = readv_plain, .fd = fd, .events = POLLIN, .blocks = blocks, .count = count};
    madi_fd_point();
    return madi_fd_ended(madi_fd_run(&call));
}

/* Sizes for which read and write differ from readv and writev of one block: 0, and sizes that do not fit into the result. */
#define IS_ODD(size) MADI_UNLIKELY((size)-1 >= SSIZE_MAX)

static ssize_t read_odd_attempt(madi_fd_call_t *call)
{
    int kind = madi_fd_kind_of(call->fd), bytes;
    if (kind == MADI_FD_ANONYMOUS && !call->blocks->iov_len && !ioctl(call->fd, FIONREAD, &bytes))
        return read_other_kind(call, kind); /* inotify first waits for an event, and then reports that it does not fit */
    return kind < 0 ? kind : MADI_FD_BLOCKS;
}

static MADI_COLD ssize_t read_odd(int fd, const struct iovec *block)
{
    madi_fd_call_t call = {
        .attempt = read_odd_attempt, .plain = read_plain, .fd = fd, .events = POLLIN, .blocks = block, .count = 1};
    madi_fd_point();
    return madi_fd_ended(madi_fd_run(&call));
}

ssize_t marcel_read(int fd, void *buffer, size_t size)
{
    struct iovec block = {buffer, size};
    return IS_ODD(size) ? read_odd(fd, &block) : marcel_readv(fd, &block, 1);
}

ssize_t marcel_writev(int fd, const struct iovec *blocks, int count)
{
    madi_fd_call_t call = {
        .attempt = writev_attempt, .plain = writev_plain, .fd = fd, .events = POLLOUT, .blocks = blocks, .count = count};
    madi_fd_point();
    return write_until_done(&call);
}

/* A socket sends an empty datagram for such a write, and may have to wait. */
static ssize_t write_odd_attempt(madi_fd_call_t *call)
{
    int kind = madi_fd_kind_of(call->fd);
    if (kind < 0)
        return kind;
    if ((kind == MADI_FD_SOCKET || kind == MADI_FD_LOWAT) && !call->blocks->iov_len)
        return send_dontwait(call);
    return MADI_FD_BLOCKS;
}

static MADI_COLD ssize_t write_odd(int fd, const struct iovec *block)
{
    madi_fd_call_t call = {
        .attempt = write_odd_attempt, .plain = write_plain, .fd = fd, .events = POLLOUT, .blocks = block, .count = 1};
    madi_fd_point();
    return madi_fd_ended(madi_fd_run(&call));
}

ssize_t marcel_write(int fd, const void *buffer, size_t size)
{
    struct iovec block = {(void *)buffer, size};
    return IS_ODD(size) ? write_odd(fd, &block) : marcel_writev(fd, &block, 1);
}

ssize_t marcel_recv(int fd, void *buffer, size_t size, int flags)
{
    struct iovec block = {buffer, size};
    madi_fd_call_t call = {.attempt = recv_attempt,
                           .plain = recv_plain,
                           .fd = fd,
                           .flags = flags,
                           .events = POLLIN,
                           .blocks = &block,
                           .count = 1};
    ssize_t n;
    madi_fd_point();
    n = madi_fd_run(&call);
    if (MADI_UNLIKELY(flags & MSG_WAITALL) && n > 0 && (size_t)n < size)
        n = recv_until_done(&call, n);
    return madi_fd_ended(n);
}

ssize_t marcel_send(int fd, const void *buffer, size_t size, int flags)
{
    struct iovec block = {(void *)buffer, size};
    madi_fd_call_t call = {.attempt = send_dontwait,
                           .plain = send_plain,
                           .fd = fd,
                           .flags = flags,
                           .events = POLLOUT,
                           .blocks = &block,
                           .count = 1};
    madi_fd_point();
    return write_until_done(&call);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* pipes: an example of a driver for a network whose links are not sockets.  Read core/driver.h and drivers/skeleton first.
 *
 * A link is a pair of pipes between two processes of one host.  The core's handshake needs a stream socket, so a link
 * begins with one.  Then each side makes the pipe that it reads, and passes the write end over the socket, which is then
 * closed:
 *      one side                                            the other side
 *      start: makes pipe A, passes its write end           start: makes pipe B, passes its write end
 *      sock_ready: opens pipe B, link up   <-- socket -->  sock_ready: opens pipe A, link up
 *      in   <----------------------------- pipe A -------- out
 *      out  ------------------------------ pipe B -------> in
 * A pipe accepts up to PIPE_BUF bytes completely or not at all.  So a pipe holds whole packets only, and neither side
 * has to keep a part of one.  The writing side opens its pipe for reading too, since a write without a reader raises
 * SIGPIPE. When the peer dies, the other pipe ends. */
#include "base/host.h"
#include "base/own.h"
#include "core/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET_MAX PIPE_BUF
static_assert(PACKET_MAX >= MADI_PACKET_MIN, "a packet of every driver has that many bytes");

typedef struct pipes_link {
    madi_link_t base;
    madi_watch_t watch; /* the watch of the socket and, once the link is up, of `in` */
    int sock, in, out;  /* -1 unless open, from start on */
    bool started, closed;
} pipes_link_t;

static void fd_end(int *fd)
{
    if (*fd >= 0)
        madi_fd_close(*fd);
    *fd = -1;
}

static mad_status_t pipes_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "host") ? MAD_OK : MAD_ERR_NOMEM;
}

/* The listening socket is an abstract one: it is reached from the same network namespace of the same running kernel. */
static mad_status_t pipes_open(madi_adapter_t *a, char *reason)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    socklen_t len = sizeof sa.sun_family; /* the kernel chooses a free name */
    if (!madi_namespace_name("net", a->network, sizeof a->network)) {
        snprintf(reason, MADI_REASON_MAX, "the network namespace has no name: /proc cannot be read");
        return MAD_ERR_SYSTEM;
    }
    a->listen_fd = madi_fd_own(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (a->listen_fd < 0 || bind(a->listen_fd, (struct sockaddr *)&sa, len) || listen(a->listen_fd, SOMAXCONN)) {
        snprintf(reason, MADI_REASON_MAX, "no UNIX socket: %s", strerror(errno)); /* fini closes it */
        return MAD_ERR_SYSTEM;
    }
    len = sizeof sa;
    getsockname(a->listen_fd, (struct sockaddr *)&sa, &len);
    a->address_len = len - offsetof(struct sockaddr_un, sun_path);
    memcpy(a->address, sa.sun_path, a->address_len);
    a->caps.packet_max = a->caps.chunk_max = a->caps.rdv_min = a->caps.rdv_eager = PACKET_MAX;
    a->caps.gather_max = 16;
    a->caps.latency_us = 5;
    a->caps.bandwidth_MBs = 1000;
    a->caps.rank = 91; /* after skeleton */
    return MAD_OK;
}

static void pipes_close(madi_adapter_t *a)
{
    fd_end(&a->listen_fd); /* this function is also fini, for an adapter whose open failed halfway */
}

static mad_status_t pipes_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    (void)link;
    if (len > sizeof sa.sun_path) { /* a peer wrote it */
        snprintf(reason, MADI_REASON_MAX, "the peer's address is damaged");
        return MAD_ERR_PROTOCOL;
    }
    memcpy(sa.sun_path, addr, len);
    *fd = madi_fd_own(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd < 0 || connect(*fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len))) {
        snprintf(reason, MADI_REASON_MAX, "connect: %s", strerror(errno));
        fd_end(fd);
        return MAD_ERR_PEER;
    }
    return MAD_OK;
}

/* Pass *fd over a UNIX socket, with one byte; if *fd is -1, receive a descriptor.  On failure return false, with the reason
 * in errno: EAGAIN if nothing has arrived yet. */
static bool fd_pass(int sock, int *fd)
{
    union {
        char buf[CMSG_SPACE(sizeof *fd)]; /* the kernel closes further descriptors that a peer passes */
        struct cmsghdr head;
    } control = {.head = {CMSG_LEN(sizeof *fd), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec iov = {(char[1]){0}, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.head), fd, sizeof *fd);
    errno = 0; /* errno stays 0 if the descriptor is missing, or the socket has ended */
    if (*fd >= 0)
        return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
    if (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1 && msg.msg_controllen >= CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(&control.head), sizeof *fd);
    return *fd >= 0;
}

/* Open the pipe of a peer's descriptor again, since the peer can change the flag O_NONBLOCK of the descriptor that it
 * passed.  Return -1 if the descriptor is no pipe, or if the open fails.  F_GETPIPE_SZ calls no file system, so it does
 * not block. */
static int pipe_open(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fcntl(fd, F_GETPIPE_SZ) > 0 ? madi_fd_own(open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)) : -1;
}

/* Called under the tx lock, by any thread.  AGAIN: the pipe is full.  The core tries again by itself, within a
 * millisecond. */
static madi_sent_t pipes_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    (void)op; /* the packet is complete when this returns */
    return writev(((pipes_link_t *)link)->out, vec, n) == (ssize_t)total ? MADI_SENT : MADI_AGAIN;
}

/* Receive one packet, which the pipe holds completely or not at all.  Return false if none has arrived, or if the link is
 * broken. */
static bool packet_receive(pipes_link_t *l)
{
    static _Thread_local unsigned char sink[PACKET_MAX];
    madi_wire_hdr_t hdr;
    madi_rx_t rx = {0};
    ssize_t n = read(l->in, &hdr, sizeof hdr);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n != sizeof hdr || hdr.length > PACKET_MAX - sizeof hdr) { /* a peer wrote it */
        madi_link_down(&l->base, n ? MAD_ERR_PROTOCOL : MAD_ERR_PEER, n ? "no packet came" : "the peer closed its pipe");
        return false;
    }
    madi_place_t place = madi_rx_begin(&l->base, &hdr, &rx);
    if (l->closed) /* the core has closed the link, which may happen in any upcall */
        return false;
    if (hdr.length && read(l->in, place == MADI_PLACE_COPY ? rx.base : sink, hdr.length) != (ssize_t)hdr.length)
        madi_link_down(&l->base, MAD_ERR_PROTOCOL, "only a part of a packet arrived");
    else if (place == MADI_PLACE_COPY)
        madi_rx_done(&l->base, &hdr, &rx);
    return !l->closed;
}

static void in_ready(madi_watch_t *watch, uint32_t events)
{
    pipes_link_t *l = MADI_CONTAINER(watch, pipes_link_t, watch);
    (void)events;
    for (int n = 0; n < 64 && !l->closed && packet_receive(l);)
        n++;
}

static int pipes_poll(madi_adapter_t *a, int budget)
{
    (void)budget; /* watches report everything that arrives */
    return madi_poll_descriptors(a->session);
}

/* Watch another descriptor instead of the previous one, or none (-1). */
static bool watch_move(pipes_link_t *l, int fd, void (*ready)(madi_watch_t *watch, uint32_t events))
{
    if (l->watch.fd >= 0)
        madi_watch_del(l->base.adapter->session, &l->watch);
    l->watch = (madi_watch_t){.fd = fd, .ready = ready, .carries = ready == in_ready};
    if (fd >= 0 && (fd == l->sock ? madi_watch_add_rare : madi_watch_add)(l->base.adapter->session, &l->watch, EPOLLIN))
        l->watch.fd = -1; /* watch_move deletes only a descriptor that was added */
    return l->watch.fd >= 0;
}

/* Handle the arrival of the peer's descriptor, or the end of the socket. */
static void sock_ready(madi_watch_t *watch, uint32_t events)
{
    pipes_link_t *l = MADI_CONTAINER(watch, pipes_link_t, watch);
    int fd = -1;
    (void)events;
    if (l->closed || (!fd_pass(l->sock, &fd) && errno == EAGAIN))
        return;
    l->out = pipe_open(madi_fd_own(fd));
    fd_end(&fd);
    if (l->out < 0 || !watch_move(l, l->in, in_ready)) {
        madi_link_down(&l->base, MAD_ERR_PEER, "the peer passed no pipe, or it cannot be opened");
        return;
    }
    fd_end(&l->sock);
    madi_link_up(&l->base);
}

static mad_status_t pipes_start(madi_link_t *link, int fd, bool active, char *reason)
{
    pipes_link_t *l = (pipes_link_t *)link;
    int end[2] = {-1, -1};
    bool ok = !pipe2(end, O_NONBLOCK | O_CLOEXEC);
    (void)active; /* both sides do the same */
    l->sock = fd;
    l->in = madi_fd_own(end[0]);
    l->out = l->watch.fd = -1;
    l->started = true;
    ok = ok && fd_pass(fd, &end[1]) && watch_move(l, fd, sock_ready);
    if (!ok)
        snprintf(reason, MADI_REASON_MAX, "no pipe: %s", strerror(errno)); /* link_close ends the rest */
    fd_end(&end[1]); /* the peer has the only write end, so `in` ends when the peer ends */
    return ok ? MAD_OK : MAD_ERR_SYSTEM;
}

static void pipes_link_close(madi_link_t *link)
{
    pipes_link_t *l = (pipes_link_t *)link;
    if (!l->started || l->closed)
        return;
    l->closed = true;
    watch_move(l, -1, in_ready); /* the watch may be called once more, and then does nothing */
    fd_end(&l->sock);
    fd_end(&l->in);
    fd_end(&l->out); /* the peer first reads what is left in the pipe, and then sees its end */
}

const madi_driver_t madi_driver_pipes = {
    .abi = MADI_DRIVER_ABI,
    .name = "pipes",
    .adapter_size = sizeof(madi_adapter_t), /* the driver needs no state of its own */
    .link_size = sizeof(pipes_link_t),
    .on_request = true,
    .probe = pipes_probe,
    .open = pipes_open,
    .close = pipes_close,
    .fini = pipes_close,
    .connect = pipes_connect,
    .start = pipes_start,
    .send = pipes_send,
    .poll = pipes_poll,
    .link_close = pipes_link_close,
    .link_fini = pipes_link_close, /* may come alone */
};

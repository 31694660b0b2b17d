/* SPDX-License-Identifier: BSD-3-Clause */
/* skeleton: the smallest complete driver, to be copied for a driver of a new network.  Read core/driver.h first, and
 * doc/new-driver.md along with this file.
 *
 * The network of skeleton is the host: a link is a UNIX stream socket, on which packets follow each other (header,
 * body, header, ...). This driver has what every driver needs and nothing else: it copies, lends nothing, takes no
 * operations, and polls every link.  This driver is always compiled, so that it stays correct, but is used only if
 * MAD_DRIVERS names it.
 *
 * "Yours" in a comment says what a driver for another network does there. */
#include "base/host.h"
#include "base/own.h"
#include "core/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET_MAX 8192 /* bytes; yours: the longest packet that your network sends cheaply in one call */

typedef struct skeleton_link skeleton_link_t;

/* The core allocates and zeroes these; the public part comes first. */
typedef struct skeleton_adapter {
    madi_adapter_t base;
    skeleton_link_t *links; /* all open links, for poll */
} skeleton_adapter_t;

struct skeleton_link {
    madi_link_t base;
    skeleton_link_t *next;
    madi_watch_t watch; /* watch of the socket; watch.fd is valid while the link is started */
    bool started, closed;
    /* Receiving, under the session's lock: number of received bytes of the header, then of the body. */
    madi_wire_hdr_t hdr;
    size_t got;
    madi_rx_t rx;
    madi_place_t place;
    /* Sending, under the link's tx lock: the part of a packet that the socket did not accept. */
    unsigned char rest[PACKET_MAX];
    size_t rest_at, rest_len;
    bool refused; /* a send was answered AGAIN */
};

static skeleton_adapter_t *adapter_of(skeleton_link_t *l)
{
    return (skeleton_adapter_t *)l->base.adapter;
}

/* ---- Adapters ------------------------------------------------------------------------------------------------- */

/* Yours: one adapter for each card that the vendor's library lists.  Finding none is no error. */
static mad_status_t skeleton_probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "host") ? MAD_OK : MAD_ERR_NOMEM;
}

/* Two adapters communicate if and only if their networks have the same name, so adapters that cannot reach each other
 * need different names.  Abstract UNIX sockets are reached from the same network namespace of the same running kernel.
 * Yours: the subnet, the fabric's identity. */
static bool skeleton_name_network(madi_adapter_t *a, char *reason)
{
    bool ok = madi_namespace_name("net", a->network, sizeof a->network);
    if (!ok)
        snprintf(reason, MADI_REASON_MAX, "the network namespace has no name: /proc cannot be read");
    return ok;
}

static mad_status_t skeleton_open(madi_adapter_t *a, char *reason)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    socklen_t len = sizeof sa.sun_family; /* the kernel chooses a free name */
    int fd;

    if (!skeleton_name_network(a, reason))
        return MAD_ERR_SYSTEM;
    /* The core accepts on listen_fd and runs the handshake, which refuses a process without the job's key. */
    fd = madi_fd_own(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    a->listen_fd = fd;
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) || listen(fd, SOMAXCONN)) {
        snprintf(reason, MADI_REASON_MAX, "no UNIX socket: %s", strerror(errno)); /* fini closes it */
        return MAD_ERR_SYSTEM;
    }
    len = sizeof sa;
    getsockname(fd, (struct sockaddr *)&sa, &len);
    /* The bytes that a peer needs to connect.  These bytes are part of the process's address, and no other code interprets
     * them. */
    a->address_len = len - offsetof(struct sockaddr_un, sun_path);
    memcpy(a->address, sa.sun_path, a->address_len);
    a->caps = (madi_caps_t){.packet_max = PACKET_MAX,
                            .chunk_max = PACKET_MAX, /* yours: the longest packet that zero copy can send */
                            .rdv_min = PACKET_MAX,
                            .rdv_eager = PACKET_MAX,
                            .gather_max = 16,
                            .latency_us = 5,
                            .bandwidth_MBs = 2000,
                            .rank = 90}; /* after tcp */
    return MAD_OK;
}

static void skeleton_close(madi_adapter_t *a)
{
    (void)a; /* yours: make the network accept nothing any more */
}

/* Also called for an adapter whose open failed halfway. */
static void skeleton_fini(madi_adapter_t *a)
{
    if (a->listen_fd >= 0)
        madi_fd_close(a->listen_fd);
}

/* ---- Links ---------------------------------------------------------------------------------------------------- */

/* Called on the active side only.  The core gets the socket, runs the handshake on it, and passes it to start.  Yours,
 * without sockets: set *fd = -1, begin to connect, and call madi_link_up or madi_link_down from poll. */
static mad_status_t skeleton_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int s;
    (void)link;
    if (len > sizeof sa.sun_path) { /* a peer wrote it */
        snprintf(reason, MADI_REASON_MAX, "the peer's address is damaged");
        return MAD_ERR_PROTOCOL;
    }
    memcpy(sa.sun_path, addr, len);
    s = madi_fd_own(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (s < 0 || connect(s, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len))) {
        snprintf(reason, MADI_REASON_MAX, "connect: %s", strerror(errno));
        if (s >= 0)
            madi_fd_close(s);
        return MAD_ERR_PEER;
    }
    *fd = s;
    return MAD_OK;
}

static int skeleton_progress(skeleton_link_t *l, int budget);

static void skeleton_socket_ready(madi_watch_t *watch, uint32_t events)
{
    (void)events;
    skeleton_progress(MADI_CONTAINER(watch, skeleton_link_t, watch), 64);
}

/* The core calls start on both sides, after the handshake.  From madi_link_up on, other threads may already send. */
static mad_status_t skeleton_start(madi_link_t *link, int fd, bool active, char *reason)
{
    skeleton_link_t *l = (skeleton_link_t *)link;
    (void)active;
    l->watch = (madi_watch_t){.fd = fd, .ready = skeleton_socket_ready, .carries = true};
    if (madi_watch_add(link->adapter->session, &l->watch, EPOLLIN) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "the socket cannot be watched: %s", strerror(errno));
        madi_fd_close(fd); /* the driver owns fd, also when this call fails */
        return MAD_ERR_SYSTEM;
    }
    l->started = true;
    l->next = adapter_of(l)->links;
    adapter_of(l)->links = l;
    madi_link_up(link);
    return MAD_OK;
}

/* Make no more upcalls, and touch no memory of the core.  May be called from inside our own madi_link_down, and also
 * after connect without start. */
static void skeleton_link_close(madi_link_t *link)
{
    skeleton_link_t *l = (skeleton_link_t *)link;
    if (!l->started || l->closed)
        return;
    l->closed = true;
    if (l->rest_len)
        madi_link_holds(link, -1);
    madi_watch_del(link->adapter->session, &l->watch);
    shutdown(l->watch.fd, SHUT_RDWR); /* the peer first receives all bytes sent before, then sees the end */
    for (skeleton_link_t **p = &adapter_of(l)->links; *p; p = &(*p)->next)
        if (*p == l) {
            *p = l->next;
            break; /* l->next stays valid, because poll may be at this link */
        }
}

/* No lock is needed: no thread uses the link any more. */
static void skeleton_link_fini(madi_link_t *link)
{
    skeleton_link_t *l = (skeleton_link_t *)link;
    skeleton_link_close(link);
    if (l->started)
        madi_fd_close(l->watch.fd);
}

/* ---- Sending -------------------------------------------------------------------------------------------------- */

/* Keep a copy of the bytes that the socket did not accept; there is room for a whole packet. */
static void skeleton_keep(skeleton_link_t *l, const struct iovec *vec, int n, size_t done)
{
    l->rest_at = l->rest_len = 0;
    for (int i = 0; i < n; i++) {
        size_t skip = done < vec[i].iov_len ? done : vec[i].iov_len;
        memcpy(l->rest + l->rest_len, (char *)vec[i].iov_base + skip, vec[i].iov_len - skip);
        l->rest_len += vec[i].iov_len - skip;
        done -= skip;
    }
}

/* Called under the tx lock, by any thread, without the session's lock.  The receiving side reports a failure, since it
 * sees the end of the connection under the right lock.  A packet is complete when its memory is no longer needed, here on
 * return, so op is not used.  Yours, if it sends directly from the program's memory: return TAKEN, and call op->done from
 * poll. */
static madi_sent_t skeleton_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    skeleton_link_t *l = (skeleton_link_t *)link;
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)vec, .msg_iovlen = (size_t)n};
    ssize_t done;
    (void)op;
    if (l->rest_len) {
        l->refused = true;
        return MADI_AGAIN;
    }
    done = sendmsg(l->watch.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done < 0) {
        l->refused = true;
        return MADI_AGAIN;
    }
    if ((size_t)done < total) {
        skeleton_keep(l, vec, n, (size_t)done);
        madi_link_holds(link, 1); /* the program may compute from now on, so the progress thread has to poll */
        madi_watch_change(link->adapter->session, &l->watch, EPOLLIN | EPOLLOUT);
    }
    return MADI_SENT;
}

/* Send the kept bytes.  Under the session's lock; takes the tx lock. */
static int skeleton_flush(skeleton_link_t *l)
{
    bool writable = false;
    ssize_t done = 0;
    madi_link_lock_tx(&l->base);
    if (l->rest_len) {
        done = send(l->watch.fd, l->rest + l->rest_at, l->rest_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done > 0) {
            l->rest_at += (size_t)done;
            l->rest_len -= (size_t)done;
        }
        if (!l->rest_len) {
            madi_link_holds(&l->base, -1);
            madi_watch_change(l->base.adapter->session, &l->watch, EPOLLIN);
        }
    }
    if (!l->rest_len && l->refused) {
        l->refused = false;
        writable = true;
    }
    madi_link_unlock_tx(&l->base);
    if (writable) /* this upcall is made without the tx lock, like every upcall */
        madi_link_writable(&l->base);
    return done > 0;
}

static bool skeleton_drained(madi_link_t *link)
{
    skeleton_link_t *l = (skeleton_link_t *)link;
    bool empty;
    madi_link_lock_tx(link);
    empty = !l->rest_len;
    madi_link_unlock_tx(link);
    return empty;
}

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

/* Return the destination of the next bytes, and their number: the header, the body, or a body that is dropped. */
static void *skeleton_wanted(skeleton_link_t *l, size_t *len)
{
    static _Thread_local unsigned char sink[4096];
    size_t at = l->got - sizeof l->hdr;
    if (l->got < sizeof l->hdr) {
        *len = sizeof l->hdr - l->got;
        return (char *)&l->hdr + l->got;
    }
    *len = l->hdr.length - at;
    if (l->place == MADI_PLACE_COPY)
        return (char *)l->rx.base + at;
    if (*len > sizeof sink)
        *len = sizeof sink;
    return sink;
}

/* Handle a complete header: check the peer's values before they are used, then get the destination of the body from the
 * core. */
static void skeleton_begin(skeleton_link_t *l)
{
    if (l->hdr.length > PACKET_MAX - sizeof l->hdr) {
        madi_link_down(&l->base, MAD_ERR_PROTOCOL, "a received packet is longer than any peer sends");
        return;
    }
    l->rx = (madi_rx_t){0};
    l->place = madi_rx_begin(&l->base, &l->hdr, &l->rx);
}

static int skeleton_receive(skeleton_link_t *l, int budget)
{
    int packets = 0;
    while (!l->closed && packets < budget) { /* any upcall may close the link */
        size_t len;
        void *to = skeleton_wanted(l, &len);
        ssize_t n = recv(l->watch.fd, to, len, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            madi_link_down(&l->base, MAD_ERR_PEER, n ? strerror(errno) : "connection closed by peer");
            break;
        }
        l->got += (size_t)n;
        if (l->got == sizeof l->hdr)
            skeleton_begin(l);
        if (l->closed || l->got < sizeof l->hdr || l->got - sizeof l->hdr < l->hdr.length)
            continue;
        l->got = 0;
        packets++;
        if (l->place == MADI_PLACE_COPY)
            madi_rx_done(&l->base, &l->hdr, &l->rx);
    }
    return packets;
}

static int skeleton_progress(skeleton_link_t *l, int budget)
{
    int n = 0;
    if (!l->closed)
        n += skeleton_flush(l);
    if (!l->closed)
        n += skeleton_receive(l, budget);
    return n;
}

/* Yours: poll the completion queue.  This driver has no pure_poll and no arm: no test costs less than a receive call, and
 * the watched socket wakes a sleeping thread. */
static int skeleton_poll(madi_adapter_t *a, int budget)
{
    int n = 0;
    for (skeleton_link_t *l = ((skeleton_adapter_t *)a)->links; l; l = l->next)
        n += skeleton_progress(l, budget);
    return n;
}

const madi_driver_t madi_driver_skeleton = {
    .abi = MADI_DRIVER_ABI,
    .name = "skeleton",
    .adapter_size = sizeof(skeleton_adapter_t),
    .link_size = sizeof(skeleton_link_t),
    .on_request = true,
    .probe = skeleton_probe,
    .open = skeleton_open,
    .close = skeleton_close,
    .fini = skeleton_fini,
    .connect = skeleton_connect,
    .start = skeleton_start,
    .send = skeleton_send,
    .poll = skeleton_poll,
    .link_close = skeleton_link_close,
    .link_fini = skeleton_link_fini,
    .live = {.drained = skeleton_drained},
};

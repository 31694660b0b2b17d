/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: links.  A link is one socket, on which packets follow each other without separators. */
#include "base/log.h"
#include "base/own.h"
#include "drivers/tcp/tcp.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TCP_EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

/* Report that the link is down.  The core may close the link inside madi_link_down or later; after this call the driver
 * no longer uses it. */
void madi_tcp_down(madi_tcp_link_t *link, mad_status_t status, const char *text)
{
    atomic_store_explicit(&link->closed, true, memory_order_relaxed);
    madi_link_down(&link->pub, status, text);
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------ */

mad_status_t madi_tcp_connect(madi_link_t *pub, const void *addr, size_t len, int *fd, char *reason)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)pub->adapter;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    char text[80];
    const char *what = "socket";
    int one = 1, error, s;

    if (!madi_tcp_addr_get(addr, len, &peer, &peer_len) || peer.ss_family != tcp->self.ss_family) {
        snprintf(reason, MADI_REASON_MAX, "the peer's tcp address is not one of %s's family", pub->adapter->name);
        return MAD_ERR_PROTOCOL;
    }
    madi_tcp_addr_text(&peer, text, sizeof(text));
    if (!madi_tcp_allows(tcp, &peer, false)) { /* checked here too, because the program may have added the peer */
        snprintf(reason, MADI_REASON_MAX, "%s is not on the list of MAD_TCP_ALLOW", text);
        return MAD_ERR_CONFIG;
    }
    s = madi_fd_own(socket(peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (s < 0)
        goto fail;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    /* Choose the port only when the destination is known: one local port can then serve many destinations. */
    setsockopt(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    what = "bind";
    if (bind(s, (struct sockaddr *)&tcp->self, madi_tcp_addr_len(&tcp->self)) < 0)
        goto fail;
    what = "connect";
    if (connect(s, (struct sockaddr *)&peer, peer_len) < 0 && errno != EINPROGRESS && errno != EINTR)
        goto fail;
    *fd = s;
    return MAD_OK;
fail:
    error = errno;
    snprintf(reason, MADI_REASON_MAX, "%s to %s from %.40s (%.40s): %s%s", what, text, pub->adapter->name,
             pub->adapter->network, strerror(error), madi_remedy(error));
    if (s >= 0)
        madi_fd_close(s);
    return madi_own_lack(error) ? MAD_ERR_NOMEM : MAD_ERR_SYSTEM;
}

/* Use Reno between two processes of one host, where congestion control cannot help: bbr as the system's default costs
 * a third of the bandwidth (doc/rationale.md).  Every kernel has Reno.  Between hosts the system's choice is kept. */
static void tcp_no_congestion(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static void tcp_ready(madi_watch_t *watch, uint32_t events)
{
    madi_tcp_link_t *link = MADI_CONTAINER(watch, madi_tcp_link_t, watch);
    const uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if ((events & (EPOLLOUT | end)) && atomic_load_explicit(&link->tx_blocked, memory_order_relaxed))
        madi_tcp_flush(link);
    link->ending |= (events & end) != 0; /* no further edge reports the end */
    if ((events & (EPOLLIN | end)) && !link->is_unread)
        madi_tcp_receive(link, 64);
}

mad_status_t madi_tcp_start(madi_link_t *pub, int fd, bool active, char *reason)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    mad_status_t status;
    int one = 1, flags = fcntl(fd, F_GETFL);
    (void)active;

    link->watch.fd = fd;
    if (!link->watch.ready) /* a sealed link has set its own `ready` */
        link->watch.ready = tcp_ready;
    link->started = true;
    link->room = MADI_TCP_RX_SIZE;
    /* Unused buffers cost only address space. */
    link->tx_buf = malloc(MADI_TCP_PACKET_MAX);
    if (!madi_tcp_buffers_open(link) || !link->tx_buf) {
        snprintf(reason, MADI_REASON_MAX, "no memory for the buffers of a tcp link");
        return MAD_ERR_NOMEM;
    }
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        snprintf(reason, MADI_REASON_MAX, "fcntl on a tcp socket: %s", strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    status = madi_tcp_alive_open(tcp, reason);
    if (status)
        return status;
    /* These calls fail on other stream sockets (tests).  Without these options a link is slow but correct. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    madi_tcp_keepalive(fd);
    if (tcp->loopback)
        tcp_no_congestion(fd);
    link->watch.carries = true;
    status = madi_watch_add(pub->adapter->session, &link->watch, TCP_EVENTS);
    if (status) {
        snprintf(reason, MADI_REASON_MAX, "cannot watch a tcp socket: %s", strerror(errno));
        return status;
    }
    link->watched = true;
    madi_tcp_started_add(link);
    madi_link_up(pub);
    return MAD_OK;
}

void madi_tcp_park(madi_tcp_link_t *link)
{
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    if (!link->watched)
        return;
    madi_watch_del(link->pub.adapter->session, &link->watch);
    link->watched = false;
    tcp->parked = link;
    tcp->empty = 0;
}

void madi_tcp_unpark(madi_tcp_adapter_t *tcp)
{
    madi_tcp_link_t *link = tcp->parked;
    tcp->parked = NULL;
    tcp->streak = 0;
    if (!link)
        return;
    if (madi_watch_add(tcp->pub.session, &link->watch, TCP_EVENTS)) {
        madi_tcp_down(link, MAD_ERR_SYSTEM, "a tcp socket cannot be watched any more: no memory for it in the kernel");
        return;
    }
    link->watched = true;
}

/* Closing a socket with unread bytes resets the connection, and a reset discards bytes that this kernel has not sent yet.
 * Only bytes that the peer's kernel has acknowledged are safe. */
bool madi_tcp_drained(madi_link_t *pub)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    int unacknowledged = 0;
    if (atomic_load_explicit(&link->tx_blocked, memory_order_relaxed))
        return false;
    return ioctl(link->watch.fd, SIOCOUTQ, &unacknowledged) < 0 || !unacknowledged;
}

/* Make the kernel send a delayed acknowledgement now; the kernel may delay an acknowledgement for up to 40 ms. */
void madi_tcp_acknowledge(madi_link_t *pub)
{
    int one = 1;
    setsockopt(((madi_tcp_link_t *)pub)->watch.fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one));
}

/* The descriptor stays open until fini, since a sender may be using it; shutting the socket down makes its send fail. */
void madi_tcp_link_close(madi_link_t *pub)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    madi_op_t *op = link->op;
    if (!link->started || link->shut)
        return;
    link->shut = true;
    atomic_store_explicit(&link->closed, true, memory_order_relaxed);
    if (link->watched)
        madi_watch_del(pub->adapter->session, &link->watch);
    link->watched = false;
    if (atomic_load_explicit(&tcp->hot_sent, memory_order_relaxed) == link)
        atomic_store_explicit(&tcp->hot_sent, NULL, memory_order_relaxed);
    if (tcp->parked == link)
        tcp->parked = NULL;
    if (tcp->hot_got == link)
        tcp->hot_got = NULL;
    madi_tcp_unread_remove(link);
    madi_tcp_started_remove(link);
    shutdown(link->watch.fd, SHUT_RDWR);
    link->op = NULL;
    if (op)
        op->done(op, MAD_ERR_PEER);
}

void madi_tcp_link_fini(madi_link_t *pub)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    if (!link->started)
        return;
    madi_tcp_link_close(pub);
    /* A send that ran in parallel with close may have stored the link again. */
    if (atomic_load_explicit(&tcp->hot_sent, memory_order_relaxed) == link)
        atomic_store_explicit(&tcp->hot_sent, NULL, memory_order_relaxed);
    link->started = false;
    madi_fd_close(link->watch.fd);
    madi_tcp_keep_no_more(link);
    madi_tcp_buffers_free(link);
    free(link->tx_buf);
    link->tx_buf = NULL;
}

/* ---- Receiving -------------------------------------------------------------------------------------------------- */

static void tcp_unread_add(madi_tcp_link_t *link)
{
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    if (link->is_unread)
        return;
    link->is_unread = true;
    link->unread_next = NULL;
    if (tcp->unread)
        tcp->unread_last->unread_next = link;
    else
        tcp->unread = link;
    tcp->unread_last = link;
    tcp->unread_count++;
    madi_tcp_heat(tcp); /* make the next poll try the link, which no poll would try otherwise */
}

void madi_tcp_unread_remove(madi_tcp_link_t *link)
{
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    madi_tcp_link_t **at = &tcp->unread, *before = NULL;
    if (!link->is_unread)
        return;
    for (; *at != link; at = &(*at)->unread_next)
        before = *at;
    *at = link->unread_next;
    if (tcp->unread_last == link)
        tcp->unread_last = before;
    link->is_unread = false;
    tcp->unread_count--;
}

/* End the link at the connection's end; error: errno of recv, 0 for an orderly end. */
static void tcp_ended(madi_tcp_link_t *link, int error)
{
    int tx_error = atomic_load_explicit(&link->tx_errno, memory_order_relaxed);
    char text[MADI_REASON_MAX];
    if (!error)
        error = tx_error;
    if (error == ETIMEDOUT) {
        madi_tcp_down(link, MAD_ERR_PEER, "no answer within MAD_PEER_TIMEOUT: the host or the network is gone");
    } else if (error && error != ECONNRESET && error != EPIPE) {
        snprintf(text, sizeof(text), "connection lost: %s", strerror(error));
        madi_tcp_down(link, MAD_ERR_PEER, text);
    } else if (link->in_body || link->head != link->tail) {
        madi_tcp_down(link, MAD_ERR_PEER, "connection closed by peer in the middle of a packet");
    } else {
        madi_tcp_down(link, MAD_ERR_PEER, "connection closed by peer");
    }
}

/* True if the body of this packet may have a destination in the program's memory. */
static bool tcp_placed(const madi_wire_hdr_t *hdr)
{
    return hdr->type == MADI_WIRE_DATA || (hdr->type == MADI_WIRE_MSG && hdr->flags & MADI_WIRE_CONT);
}

/* True if the header is valid; if not the link ends. */
static bool tcp_check(madi_tcp_link_t *link, const madi_wire_hdr_t *hdr)
{
    bool big = tcp_placed(hdr) || hdr->type == MADI_WIRE_FORWARD;
    size_t max = (big ? MADI_TCP_CHUNK_MAX : MADI_TCP_PACKET_MAX) - sizeof(*hdr);
    char text[MADI_REASON_MAX];
    if (MADI_LIKELY(hdr->type >= MADI_WIRE_MSG && hdr->type < MADI_WIRE_TYPES && hdr->length <= max))
        return true;
    snprintf(text, sizeof(text),
             "received a packet of type %u with %u bytes, which no peer sends: check which program the peer runs", hdr->type,
             (unsigned)hdr->length);
    madi_tcp_down(link, MAD_ERR_PROTOCOL, text);
    return false;
}

/* Get the destination of a packet's body from the core; the header was already taken from rx_buf.  Return false if the
 * core decides only in the next poll. */
static bool tcp_begin(madi_tcp_link_t *link)
{
    bool whole = link->tail - link->head >= link->hdr.length;
    bool lent = whole && link->hdr.type == MADI_WIRE_MSG && link->hdr.length > MADI_TAKE_MAX && madi_tcp_lend(link);
    madi_foreign_t loan = lent ? madi_foreign_of(link->rx_buf + link->head) : (madi_foreign_t){0};
    link->rx.loan = loan;
    link->rx.head = madi_foreign_of(link->rx_buf + link->head);
    link->rx.here = (uint32_t)(link->tail - link->head < link->hdr.length ? link->tail - link->head : link->hdr.length);
    link->rx.skip = 0;
    link->rx.defer = !link->pub.seal; /* a sealed link cannot postpone: another record may be processed first */
    link->place = madi_rx_begin(&link->pub, &link->hdr, &link->rx);
    if (lent && link->place != MADI_PLACE_KEEP)
        madi_tcp_slot_put(&link->pub, loan);
    if (link->place == MADI_PLACE_LATER)
        return false;
    link->body = link->place == MADI_PLACE_COPY ? link->rx.base : NULL;
    link->left = link->hdr.length - link->rx.skip;
    link->head += link->rx.skip;
    link->in_body = true;
    if (link->left >= (tcp_placed(&link->hdr) ? MADI_TCP_PLACED : MADI_TCP_BIG))
        link->room = MADI_TCP_RX_LOW; /* the next packet is probably big, too */
    return true;
}

static void tcp_finish(madi_tcp_link_t *link)
{
    link->in_body = false;
    if (link->place == MADI_PLACE_COPY)
        madi_rx_done(&link->pub, &link->hdr, &link->rx);
}

/* Move bytes of the body from rx_buf to the destination.  Return true if the body is complete. */
static bool tcp_body(madi_tcp_link_t *link)
{
    size_t part = link->tail - link->head < link->left ? link->tail - link->head : link->left;
    if (part && link->body) {
        memcpy(link->body, link->rx_buf + link->head, part);
        link->body += part;
    }
    link->head += part;
    link->left -= part;
    if (link->left)
        return false;
    tcp_finish(link);
    return true;
}

/* Number of bytes of a fragment's body that must have arrived before the fragment is reported to the core. */
static size_t tcp_forward_head(const madi_tcp_link_t *link)
{
    return link->hdr.length < MADI_FORWARD_HEAD ? link->hdr.length : MADI_FORWARD_HEAD;
}

/* Parse the packets in rx_buf, until less than a header is left.  Return the number of completed packets. */
static int tcp_parse(madi_tcp_link_t *link)
{
    int packets = 0;
    while (!madi_tcp_closed(link)) {
        if (!link->in_body) {
            size_t there = link->tail - link->head;
            if (there < sizeof(madi_wire_hdr_t))
                break;
            memcpy(&link->hdr, link->rx_buf + link->head, sizeof(link->hdr));
            if (!tcp_check(link, &link->hdr))
                break;
            if (MADI_UNLIKELY(link->hdr.type == MADI_WIRE_FORWARD && there < sizeof(link->hdr) + tcp_forward_head(link)))
                break;
            link->head += sizeof(link->hdr);
            if (MADI_LIKELY(link->hdr.length <= MADI_SHORT_MAX && there >= sizeof(link->hdr) + link->hdr.length)) {
                madi_rx_short(&link->pub, &link->hdr, madi_foreign_of(link->rx_buf + link->head));
                link->head += link->hdr.length;
                packets++;
                continue;
            }
            if (!tcp_begin(link)) {
                link->head -= sizeof(link->hdr);
                link->deferred = true;
                tcp_unread_add(link);
                return packets;
            }
            continue;
        }
        if (!tcp_body(link))
            break;
        packets++;
    }
    if (link->head == link->tail)
        link->head = link->tail = 0;
    else
        madi_tcp_compact(link);
    return packets;
}

/* Read by one system call and return its result.  *want: number of bytes requested. */
static ssize_t tcp_read(madi_tcp_link_t *link, size_t *want)
{
    ssize_t n;
    if (MADI_UNLIKELY(link->lent || link->head))
        madi_tcp_compact(link);
    if (link->in_body && link->body) { /* rx_buf is empty here, because its bytes went to the body first */
        *want = link->left;
        do
            n = recv(link->watch.fd, link->body, link->left, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        return n;
    }
    *want = link->room - link->tail;
    do
        n = recv(link->watch.fd, link->rx_buf + link->tail, *want, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Process n bytes that were read.  Bytes of the body are already in place; the others have to be parsed. */
static int tcp_consume(madi_tcp_link_t *link, size_t n)
{
    if (link->in_body && link->body) {
        size_t part = n < link->left ? n : link->left;
        link->body += part;
        link->left -= part;
        n -= part;
        if (link->left)
            return 1;
        tcp_finish(link);
        link->tail = n;
        return 1 + (n ? tcp_parse(link) : 0);
    }
    link->tail += n;
    if (link->tail == link->room && link->room < MADI_TCP_RX_SIZE)
        link->room *= 2;
    n = (size_t)tcp_parse(link);
    return n ? (int)n : 1;
}

/* True if these n bytes are one packet that take may copy. */
static bool tcp_is_one(const madi_tcp_link_t *link, size_t n)
{
    uint32_t length;
    memcpy(&length, link->rx_buf + offsetof(madi_wire_hdr_t, length), sizeof length);
    return n >= sizeof(madi_wire_hdr_t) && n <= sizeof(madi_wire_hdr_t) + MADI_TAKE_MAX &&
           n == sizeof(madi_wire_hdr_t) + length;
}

/* Lend the body if the n bytes that were read are one packet.  Return false if they are not one packet, or if the body
 * cannot be lent. */
static bool tcp_take_lent(madi_tcp_link_t *link, void *packet, madi_foreign_t *loan, size_t n)
{
    madi_wire_hdr_t hdr;
    if (n <= sizeof(hdr) + MADI_TAKE_MAX)
        return false;
    memcpy(&hdr, link->rx_buf, sizeof(hdr));
    if (hdr.type != MADI_WIRE_MSG || n != sizeof(hdr) + hdr.length || n > MADI_TCP_PACKET_MAX || !madi_tcp_lend(link))
        return false;
    memcpy(packet, &hdr, sizeof(hdr));
    *loan = madi_foreign_of(link->rx_buf + sizeof(hdr));
    return true;
}

int madi_tcp_take(madi_tcp_link_t *link, void *packet, madi_foreign_t *loan)
{
    size_t want;
    ssize_t n = tcp_read(link, &want);
    int others;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            tcp_ended(link, n ? errno : 0);
        return 0;
    }
    if (MADI_LIKELY(tcp_is_one(link, (size_t)n))) {
        memcpy(packet, link->rx_buf, MADI_PACKET_SHORT);
        if ((size_t)n > MADI_PACKET_SHORT)
            memcpy((char *)packet + MADI_PACKET_SHORT, link->rx_buf + MADI_PACKET_SHORT, (size_t)n - MADI_PACKET_SHORT);
        return tcp_check(link, packet);
    }
    if (tcp_take_lent(link, packet, loan, (size_t)n))
        return 1;
    others = tcp_consume(link, (size_t)n);
    if ((size_t)n == want && !madi_tcp_closed(link))
        tcp_unread_add(link);
    return -others;
}

int madi_tcp_receive(madi_tcp_link_t *link, int budget)
{
    int events = 0;
    if (link->deferred) {
        link->deferred = false;
        events = tcp_parse(link);
    }
    while (!madi_tcp_closed(link) && !link->deferred) {
        size_t want;
        ssize_t n = tcp_read(link, &want);
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN)
                tcp_ended(link, n ? errno : 0);
            return events + (n == 0);
        }
        events += tcp_consume(link, (size_t)n);
        if ((size_t)n < want && !link->ending) /* the socket is empty, which another call would only confirm */
            break;
        if (events >= budget && !madi_tcp_closed(link)) {
            tcp_unread_add(link);
            break;
        }
    }
    if (!madi_tcp_closed(link)) {
        madi_tcp_of(link)->hot_got = link;
        madi_tcp_heat(madi_tcp_of(link));
    }
    return events;
}

/* For sealed links.  These functions wrap the static ones, so that the static ones are still inlined for plain links. */
void madi_tcp_unread_add(madi_tcp_link_t *link)
{
    tcp_unread_add(link);
}

void madi_tcp_ended(madi_tcp_link_t *link, int error)
{
    if (!error && link->pub.seal && !link->said_end && link->head == link->tail && !link->in_body)
        madi_tcp_down(
            link, MAD_ERR_PEER,
            "connection closed without TLS's close_notify: the peer was killed, or the connection was cut on the way");
    else
        tcp_ended(link, error);
}

int madi_tcp_consume(madi_tcp_link_t *link, size_t n)
{
    return tcp_consume(link, n);
}

int madi_tcp_parse(madi_tcp_link_t *link, size_t n)
{
    link->tail += n;
    n = (size_t)tcp_parse(link);
    return n ? (int)n : 1;
}

bool madi_tcp_is_one(const madi_tcp_link_t *link, size_t n)
{
    return tcp_is_one(link, n);
}

bool madi_tcp_take_copy(madi_tcp_link_t *link, void *packet, size_t n)
{
    memcpy(packet, link->rx_buf, n > MADI_PACKET_SHORT ? n : MADI_PACKET_SHORT);
    return tcp_check(link, packet);
}

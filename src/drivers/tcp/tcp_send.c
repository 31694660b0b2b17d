/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: sending on a link. */
#include "drivers/tcp/tcp.h"
#include <assert.h>
#include <errno.h>
#include <string.h>

void madi_tcp_keep_no_more(madi_tcp_link_t *link)
{
    if (link->tx_holds)
        madi_link_holds(&link->pub, -1);
    link->tx_holds = false;
}

/* Return the number of bytes that the socket has accepted: 0 if it is full, -1 on an error. */
static ssize_t tcp_write(int fd, const struct iovec *vec, int n)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)vec, .msg_iovlen = (size_t)n};
    ssize_t done;
    do {
        if (n == 1)
            done = send(fd, vec->iov_base, vec->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
            done = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (done < 0 && errno == EINTR);
    if (done < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM))
        return 0;
    return done;
}

static ssize_t tcp_write_small(int fd, const struct iovec *vec, int n)
{
    char copy[MADI_TCP_SMALL];
    struct iovec one = {copy, 0};
    for (int i = 0; i < n; i++) {
        if (vec[i].iov_len) /* an empty piece may have no address */
            memcpy(copy + one.iov_len, vec[i].iov_base, vec[i].iov_len);
        one.iov_len += vec[i].iov_len;
    }
    return tcp_write(fd, &one, 1);
}

/* Handle an error of sending.  Runs in any thread without the session's lock, so the receiving side has to report the
 * error: that side sees the end of the connection after this shutdown of the socket. */
static void tcp_broken(madi_tcp_link_t *link)
{
    atomic_store_explicit(&link->tx_errno, errno, memory_order_relaxed);
    shutdown(link->watch.fd, SHUT_RDWR);
}

/* Drop the first done bytes of vec[vec_at..vec_n). */
static void tcp_advance(madi_tcp_link_t *link, size_t done)
{
    while (link->vec_at < link->vec_n && done >= link->vec[link->vec_at].iov_len)
        done -= link->vec[link->vec_at++].iov_len;
    if (done) {
        struct iovec *v = &link->vec[link->vec_at];
        v->iov_base = (char *)v->iov_base + done;
        v->iov_len -= done;
    }
}

/* Keep a copy of the part of a packet that the socket did not accept. */
static void tcp_keep_copy(madi_tcp_link_t *link, const struct iovec *vec, int n, size_t done)
{
    struct iovec *to = link->vec;
    *to = (struct iovec){link->tx_buf, 0};
    link->vec_at = 0;
    link->vec_n = 1;
    for (int i = 0; i < n; i++) {
        size_t skip = done < vec[i].iov_len ? done : vec[i].iov_len;
        done -= skip;
        if (vec[i].iov_len > skip)
            memcpy(link->tx_buf + to->iov_len, (char *)vec[i].iov_base + skip, vec[i].iov_len - skip);
        to->iov_len += vec[i].iov_len - skip;
    }
}

/* Keep the part of an operation's packet that the socket did not accept: the operation's own bytes by address, and the
 * packet ahead of them (op->ahead) by a copy. */
static void tcp_keep_op(madi_tcp_link_t *link, const struct iovec *vec, int n, size_t done, madi_op_t *op)
{
    size_t ahead = 0;
    int n_ahead = 0;
    while (ahead < op->ahead)
        ahead += vec[n_ahead++].iov_len;
    link->op = op;
    tcp_keep_copy(link, vec, n_ahead, done);
    memcpy(link->vec + 1, vec + n_ahead, (size_t)(n - n_ahead) * sizeof(*vec));
    link->vec_n = 1 + n - n_ahead;
    tcp_advance(link, done > ahead ? done - ahead : 0);
}

ssize_t madi_tcp_write(int fd, const struct iovec *vec, int n)
{
    return tcp_write(fd, vec, n);
}

void madi_tcp_broken(madi_tcp_link_t *link)
{
    tcp_broken(link);
}

void madi_tcp_advance(madi_tcp_link_t *link, size_t done)
{
    tcp_advance(link, done);
}

madi_sent_t madi_tcp_send(madi_link_t *pub, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    madi_tcp_adapter_t *tcp = madi_tcp_of(link);
    ssize_t done;
    assert(n >= 1 && n <= MADI_TCP_GATHER && vec->iov_len >= sizeof(madi_wire_hdr_t));
    assert(total <= (op ? op->ahead + MADI_TCP_CHUNK_MAX : MADI_TCP_PACKET_MAX));

    if (atomic_load_explicit(&link->tx_blocked, memory_order_relaxed)) {
        link->tx_refused = true;
        return MADI_AGAIN;
    }
    /* Set before the socket is tried: an edge that is reported directly after the socket was full must find tx_blocked
     * set. (The kernel's locks on the socket's wait queue order the two threads.) */
    atomic_store_explicit(&link->tx_blocked, true, memory_order_release);
    done = n > 1 && total <= MADI_TCP_SMALL ? tcp_write_small(link->watch.fd, vec, n) : tcp_write(link->watch.fd, vec, n);
    if (atomic_load_explicit(&tcp->hot_sent, memory_order_relaxed) != link)
        atomic_store_explicit(&tcp->hot_sent, link, memory_order_relaxed);
    madi_tcp_heat(tcp);
    if (MADI_UNLIKELY(!atomic_load_explicit(&tcp->alive_set, memory_order_relaxed)))
        madi_tcp_alive_set(tcp);
    if (MADI_LIKELY(done == (ssize_t)total)) {
        atomic_store_explicit(&link->tx_blocked, false, memory_order_release);
        return MADI_SENT;
    }
    if (done < 0) {
        tcp_broken(link);
        return MADI_AGAIN;
    }
    if (op) {
        tcp_keep_op(link, vec, n, (size_t)done, op);
        return MADI_TAKEN;
    }
    link->op = NULL;
    tcp_keep_copy(link, vec, n, (size_t)done);
    link->tx_holds = true;
    madi_link_holds(&link->pub, 1);
    return MADI_SENT;
}

madi_tcp_left_t madi_tcp_left_take(madi_tcp_link_t *link)
{
    madi_tcp_left_t left = {.op = link->op, .refused = link->tx_refused};
    madi_tcp_keep_no_more(link);
    link->op = NULL;
    link->tx_refused = false;
    atomic_store_explicit(&link->tx_blocked, false, memory_order_release);
    return left;
}

void madi_tcp_left_report(madi_tcp_link_t *link, const madi_tcp_left_t *left)
{
    /* Both calls may send on this link again. */
    if (left->op)
        left->op->done(left->op, MAD_OK);
    if (left->refused && !madi_tcp_closed(link))
        madi_link_writable(&link->pub);
}

int madi_tcp_flush(madi_tcp_link_t *link)
{
    madi_tcp_left_t left = {0};
    ssize_t done = 0;
    madi_link_lock_tx(&link->pub);
    if (link->vec_at < link->vec_n && !madi_tcp_closed(link)) {
        done = tcp_write(link->watch.fd, link->vec + link->vec_at, link->vec_n - link->vec_at);
        if (done < 0) {
            tcp_broken(link);
            link->vec_at = link->vec_n = 0; /* the link stays blocked; receive sees the end of the connection */
        } else {
            tcp_advance(link, (size_t)done);
        }
        if (done >= 0 && link->vec_at == link->vec_n)
            left = madi_tcp_left_take(link);
    }
    madi_link_unlock_tx(&link->pub);
    madi_tcp_left_report(link, &left);
    return done > 0;
}

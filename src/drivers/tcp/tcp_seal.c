/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: sealed links, and how an adapter comes to have them.
 *
 * A sealed adapter has a driver table of its own, so plain links pay nothing for sealing.  Sending uses the sending half
 * of link->pub.seal under the tx lock; receiving uses the other half under the session's lock.
 *
 * The bytes of a sender are in vec[vec_at..vec_n) until they are encrypted, and behind madi_seal_out until the socket
 * accepts them.  A record is decrypted directly into the body that is being received if it fits into the missing part,
 * otherwise into rx_buf. */
#include "base/knob.h"
#include "base/log.h"
#include "core/security/seal.h"
#include "drivers/tcp/tcp.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define SEAL_BATCH_MIN ((size_t)2 * MADI_SEAL_TEXT) /* bytes: a packet without an op may be at least this long */
static_assert(SEAL_BATCH_MIN >= MADI_TCP_PACKET_MAX, "a packet without an op is encrypted at once");

static madi_tcp_adapter_t *seal_adapter(madi_tcp_link_t *link)
{
    return (madi_tcp_adapter_t *)link->pub.adapter;
}

static bool seal_closed(madi_tcp_link_t *link)
{
    return atomic_load_explicit(&link->closed, memory_order_relaxed);
}

/* ---- Receiving -------------------------------------------------------------------------------------------------- */

/* Decrypt the next record, and parse its content.  Return the number of events. */
static int seal_open_one(madi_tcp_link_t *link, size_t len)
{
    bool direct = link->in_body && link->body && len <= link->left;
    char *to = direct ? link->body : link->rx_buf + link->tail;
    assert(direct || link->tail + len <= MADI_TCP_RX_SIZE);
    switch (madi_seal_open(link->pub.seal, to, &len)) {
    case MADI_SEAL_PAYLOAD: return direct ? madi_tcp_consume(link, len) : madi_tcp_parse(link, len);
    case MADI_SEAL_ENDED:
        link->said_end = true;
        madi_tcp_ended(link, 0);
        return 1;
    case MADI_SEAL_BROKEN: madi_tcp_down(link, MAD_ERR_PROTOCOL, madi_seal_why(link->pub.seal)); return 1;
    default: return 0;
    }
}

/* Decrypt all records that have arrived completely. */
static int seal_open_all(madi_tcp_link_t *link)
{
    int events = 0;
    while (!seal_closed(link)) {
        bool broken;
        size_t len = madi_seal_peek(link->pub.seal, &broken);
        if (broken)
            madi_tcp_down(link, MAD_ERR_PROTOCOL, madi_seal_why(link->pub.seal));
        if (!len)
            break;
        events += seal_open_one(link, len);
    }
    return events;
}

/* Read by one system call and return its result.  *want: number of bytes requested. */
static ssize_t seal_read(madi_tcp_link_t *link, size_t *want)
{
    void *to = madi_seal_room(link->pub.seal, want);
    ssize_t n;
    do
        n = recv(link->watch.fd, to, *want, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        madi_seal_received(link->pub.seal, (size_t)n);
    return n;
}

int madi_tcp_seal_receive(madi_tcp_link_t *link, int budget)
{
    int events = seal_open_all(link);
    while (!seal_closed(link)) {
        size_t want;
        ssize_t n = seal_read(link, &want);
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN)
                madi_tcp_ended(link, n ? errno : 0);
            return events + (n == 0);
        }
        events += seal_open_all(link);
        if ((size_t)n < want && !link->ending) /* the socket is empty, which another call would only confirm */
            break;
        if (events >= budget && !seal_closed(link)) {
            madi_tcp_unread_add(link);
            break;
        }
    }
    if (!seal_closed(link)) {
        seal_adapter(link)->hot_got = link;
        madi_tcp_heat(seal_adapter(link));
    }
    return events;
}

/* Open the next record.  If no other record has arrived, and the record contains exactly one packet that is short
 * enough for the operation `take`, copy this packet to `packet`, and return 1.  Otherwise return 0, and set *others to
 * the number of packets that were parsed. */
static int seal_take_one(madi_tcp_link_t *link, void *packet, int *others)
{
    bool broken;
    size_t len = madi_seal_peek(link->pub.seal, &broken);
    *others = 0;
    if (!len || len > sizeof(madi_wire_hdr_t) + MADI_TAKE_MAX)
        return 0;
    switch (madi_seal_open(link->pub.seal, link->rx_buf, &len)) {
    case MADI_SEAL_PAYLOAD:
        if (MADI_LIKELY(madi_seal_empty(link->pub.seal) && madi_tcp_is_one(link, len)))
            return madi_tcp_take_copy(link, packet, len);
        *others = madi_tcp_parse(link, len);
        return 0;
    case MADI_SEAL_ENDED:
        link->said_end = true;
        madi_tcp_ended(link, 0);
        return 0;
    case MADI_SEAL_BROKEN: madi_tcp_down(link, MAD_ERR_PROTOCOL, madi_seal_why(link->pub.seal)); return 0;
    default: return 0;
    }
}

int madi_tcp_seal_take(madi_tcp_link_t *link, void *packet, madi_foreign_t *loan)
{
    size_t want;
    ssize_t n = seal_read(link, &want);
    int others;
    (void)loan;
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            madi_tcp_ended(link, n ? errno : 0);
        return 0;
    }
    if (MADI_LIKELY(seal_take_one(link, packet, &others)))
        return 1;
    others += seal_open_all(link);
    if ((size_t)n == want && !seal_closed(link))
        madi_tcp_unread_add(link);
    return -others;
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

/* Number of bytes to encrypt before the next system call.  The last batch is halved, so that the peer's decryption
 * overlaps this process's encryption. */
static size_t seal_batch(size_t left)
{
    size_t half = left / 2 & ~(size_t)(MADI_SEAL_TEXT - 1); /* whole records */
    if (left > MADI_SEAL_BATCH)
        return MADI_SEAL_BATCH;
    return half > SEAL_BATCH_MIN ? half : SEAL_BATCH_MIN;
}

/* Encrypt and send the waiting bytes.  Return 1 if all have left, 0 if the socket is full, -1 if the connection is
 * broken. */
static int seal_pump(madi_tcp_link_t *link)
{
    size_t left = 0;
    for (int i = link->vec_at; i < link->vec_n; i++)
        left += link->vec[i].iov_len;
    for (;;) {
        struct iovec out = {NULL, 0};
        size_t put;
        ssize_t done;
        out.iov_base = (void *)(uintptr_t)madi_seal_out(link->pub.seal, &out.iov_len);
        done = out.iov_len ? madi_tcp_write(link->watch.fd, &out, 1) : 0;
        if (done < 0)
            return -1;
        madi_seal_sent(link->pub.seal, (size_t)done);
        if ((size_t)done < out.iov_len)
            return 0;
        if (link->vec_at == link->vec_n)
            return 1;
        put = madi_seal_put(link->pub.seal, link->vec + link->vec_at, link->vec_n - link->vec_at, seal_batch(left));
        if (!put)
            return -1;
        left -= put;
        madi_tcp_advance(link, put);
    }
}

/* Send the plain bytes on a link whose records the kernel makes. */
static madi_sent_t seal_send_kernel(madi_tcp_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    if (!atomic_load_explicit(&link->tx_blocked, memory_order_relaxed) &&
        !madi_seal_kernel_count(link->pub.seal, link->watch.fd, total)) {
        atomic_store_explicit(&link->tx_blocked, true, memory_order_release); /* the link takes nothing any more */
        madi_tcp_broken(link);
        return MADI_AGAIN;
    }
    return madi_tcp_send(&link->pub, vec, n, total, op);
}

madi_sent_t madi_tcp_seal_send(madi_link_t *pub, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    madi_tcp_adapter_t *tcp = seal_adapter(link);
    int done;
    assert(n >= 1 && n <= MADI_TCP_GATHER && vec->iov_len >= sizeof(madi_wire_hdr_t));
    assert(total <= (op ? op->ahead + MADI_TCP_CHUNK_MAX : MADI_TCP_PACKET_MAX));
    (void)total;

    if (link->kernel)
        return seal_send_kernel(link, vec, n, total, op);
    if (atomic_load_explicit(&link->tx_blocked, memory_order_relaxed)) {
        link->tx_refused = true;
        return MADI_AGAIN;
    }
    /* Set before the socket is tried, so that an edge reported meanwhile finds tx_blocked true (madi_tcp_send). */
    atomic_store_explicit(&link->tx_blocked, true, memory_order_release);
    memcpy(link->vec, vec, (size_t)n * sizeof *vec);
    link->vec_at = 0;
    link->vec_n = n;
    done = seal_pump(link);
    if (atomic_load_explicit(&tcp->hot_sent, memory_order_relaxed) != link)
        atomic_store_explicit(&tcp->hot_sent, link, memory_order_relaxed);
    madi_tcp_heat(tcp);
    if (MADI_UNLIKELY(!atomic_load_explicit(&tcp->alive_set, memory_order_relaxed)))
        madi_tcp_alive_set(tcp);
    if (MADI_LIKELY(done > 0)) {
        atomic_store_explicit(&link->tx_blocked, false, memory_order_release);
        return MADI_SENT;
    }
    if (done < 0) {
        link->vec_at = link->vec_n = 0; /* the link stays blocked; receive sees the end of the connection */
        madi_tcp_broken(link);
        return MADI_AGAIN;
    }
    if (link->vec_at < link->vec_n) {
        link->op = op;
        return MADI_TAKEN;
    }
    link->tx_holds = true; /* everything is encrypted, and lies in memory of the link */
    madi_link_holds(&link->pub, 1);
    return MADI_SENT;
}

/* True if bytes still have to be sent.  Under the tx lock. */
static bool seal_waits(const madi_tcp_link_t *link)
{
    size_t len;
    madi_seal_out(link->pub.seal, &len);
    return len > 0 || link->vec_at < link->vec_n;
}

int madi_tcp_seal_flush(madi_tcp_link_t *link)
{
    madi_tcp_left_t left = {0};
    int done = 0;
    if (link->kernel)
        return madi_tcp_flush(link);
    madi_link_lock_tx(&link->pub);
    if (seal_waits(link) && !seal_closed(link)) {
        done = seal_pump(link);
        if (done < 0) {
            link->vec_at = link->vec_n = 0;
            madi_tcp_broken(link);
        } else if (done > 0) {
            left = madi_tcp_left_take(link);
        }
    }
    madi_link_unlock_tx(&link->pub);
    madi_tcp_left_report(link, &left);
    return done > 0;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------ */

static void seal_ready(madi_watch_t *watch, uint32_t events)
{
    madi_tcp_link_t *link = MADI_CONTAINER(watch, madi_tcp_link_t, watch);
    const uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if ((events & (EPOLLOUT | end)) && atomic_load_explicit(&link->tx_blocked, memory_order_relaxed))
        madi_tcp_seal_flush(link);
    link->ending |= (events & end) != 0; /* no further edge reports the end */
    if ((events & (EPOLLIN | end)) && !link->is_unread)
        madi_tcp_seal_receive(link, 64);
}

mad_status_t madi_tcp_seal_start(madi_link_t *pub, int fd, bool active, char *reason)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    mad_status_t status;
    if (!pub->seal) {
        snprintf(reason, MADI_REASON_MAX, "a link of a sealed network was not sealed");
        link->watch.fd = fd;
        link->started = true; /* makes fini close the socket */
        return MAD_ERR_AUTH;
    }
    link->watch.ready = seal_ready;
    link->kernel = madi_seal_kernel_begin(pub->seal, fd);
    status = madi_tcp_start(pub, fd, active, reason);
    /* process bytes that arrived immediately after the handshake */
    if (!status && !seal_closed(link) && !madi_seal_empty(pub->seal))
        madi_tcp_unread_add(link);
    return status;
}

/* Precondition: no send runs or will run, so no other thread uses the sending half. */
void madi_tcp_seal_link_close(madi_link_t *pub)
{
    madi_tcp_link_t *link = (madi_tcp_link_t *)pub;
    struct iovec out;
    if (link->started && !link->shut && pub->seal && !atomic_load_explicit(&link->tx_blocked, memory_order_relaxed)) {
        if (link->kernel)
            madi_seal_kernel_end(link->watch.fd);
        else
            madi_seal_end(pub->seal);
        out.iov_base = (void *)(uintptr_t)madi_seal_out(pub->seal, &out.iov_len);
        if (out.iov_len)
            madi_tcp_write(link->watch.fd, &out, 1);
    }
    madi_tcp_link_close(pub);
}

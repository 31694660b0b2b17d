/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: outgoing packets.  Lock of all functions, unless their comments say otherwise: the link's tx lock. */
#include "drivers/eth/eth.h"

#include "base/clock.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Packets ---------------------------------------------------------------------------------------------------- */

static eth_packet_t *eth_packet_take(eth_link_t *l, bool small)
{
    eth_packet_t **list = small ? &l->small : &l->big, *p = *list;
    if (MADI_LIKELY(p != NULL)) {
        *list = p->next;
        return p;
    }
    p = malloc(sizeof *p + (small ? ETH_SMALL : ETH_PACKET_MAX));
    if (p)
        p->is_small = small;
    return p;
}

static void eth_packet_put(eth_link_t *l, eth_packet_t *p)
{
    eth_packet_t **list = p->is_small ? &l->small : &l->big;
    p->next = *list;
    *list = p;
}

/* Append a packet to those that are to be sent. */
static void packet_append(eth_link_t *l, eth_packet_t *p)
{
    p->next = NULL;
    p->cut = 0;
    *l->packets_end = p;
    l->packets_end = &p->next;
    l->n_packets++;
    if (!l->cutting)
        l->cutting = p;
}

void eth_packets_release(eth_link_t *l)
{
    for (eth_segment_t *s; (s = eth_out_release(&l->out));) {
        eth_packet_t *p = s->owner;
        if (!(s->flags & ETH_LAST))
            continue;
        assert(p == l->packets);
        l->packets = p->next;
        if (!l->packets)
            l->packets_end = &l->packets;
        l->n_packets--;
        if (p->op) {
            p->next = l->ended;
            l->ended = p;
        } else {
            eth_packet_put(l, p);
        }
    }
}

/* Complete the ops of a list from its end to its beginning, which is the order in which they were sent.  Without the tx
 * lock. */
static int ops_complete(eth_link_t *l, eth_packet_t *list, mad_status_t status)
{
    eth_packet_t *ordered = NULL, *next;
    int n = 0;
    for (eth_packet_t *p = list; p; p = next) {
        next = p->next;
        p->next = ordered;
        ordered = p;
    }
    for (eth_packet_t *p = ordered; p; p = next, n++) {
        madi_op_t *op = p->op;
        next = p->next;
        madi_link_lock_tx(&l->base);
        eth_packet_put(l, p);
        madi_link_unlock_tx(&l->base);
        op->done(op, status);
    }
    return n;
}

int eth_ops_done(eth_link_t *l)
{
    madi_link_lock_tx(&l->base);
    eth_packet_t *list = l->ended;
    l->ended = NULL;
    madi_link_unlock_tx(&l->base);
    return ops_complete(l, list, MAD_OK);
}

/* Called without the tx lock, when no send runs any more. */
void eth_packets_fail(eth_link_t *l)
{
    eth_packet_t *failed = NULL;
    eth_ops_done(l);
    for (eth_packet_t *p; (p = l->packets);) {
        l->packets = p->next;
        if (p->held)
            madi_link_holds(&l->base, -1);
        p->held = false;
        if (p->op) {
            p->next = failed;
            failed = p;
        } else {
            eth_packet_put(l, p);
        }
    }
    l->packets_end = &l->packets;
    l->cutting = NULL;
    l->n_packets = 0;
    ops_complete(l, failed, MAD_ERR_PEER);
}

/* Called without the tx lock, when no send runs any more. */
void eth_packets_fini(eth_link_t *l)
{
    eth_packet_t *lists[2] = {l->small, l->big}, *next;
    for (int i = 0; i < 2; i++)
        for (eth_packet_t *p = lists[i]; p; p = next) {
            next = p->next;
            free(p);
        }
    l->small = l->big = NULL;
}

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

static eth_head_t eth_head(eth_link_t *l, eth_kind_t kind, unsigned flags)
{
    return (eth_head_t){.version = ETH_VERSION,
                        .kind = (uint8_t)kind,
                        .flags = (uint8_t)flags,
                        .port = l->peer_port,
                        .key = l->peer_key,
                        .index = l->peer_index,
                        .ack = atomic_load_explicit(&l->in.next, memory_order_relaxed)};
}

/* List the pieces of a segment.  Return their number. */
static int segment_pieces(const eth_segment_t *s, struct iovec *to)
{
    const eth_packet_t *p = s->owner;
    uint64_t skip = s->from;
    size_t left = s->len;
    int n = 0;
    for (int i = 0; i < p->n && left; i++) {
        size_t here = p->vec[i].iov_len;
        if (skip >= here) {
            skip -= here;
            continue;
        }
        here -= skip;
        here = here < left ? here : left;
        to[n++] = (struct iovec){(char *)p->vec[i].iov_base + skip, here};
        left -= here;
        skip = 0;
    }
    return n;
}

/* Add a segment's frame to the batch. */
static void batch_add(eth_link_t *l, eth_segment_t *s)
{
    eth_batch_t *b = &l->batch;
    int i = b->n++, n = segment_pieces(s, b->vec[i] + 1);
    bool full = (double)l->out.flying >= l->out.cwnd; /* nothing follows before an acknowledgement */
    eth_head_t head = eth_head(l, ETH_DATA, s->flags | (full ? ETH_NOW : 0u));
    head.number = s->number;
    head.len = (uint16_t)s->len;
    if (l->sum)
        head.check = eth_frame_sum(&head, b->vec[i] + 1, n);
    atomic_store_explicit(&l->in.acked, head.ack, memory_order_relaxed);
    eth_outer_write(eth_of(l), &b->outer[i], l->peer_mac, &head);
    b->vec[i][0] = (struct iovec){&b->outer[i], ETH_OVERHEAD};
    b->messages[i].msg_hdr = (struct msghdr){.msg_iov = b->vec[i], .msg_iovlen = (size_t)n + 1};
    b->segments[i] = s;
}

/* Send the frames of the batch.  Return false if the card has no room for all of them. */
static bool batch_send(eth_link_t *l)
{
    eth_batch_t *b = &l->batch;
    int sent = 0;
    while (sent < b->n) {
        int fd = eth_of(l)->ring.fd, left = b->n - sent, n;
        if (left == 1)
            n = sendmsg(fd, &b->messages[sent].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1;
        else
            n = sendmmsg(fd, b->messages + sent, (unsigned)left, MSG_DONTWAIT | MSG_NOSIGNAL);
        int error = n < 0 ? errno : 0;
        if (MADI_UNLIKELY(error && eth_send_failed(eth_of(l), error)))
            break;
        if (MADI_UNLIKELY(error == EMSGSIZE)) {
            l->too_long = true;
            eth_due(eth_of(l), 0);
        }
        sent += n > 0 ? n : 1; /* a frame that fails otherwise is lost: the link may be down for a while */
    }
    bool all = sent == b->n;
    for (; sent < b->n; sent++)
        eth_out_unsent(&l->out, b->segments[sent]);
    b->n = 0;
    return all;
}

/* Cut the next segment from the waiting packets, and record it as sent. */
static eth_segment_t *segment_cut(eth_link_t *l, int64_t now)
{
    eth_packet_t *p = l->cutting;
    size_t left = p->total - p->cut, len = left < l->segment_max ? left : l->segment_max;
    uint8_t flags = (uint8_t)((p->cut ? 0 : ETH_FIRST) | (len == left ? ETH_LAST | (p->op ? ETH_NOW : 0) : 0));
    eth_segment_t *s = eth_out_add(&l->out, p, p->cut, (uint32_t)len, flags, now);
    p->cut += len;
    if (p->cut == p->total) {
        l->cutting = p->next;
        if (p->held)
            madi_link_holds(&l->base, -1);
        p->held = false;
    }
    return s;
}

void eth_flush(eth_link_t *l, int64_t now)
{
    bool all = true;
    while (all) {
        eth_segment_t *s = NULL;
        while (l->batch.n < ETH_BATCH) {
            s = MADI_UNLIKELY(l->out.lost != 0) ? eth_out_resend(&l->out, now) : NULL;
            if (!s && !l->out.lost && l->cutting && eth_out_room(&l->out, now))
                s = segment_cut(l, now);
            if (!s)
                break;
            batch_add(l, s);
        }
        if (!l->batch.n)
            break;
        all = batch_send(l);
    }
    l->stuck = !all;
    if (!all)
        eth_attend(eth_of(l));
    eth_due(eth_of(l), eth_out_due(&l->out, l->cutting != NULL));
}

void eth_ack_send(eth_link_t *l, bool demand)
{
    uint64_t bits[ETH_BITS];
    eth_head_t head = eth_head(l, ETH_ACK, (demand ? ETH_NOW : 0u) | (l->in.repeated ? ETH_REPEATED : 0u));
    bool some = eth_in_bits(&l->in, bits);
    struct iovec body = {bits, sizeof bits};
    head.len = some ? sizeof bits : 0;
    if (l->sum)
        head.check = eth_frame_sum(&head, &body, some);
    if (!eth_frame_post(eth_of(l), l->peer_mac, &head, bits))
        return;
    atomic_store_explicit(&l->in.acked, head.ack, memory_order_relaxed);
    l->in.now = l->in.repeated = false;
    l->ack_due = 0;
}

/* ---- The operation ---------------------------------------------------------------------------------------------- */

static void eth_packet_copy(eth_packet_t *p, const struct iovec *vec, int n, size_t total)
{
    char *to = p->data;
    for (int i = 0; i < n; i++) {
        madi_copy(to, vec[i].iov_base, vec[i].iov_len);
        to += vec[i].iov_len;
    }
    p->op = NULL;
    p->vec[0] = (struct iovec){p->data, total};
    p->n = 1;
}

static madi_sent_t packet_refuse(eth_link_t *l)
{
    atomic_store_explicit(&l->refused, true, memory_order_relaxed);
    return MADI_AGAIN;
}

madi_sent_t eth_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    eth_link_t *l = (eth_link_t *)link;
    bool copies = total <= ETH_PACKET_MAX;
    assert(n >= 1 && n <= ETH_GATHER && (op || copies));
    if (MADI_UNLIKELY(l->n_packets >= ETH_PACKETS))
        return packet_refuse(l);
    eth_packet_t *p = eth_packet_take(l, !copies || total <= ETH_SMALL);
    if (!p)
        return packet_refuse(l);
    p->total = total;
    p->held = false;
    if (copies) {
        eth_packet_copy(p, vec, n, total);
    } else {
        p->op = op;
        p->n = n;
        memcpy(p->vec, vec, (size_t)n * sizeof *vec);
    }
    packet_append(l, p);
    eth_flush(l, madi_now());
    if (MADI_UNLIKELY(p->cut < total && copies)) {
        p->held = true;
        madi_link_holds(link, 1);
    }
    return copies ? MADI_SENT : MADI_TAKEN;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that leave by rails.  Under gate->tx_lock, unless a function says otherwise. */
#include "base/clock.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/rails/rails.h"
#include "engine/numa.h"

#include <stdlib.h>
#include <string.h>

#define MEASURED_NS 5000000 /* least time of a measurement of the bandwidth */
#define FAR 1.125    /* time of a rail far from the memory of a piece, relative to that of a near one that is as quick */
#define PATIENCE 2.0 /* a rail is used instead of a better but full one if it takes at most this many times as long */

/* ---- Records -------------------------------------------------------------------------------------------------- */

/* Remove a record from w->held; false if it is not there. */
static bool held_remove(madi_rails_t *w, const rails_out_t *out)
{
    for (rails_out_t **p = &w->held; *p; p = &(*p)->next)
        if (*p == out) {
            *p = out->next;
            return true;
        }
    return false;
}

static void user_done(rails_out_t *out, mad_status_t status)
{
    madi_op_t *user = out->user;
    free(out);
    if (user)
        user->done(user, status);
}

void madi_rails_complete(rails_out_t *done, mad_status_t status)
{
    for (rails_out_t *next; done; done = next) {
        next = done->next;
        user_done(done, status);
    }
}

/* Handle that the driver no longer holds a packet.  Under session->lock only. */
static void kept_out_done(madi_op_t *op, mad_status_t status)
{
    rails_out_t *out = (rails_out_t *)op;
    madi_rails_t *w = out->rails;
    bool over;
    (void)status; /* ignored: if the link is broken, the packet is sent again by another rail */
    if (!w) {
        user_done(out, MAD_ERR_PEER);
        return;
    }
    madi_lock(&w->base.gate->tx_lock);
    out->taken = false;
    over = held_remove(w, out); /* a packet in `held` was acknowledged, or the rails are closed */
    madi_unlock(&w->base.gate->tx_lock);
    if (over)
        user_done(out, out->acknowledged ? MAD_OK : MAD_ERR_PEER);
    else
        madi_gate_work(w->base.gate); /* the packet may have to be sent again by another rail */
}

/* Like kept_out_done, but for a packet that was sent before BEGIN: the packet is complete when the driver's operation is. */
static void unkept_out_done(madi_op_t *op, mad_status_t status)
{
    rails_out_t *out = (rails_out_t *)op;
    madi_rails_t *w = out->rails;
    if (w) {
        madi_lock(&w->base.gate->tx_lock);
        held_remove(w, out);
        w->n_unkept--;
        madi_unlock(&w->base.gate->tx_lock);
    }
    user_done(out, status);
}

/* Make the record of a packet: the addresses of its parts if it has an operation, otherwise a copy.  NULL if out of
 * memory. */
static rails_out_t *record_new(madi_rails_t *w, const struct iovec *vec, int n, size_t total, madi_op_t *user)
{
    rails_out_t *out = malloc(sizeof *out + (user ? (size_t)n * sizeof *vec : sizeof *vec + total));
    unsigned char *copy;
    if (!out)
        return NULL;
    memset(out, 0, sizeof *out);
    out->rails = w;
    out->user = user;
    out->total = total;
    out->op.done = kept_out_done;
    if (user) {
        out->op.last = user->last;
        out->op.of = user->of;
        out->op.shareable = user->shareable;
        out->op.ahead = user->ahead;
        memcpy(out->vec, vec, (size_t)n * sizeof *vec);
        out->n = n;
        if (!user->ahead) { /* the header is copied, because the core may reuse it after the call */
            memcpy(&out->hdr, vec->iov_base, sizeof out->hdr);
            out->vec[0].iov_base = &out->hdr;
        }
        return out;
    }
    copy = (unsigned char *)(out->vec + 1);
    out->vec[0] = (struct iovec){copy, total};
    out->n = 1;
    for (int i = 0; i < n; copy += vec[i++].iov_len)
        if (vec[i].iov_len)
            memcpy(copy, vec[i].iov_base, vec[i].iov_len);
    return out;
}

rails_out_t *madi_rails_lost_record(madi_rails_t *w, uint32_t id, uint32_t count)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_RAIL, .flags = MADI_RAIL_LOST, .seq = count, .aux = id};
    return record_new(w, &(struct iovec){&hdr, sizeof hdr}, 1, sizeof hdr, NULL);
}

void madi_rail_append(rail_t *r, rails_out_t *out)
{
    out->next = NULL;
    *r->out_tail = out;
    r->out_tail = &out->next;
    if (!r->unsent)
        r->unsent = out;
}

/* ---- One rail ------------------------------------------------------------------------------------------------- */

bool madi_rail_control(rail_t *r, enum madi_rail_kind kind, uint32_t id, uint32_t count)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_RAIL, .flags = (uint8_t)kind, .seq = count, .aux = id};
    if ((r->join_due && kind != MADI_RAIL_JOIN) || (r->begin_due && kind != MADI_RAIL_BEGIN))
        return false; /* the driver has refused JOIN or BEGIN, which comes first */
    return r->link->driver->send(r->link, &(struct iovec){&hdr, sizeof hdr}, 1, sizeof hdr, NULL) == MADI_SENT;
}

void madi_rail_report(rail_t *r)
{
    r->ack_due = !madi_rail_control(r, MADI_RAIL_ACK, r->id, r->n_received);
    if (r->ack_due)
        return;
    r->n_reported = r->n_received;
    r->unreported = 0;
}

void madi_rails_due(mad_session_t *s, int64_t at)
{
    int64_t now = atomic_load_explicit(&s->rails_at, memory_order_relaxed);
    while (at < now &&
           !atomic_compare_exchange_weak_explicit(&s->rails_at, &now, at, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Give the first unsent packet of a rail to its driver.  Return false if the driver does not take the packet. */
static bool unsent_send(rail_t *r)
{
    rails_out_t *out = r->unsent;
    madi_sent_t sent = MADI_AGAIN;
    if (out->taken) /* the driver of a broken rail still holds the packet's memory */
        return false;
    sent = r->link->driver->send(r->link, out->vec, out->n, out->total, out->user ? &out->op : NULL);
    if (sent == MADI_AGAIN)
        return false;
    out->taken = sent == MADI_TAKEN;
    out->sent_at = madi_now();
    if (!r->in_flight)
        madi_rails_due(r->link->gate->session, out->sent_at + MADI_RAILS_STALL / 4);
    if (out->user && !r->n_pieces++)
        r->busy_since = out->sent_at;
    r->in_flight += out->total;
    r->n_sent++;
    r->unsent = out->next;
    return true;
}

/* Send the control packets that wait on a rail.  Return false if the driver does not take one of them. */
static bool controls_pump(madi_rails_t *w, rail_t *r)
{
    if (r->join_due && madi_rail_control(r, MADI_RAIL_JOIN, r->id, 0)) {
        r->join_due = false;
        r->state = RAIL_UP;
    }
    if (r->begin_due && !r->join_due && madi_rail_control(r, MADI_RAIL_BEGIN, r->id, 0)) {
        r->begin_due = false;
        w->tx_on = true;
        w->adapter.caps.ahead = false;
        w->adapter.caps.chunk_max = w->chunk_max;
    }
    if (r->ack_due && r->state == RAIL_UP)
        madi_rail_report(r);
    return !r->join_due && !r->begin_due && !r->ack_due;
}

void madi_rail_pump(madi_rails_t *w, rail_t *r)
{
    bool all = controls_pump(w, r);
    while (all && r->state == RAIL_UP && r->unsent)
        all = unsent_send(r);
    if (!all)
        madi_gate_work(w->base.gate);
}

/* ---- Acknowledged --------------------------------------------------------------------------------------------- */

/* Add an acknowledgement to the measurement of a rail's bandwidth.  bytes: bytes of pieces that it acknowledges; trip: us
 * from the sending of the last piece to this acknowledgement. */
static void bandwidth_measure(rail_t *r, double trip, uint64_t bytes, int64_t now)
{
    double measured;
    if (r->round_trip == 0 || trip < r->round_trip)
        r->round_trip = trip;
    r->busy += now - r->busy_since;
    r->busy_bytes += bytes;
    r->busy_since = now;
    if (r->busy < MEASURED_NS)
        return;
    measured = (double)r->busy_bytes * 1000 / (double)r->busy;
    if (r->busy_bytes >= MADI_RAILS_PIECE) { /* a few short packets would give no useful measurement */
        r->bandwidth = r->measured ? (r->bandwidth + measured) / 2 : measured;
        r->measured = true;
    }
    r->busy = 0;
    r->busy_bytes = 0;
}

bool madi_rail_acknowledged(madi_rails_t *w, rail_t *r, uint32_t count, rails_out_t **done)
{
    uint32_t n = count - r->n_acked;
    int64_t now = madi_now();
    uint64_t bytes = 0, of_pieces = 0;
    double trip = 0;
    if (n > r->n_sent - r->n_acked)
        return false;
    for (; n; n--) {
        rails_out_t *out = r->out, **to = out->taken ? &w->held : done;
        bytes += out->total;
        r->out = out->next;
        if (!r->out)
            r->out_tail = &r->out;
        out->acknowledged = true;
        w->n_unknown -= out->unknown;
        out->next = *to;
        *to = out;
        if (!out->user)
            continue;
        r->n_pieces--;
        of_pieces += out->total;
        trip = (double)(now - out->sent_at) / 1000;
    }
    if (of_pieces)
        bandwidth_measure(r, trip, of_pieces, now);
    r->in_flight -= bytes;
    r->n_acked = count;
    return true;
}

/* ---- The choice of the rail ----------------------------------------------------------------------------------- */

static bool is_quicker(const rail_t *a, const rail_t *b)
{
    if (a->adapter->caps.rank != b->adapter->caps.rank)
        return a->adapter->caps.rank < b->adapter->caps.rank;
    return a->adapter->caps.latency_us < b->adapter->caps.latency_us;
}

rail_t *madi_rails_quickest(madi_rails_t *w)
{
    rail_t *best = NULL;
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        if (r->state == RAIL_UP && (!best || is_quicker(r, best)))
            best = r;
    return best;
}

/* Return the time in us after which a packet of this length has probably arrived. */
static double rail_time(const rail_t *r, size_t len)
{
    return r->adapter->caps.latency_us + (double)(r->in_flight + len) / r->bandwidth;
}

/* Return the number of bytes that may be in flight on a rail: twice the number that the rail moves in a round trip. */
static uint64_t rail_window(const rail_t *r)
{
    double n = 2 * r->bandwidth * r->round_trip;
    if (n < MADI_RAILS_WINDOW || !r->measured)
        return MADI_RAILS_WINDOW;
    return n < MADI_RAILS_WINDOW_MOST ? (uint64_t)n : MADI_RAILS_WINDOW_MOST;
}

static bool rail_has_room(const rail_t *r, size_t len)
{
    return !r->unsent && r->in_flight + len <= rail_window(r);
}

/* True if the rails are on several NUMA nodes. */
static bool nodes_differ(const madi_rails_t *w)
{
    int node = MARCELI_NUMA_UNKNOWN;
    for (const rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++) {
        if (r->state != RAIL_UP)
            continue;
        if (r->adapter->node == MARCELI_NUMA_UNKNOWN)
            return false;
        if (node != MARCELI_NUMA_UNKNOWN && r->adapter->node != node)
            return true;
        node = r->adapter->node;
    }
    return false;
}

/* Return the NUMA node of the block of a piece; unknown if no rail is nearer to it than another.  The kernel is queried
 * once for each block. */
static int block_node(madi_rails_t *w, const struct iovec *vec, int n)
{
    uint32_t block = ((const madi_wire_hdr_t *)vec->iov_base)->aux;
    if (!nodes_differ(w))
        return MARCELI_NUMA_UNKNOWN;
    if (!w->node_known || w->node_block != block)
        w->node = marceli_numa_of_memory(vec[n - 1].iov_base);
    w->node_known = true;
    w->node_block = block;
    return w->node;
}

/* Like rail_time, but longer for a rail far from the memory, which is on this node: of rails that are about as quick, the
 * near one is used first. */
static double rail_time_from(const rail_t *r, size_t len, int node)
{
    return rail_time(r, len) * (node != MARCELI_NUMA_UNKNOWN && r->adapter->node != node ? FAR : 1);
}

/* Return the rail that delivers a piece first, of those that were not tried; NULL: none.  tried: a bit for each. */
static rail_t *rail_choose(madi_rails_t *w, size_t len, int node, unsigned tried)
{
    rail_t *best = NULL;
    for (int i = 0; i < MADI_RAILS_MOST; i++) {
        rail_t *r = &w->rail[i];
        if (r->state == RAIL_UP && !(tried & 1u << i) &&
            (!best || rail_time_from(r, len, node) < rail_time_from(best, len, node)))
            best = r;
    }
    return best;
}

/* ---- Packets -------------------------------------------------------------------------------------------------- */

/* Send a packet by a rail that counts its packets. */
static madi_sent_t packet_keep(madi_rails_t *w, rail_t *r, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    rails_out_t *out, **tail = r->out_tail;
    if (r->unsent || !(out = record_new(w, vec, n, total, op)))
        return MADI_AGAIN;
    madi_rail_append(r, out);
    if (unsent_send(r))
        return op ? MADI_TAKEN : MADI_SENT;
    r->out_tail = tail;
    *tail = NULL;
    r->unsent = NULL;
    free(out);
    return MADI_AGAIN;
}

/* Send a piece of a granted block by the best rail that takes it. */
static madi_sent_t rails_piece_send(madi_rails_t *w, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    unsigned tried = 0;
    double limit = 0;
    int node = block_node(w, vec, n);
    for (rail_t *r; (r = rail_choose(w, total, node, tried)); tried |= 1u << (r - w->rail)) {
        if (tried && rail_time(r, total) > limit)
            break;
        if (!tried)
            limit = PATIENCE * rail_time(r, total);
        if (rail_has_room(r, total) && packet_keep(w, r, vec, n, total, op) == MADI_TAKEN) {
            r->bytes_out += total - sizeof(madi_wire_hdr_t);
            if (r->adapter != w->base_adapter)
                MADI_GATE_COUNT(w->base.gate, rail_bytes_sent, total - sizeof(madi_wire_hdr_t));
            return MADI_TAKEN;
        }
    }
    return MADI_AGAIN;
}

/* Send a packet that has to stay in order, by the rail that carries messages. */
static madi_sent_t ordered_send(madi_rails_t *w, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    rail_t *best;
    if (!w->first)
        return MADI_AGAIN;
    /* the rail may be changed now, since no packet of the other rail can be overtaken */
    if (!w->first->out && (best = madi_rails_quickest(w)) != w->first) {
        w->first = best;
        w->last_adapter = best->adapter;
    }
    if (w->first->n_sent - w->first->n_acked >= MADI_RAILS_KEPT || w->first->in_flight > MADI_RAILS_KEPT_BYTES)
        return MADI_AGAIN; /* the next ACK has the gate send again */
    return packet_keep(w, w->first, vec, n, total, op);
}

/* Send a packet before BEGIN, by the first rail.  The loss of this rail is then the loss of the peer. */
static madi_sent_t unkept_send(madi_rails_t *w, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    madi_link_t *link = w->first->link;
    rails_out_t *out;
    madi_sent_t sent;
    if (!op)
        return link->driver->send(link, vec, n, total, NULL);
    if (!(out = record_new(w, vec, n, total, op)))
        return MADI_AGAIN;
    out->op.done = unkept_out_done;
    sent = link->driver->send(link, out->vec, n, total, &out->op);
    if (sent != MADI_TAKEN) {
        free(out);
        return sent;
    }
    out->taken = true;
    out->next = w->held;
    w->held = out;
    w->n_unkept++;
    return MADI_TAKEN;
}

madi_sent_t madi_rails_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    madi_rails_t *w = (madi_rails_t *)link;
    bool piece = op && ((const madi_wire_hdr_t *)vec->iov_base)->type == MADI_WIRE_DATA;
    if (MADI_UNLIKELY(w->closed))
        return MADI_AGAIN;
    if (!w->tx_on && piece && op->of >= MADI_RAILS_BLOCK && !w->first->begin_due) {
        w->first->begin_due = true;
        madi_rail_pump(w, w->first);
    }
    if (!w->tx_on)
        return unkept_send(w, vec, n, total, op);
    return piece ? rails_piece_send(w, vec, n, total, op) : ordered_send(w, vec, n, total, op);
}

bool madi_rails_send_short(madi_link_t *link, const void *packet, size_t total)
{
    madi_rails_t *w = (madi_rails_t *)link;
    struct iovec vec = {(void *)(uintptr_t)packet, total};
    if (!w->tx_on && !w->closed && w->first->link->driver->fast.send_short)
        return w->first->link->driver->fast.send_short(w->first->link, packet, total);
    return madi_rails_send(link, &vec, 1, total, NULL) == MADI_SENT;
}

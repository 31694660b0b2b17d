/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous blocks: granted to the sender, and received; also those that mad_unpack_try needs. */
#include "base/clock.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/link/trace.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/rdv_recv.h"
#include "core/recv/receive.h"
#include "core/recv/recv_gate.h"
#include "core/send/policy.h"
#include "core/send/share.h"
#include "core/wire/handle.h"
#include "core/wire/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void madi_rdv_send_grant(madi_gate_t *gate, uint32_t sender, uint32_t receiver, uint64_t len, bool drop)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_GRANT, .length = sizeof(madi_wire_grant_t)};
    madi_wire_grant_t grant = {sender, receiver, len, drop, 0};
    madi_gate_ctrl(gate, &hdr, &grant);
}

/* ---- Reading of a block, or of the receiver's part of a shared block, from the sender's memory ------------------ */

static void pull_end(madi_rdv_recv_t *r)
{
    madi_gate_t *gate = r->gate;
    for (madi_rdv_recv_t **p = &gate->recv->pulls; *p; p = &(*p)->next_pull)
        if (*p == r) {
            *p = r->next_pull;
            if (gate->recv->pulls_tail == &r->next_pull)
                gate->recv->pulls_tail = p;
            break;
        }
    r->at = 0;
}

/* Give up reading from the sender's memory, so that the sender sends the block, or the part that this side was to read. */
static void pull_refused(madi_rdv_recv_t *r)
{
    pull_end(r);
    r->end = r->len;
    madi_rdv_send_grant(r->gate, r->sender, r->handle, r->len, false);
}

/* Complete this side's reading: send a grant with `drop`, which completes the block at the sender. */
static void pull_done(madi_rdv_recv_t *r)
{
    pull_end(r);
    r->gate->recv->count.pulled_bytes += r->len - r->end;
    r->msg->conn->block_bytes_in += r->len - r->end;
    madi_rdv_send_grant(r->gate, r->sender, 0, r->len, true);
    madi_rdv_recv_check(r);
}

unsigned char *madi_rdv_place(const madi_rdv_recv_t *r)
{
    return r->bounce ? r->bounce : r->pieces[0].iov_base;
}

static void pull_stride(madi_rdv_recv_t *r)
{
    madi_gate_t *gate = r->gate;
    size_t n = r->len - r->read < MADI_STRIDE ? (size_t)(r->len - r->read) : MADI_STRIDE;
    struct iovec vec[2] = {{madi_rdv_place(r) + r->read, n}};
    if (!gate->link->driver->direct.get(gate->link, vec, 1, r->at + r->read, n))
        pull_refused(r);
    else if ((r->read += n) == r->len)
        pull_done(r);
}

int madi_rdv_pull(madi_gate_t *gate)
{
    if (!gate->recv->pulls || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return 0;
    pull_stride(gate->recv->pulls);
    if (gate->recv->pulls)
        madi_gate_go_on(gate);
    return 1;
}

static void pull_start(madi_rdv_recv_t *r, uint64_t at)
{
    madi_gate_t *gate = r->gate;
    if (!gate->recv->pulls)
        gate->recv->pulls_tail = &gate->recv->pulls;
    r->at = at;
    r->read = r->end;
    r->next_pull = NULL;
    *gate->recv->pulls_tail = r;
    gate->recv->pulls_tail = &r->next_pull;
}

/* ---- Shared --------------------------------------------------------------------------------------------------- */

/* True if each of the two sides is to move a part of the block: the sender has chosen that, or it has proved faster. */
static bool block_is_shared(madi_rdv_recv_t *r, const madi_sent_block_t *block)
{
    madi_gate_t *gate = r->gate;
    if (block->shared)
        return r->shared = true;
    if (!gate->recv->share) {
        gate->recv->share = calloc(1, sizeof *gate->recv->share);
        if (!gate->recv->share)
            return false;
        gate->recv->share->shared_first = true;
        gate->recv->share->lead = MADI_SHARE_LEAD;
    }
    r->shared = madi_share_next(gate->recv->share, r->len, &r->timed);
    if (r->timed)
        r->granted = madi_now();
    return r->shared;
}

/* Read the bytes behind r->end, and the first stride of them at once.  The waiting thread has nothing else to do; the
 * sender moves its own part, or waits as well. */
static void pull_at_once(madi_rdv_recv_t *r, uint64_t at)
{
    madi_gate_t *gate = r->gate;
    bool first = !gate->recv->pulls;
    pull_start(r, at);
    if (first)
        pull_stride(r);
    if (gate->recv->pulls)
        madi_gate_go_on(gate);
}

/* Share the block: the sender moves the first part, and this side reads the rest.  The parts meet where a page begins in
 * this side's memory. */
static void block_share(madi_rdv_recv_t *r, uint64_t at)
{
    madi_gate_t *gate = r->gate;
    uint64_t to = (uintptr_t)madi_rdv_place(r), middle = to + r->eager + (r->len - r->eager) / 2;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_SHARE, .length = sizeof(madi_wire_share_t)};
    madi_wire_share_t s = {r->sender, r->handle, r->len, to, (middle & ~(uint64_t)4095) - to};
    r->end = s.end;
    madi_gate_ctrl(gate, &hdr, &s);
    pull_at_once(r, at);
}

void madi_rdv_written(madi_rdv_recv_t *r, uint64_t end)
{
    r->gate->recv->count.placed_bytes += end - r->received;
    r->msg->conn->block_bytes_in += end - r->received;
    r->received = end;
}

bool madi_rdv_begin(madi_gate_t *gate, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    madi_rdv_recv_t *r = madi_handle_get(gate->session->recv.blocks, hdr->aux);
    uint64_t offset = hdr->seq | (uint64_t)hdr->channel << 32;

    if (!r || r->gate != gate || offset > r->end || hdr->length > r->end - offset)
        return false;
    if (gate->rails) { /* pieces come in any order, each once (core/rails.h): a block is never complete before its last one */
        if (offset < r->eager || hdr->length > r->end - r->received - r->arriving)
            return false;
        r->arriving += hdr->length;
    } else if (offset < r->received || (offset > r->received && !r->shared)) {
        return false;
    }
    rx->base = madi_rdv_place(r) + offset;
    rx->cookie = r;
    if (offset > r->received && r->shared)
        madi_rdv_written(r, offset);
    r->piece_began = madi_trace_now();
    return true;
}

void madi_rdv_arrived(madi_rdv_recv_t *r, uint32_t len)
{
    if (MADI_UNLIKELY(madi_tracing) && r->gate->link)
        madi_trace_link(MADI_TRACE_PIECE_IN, r->piece_began, r->gate->link, r->handle, len);
    r->received += len;
    r->arriving -= r->gate->rails ? len : 0;
    r->gate->recv->count.taken_bytes += len;
    r->msg->conn->block_bytes_in += len;
    madi_rdv_recv_check(r);
}

void madi_rdv_abandon(madi_gate_t *gate, uint32_t handle, uint32_t len)
{
    madi_rdv_recv_t *r = madi_handle_get(gate->session->recv.blocks, handle);
    if (r && r->gate == gate)
        r->arriving -= len;
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

static madi_rdv_recv_t *received_alloc(madi_rx_msg_t *m, int n)
{
    madi_rdv_recv_t *r = n == 1 ? m->free_block : NULL;
    if (r)
        m->free_block = NULL;
    else /* faster than calloc, for which glibc does not use the thread's cache */
        r = malloc(sizeof *r + (size_t)n * sizeof r->pieces[0]);
    return r;
}

/* Keep the memory of one block with the message's structure, which is reused. */
static void received_free(madi_rx_msg_t *m, madi_rdv_recv_t *r)
{
    if (m->free_block || r->n != 1)
        free(r);
    else
        m->free_block = r;
}

/* ---- Granted -------------------------------------------------------------------------------------------------- */

void madi_rdv_recv_done(madi_rdv_recv_t *r)
{
    madi_rx_msg_t *m = r->msg;
    marceli_waiter_t *waiter = m->waiter;
    /* A message that was ended with a request is finished by this function.  Otherwise the program may be waiting for the
     * last block, and may free the message as soon as that block is counted. */
    bool ended = m->ended;
    if (r->at)
        pull_end(r);
    if (madi_cont_of(m) == r)
        atomic_store_explicit(&m->receiving.cont, NULL, memory_order_relaxed);
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_BLOCK_IN, r->began, m->conn, r->handle, r->len);
    if (r->bounce)
        madi_spread(r->pieces, r->n, madi_foreign_of((char *)r->bounce + r->eager), r->eager, r->len - r->eager);
    free(r->bounce);
    if (r->wait)
        atomic_store_explicit(&r->wait->done, 1, memory_order_release); /* pairs with madi_done */
    if (r->next)
        r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        r->gate->recv->incoming = r->next;
    madi_handle_del(r->gate->session->recv.blocks, r->handle);
    received_free(m, r);
    atomic_fetch_sub_explicit(&m->rdv_pending, 1, memory_order_release); /* pairs with end_test */
    if (ended)
        madi_rx_finish(m);
    if (waiter) /* safe, since the waiting thread takes session->lock before it goes on */
        marceli_waiter_wake(waiter);
}

static void block_count(const madi_rdv_recv_t *r)
{
    madi_gate_t *gate = r->gate;
    *(r->end == r->eager ? &gate->recv->count.pulled_blocks : &gate->recv->count.taken_blocks) += 1;
    gate->recv->count.shared_blocks += r->shared;
    if (r->timed)
        madi_share_record(gate->recv->share, r->len, r->shared, madi_now() - r->granted);
}

void madi_rdv_recv_check(madi_rdv_recv_t *r)
{
    if (r->at || r->received != r->end)
        return;
    block_count(r);
    madi_rdv_recv_done(r);
}

/* Choose whether a block is shared, read, or sent.  The first two are possible only if the sender has sent the block's
 * address. */
static madi_path_t block_path(const madi_rdv_recv_t *r, const madi_sent_block_t *block)
{
    static const madi_path_limits_t announced = {0};
    madi_path_block_t b = {.len = r->len - r->eager,
                           .contiguous = block->at,
                           .direct = r->gate->link->direct,
                           .alone = !block->waits,
                           .engaged = atomic_load_explicit(&r->gate->n_announced, memory_order_relaxed) ||
                                      madi_session_oversubscribed(r->gate->session),
                           .sender = block->waits ? MADI_SENDER_WAITS : MADI_SENDER_COMPUTES};
    return madi_path_choose(&b, &announced);
}

static void block_choose_path(madi_rdv_recv_t *r, const madi_sent_block_t *block)
{
    madi_path_t path = block_path(r, block);
    if (path == MADI_PATH_SHARE && block_is_shared(r, block)) {
        block_share(r, block->at);
    } else if (path == MADI_PATH_READ && block->waits) {
        r->end = r->eager;
        pull_at_once(r, block->at);
    } else if (path == MADI_PATH_READ) {
        r->end = r->eager;
        pull_start(r, block->at);
        madi_gate_go_on(r->gate);
    } else {
        madi_rdv_send_grant(r->gate, r->sender, r->handle, r->len, false);
    }
}

madi_rdv_recv_t *madi_rdv_recv_new(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t len, uint64_t here,
                                   madi_waitable_t *wait, bool granted)
{
    madi_gate_t *gate = m->conn->gate;
    madi_rdv_recv_t *r = received_alloc(m, n);
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r);
    r->n = n;
    if (n > 1 && !(r->bounce = malloc(len)))
        goto fail;
    if (granted && !(r->handle = madi_handle_add(gate->session->recv.blocks, r)))
        goto fail;
    r->msg = m;
    r->gate = gate;
    r->len = len;
    r->received = r->eager = here;
    r->end = len;
    r->wait = wait;
    if (wait)
        atomic_store_explicit(&wait->done, 0, memory_order_relaxed);
    memcpy(r->pieces, pieces, (size_t)n * sizeof *pieces);
    r->next = gate->recv->incoming;
    if (r->next)
        r->next->prev = r;
    gate->recv->incoming = r;
    if (m->base.plain) /* `plain` is written only once, because for a later block the message's owner may be reading it */
        m->base.plain = MADI_PLAIN_NONE;
    atomic_fetch_add_explicit(&m->rdv_pending, 1, memory_order_relaxed);
    m->rdv_bytes += len;
    r->began = madi_trace_now();
    return r;

fail:
    free(r->bounce);
    received_free(m, r);
    return NULL;
}

/* Name the destination of a block to its sender.  wait (or NULL) completes when the block has arrived.  Under
 * session->lock. */
mad_status_t madi_rdv_grant(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t len,
                            const madi_sent_block_t *block, madi_waitable_t *wait)
{
    madi_gate_t *gate = m->conn->gate;
    const madi_wire_rdv_t *rdv = &block->rdv;
    madi_rdv_recv_t *r;

    if (rdv->eager == len) {
        madi_rdv_send_grant(gate, rdv->sender, 0, len, true);
        return MAD_OK;
    }
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return MAD_ERR_PEER;
    r = madi_rdv_recv_new(m, pieces, n, len, rdv->eager, wait, true);
    if (!r) {
        madi_rdv_send_grant(gate, rdv->sender, 0, len, true);
        return MAD_ERR_NOMEM;
    }
    r->sender = rdv->sender;
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_GRANT, 0, m->conn, r->handle, len);
    block_choose_path(r, block);
    return MAD_OK;
}

void madi_rdv_recv_fail(madi_gate_t *gate, mad_status_t status)
{
    madi_rdv_recv_t *r;
    while ((r = gate->recv->incoming)) {
        madi_message_fail(&r->msg->base, status);
        /* the block has failed: mark all bytes as placed, so that none are copied from the bounce buffer */
        r->eager = r->len;
        madi_rdv_recv_done(r);
    }
}

/* ---- Blocks that mad_unpack_try needs before they have arrived -------------------------------------------------- */

/* Receive the next block, which is announced or continued, into memory of the library, because the program may call
 * again with another buffer.  Under session->lock. */
mad_status_t madi_early_start(madi_rx_msg_t *m, const madi_sent_block_t *b)
{
    size_t len = (size_t)MADI_WIRE_DESC_LEN(b->desc);
    madi_rx_early_t *early = malloc(sizeof *early + len);
    struct iovec piece;
    mad_status_t status;
    m->cur = b->behind;
    if (!early) {
        madi_block_refuse(m, b);
        madi_message_fail(&m->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    early->desc = b->desc;
    early->borrowed = false;
    early->charged = 0;
    atomic_init(&early->arrived.done, 1);
    piece = (struct iovec){early->data, len};
    madi_foreign_copy(early->data, b->data, b->inside);
    m->base.plain = MADI_PLAIN_NONE;
    m->early = early;
    status = b->continued ? madi_cont_start(m, &piece, 1, b, &early->arrived)
                          : madi_rdv_grant(m, &piece, 1, len, b, &early->arrived);
    if (status)
        madi_message_fail(&m->base, status);
    return status || madi_done(&early->arrived) ? status : MAD_ERR_AGAIN;
}

mad_status_t madi_early_start_charged(madi_rx_msg_t *m, const madi_sent_block_t *b)
{
    int64_t len = (int64_t)MADI_WIRE_DESC_LEN(b->desc);
    madi_gate_t *gate = m->conn->gate;
    mad_status_t status;
    if (!madi_charge(gate, MADI_CHARGE_BORROWED, len)) {
        if (len <= madi_bounds[MADI_CHARGE_BORROWED].peer)
            return MAD_ERR_AGAIN;
        if (madi_ledger_line(gate->session, MADI_LOG_WARN))
            madi_log(MADI_LOG_WARN, "core",
                     "peer %d: a block of %" PRId64 " bytes is too long to be borrowed, %" PRId64
                     " are allowed (\"borrowed\" in doc/limits.md): unpack the block",
                     gate->peer, len, madi_bounds[MADI_CHARGE_BORROWED].peer);
        m->cur = b->behind;
        madi_block_refuse(m, b);
        madi_message_fail(&m->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    status = madi_early_start(m, b);
    if (m->early)
        m->early->charged = len;
    else
        madi_uncharge(gate, MADI_CHARGE_BORROWED, len);
    return status;
}

void madi_early_free(madi_rx_msg_t *m)
{
    if (m->early && m->early->charged)
        madi_uncharge(m->conn->gate, MADI_CHARGE_BORROWED, m->early->charged);
    free(m->early);
    m->early = NULL;
}

void madi_early_drop(madi_rx_msg_t *m)
{
    madi_early_free(m);
    m->index++;
}

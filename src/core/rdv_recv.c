/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that were announced: granted to the sender, and received; also such as mad_try_unpack asked for. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#define STRIDE ((size_t)256 * 1024) /* bytes that are read in one go, with the session's lock held: some 20 us */

void madi_rdv_send_grant(madi_gate_t *gate, uint32_t sender, uint32_t receiver, uint64_t len, bool drop)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_GRANT, .length = sizeof(madi_wire_grant_t)};
    madi_wire_grant_t grant = {sender, receiver, len, drop, 0};
    madi_gate_ctrl(gate, &hdr, &grant);
}

/* ---- Read from the sender's memory ---------------------------------------------------------------------------- */

static void pull_end(madi_rdv_recv_t *r)
{
    madi_gate_t *gate = r->gate;
    for (madi_rdv_recv_t **p = &gate->pulls; *p; p = &(*p)->next_pull)
        if (*p == r) {
            *p = r->next_pull;
            if (gate->pulls_tail == &r->next_pull)
                gate->pulls_tail = p;
            break;
        }
    r->at = 0;
}

/* It cannot be read, or not any more: it is granted as others are, from where it stood at first. */
static void pull_refused(madi_rdv_recv_t *r)
{
    pull_end(r);
    r->received = r->eager;
    madi_rdv_send_grant(r->gate, r->sender, r->handle, r->len, false);
}

/* A stride of the first one; the sender learns of the end as of a block that nobody wants. */
int madi_rdv_pull(madi_gate_t *gate)
{
    madi_rdv_recv_t *r = gate->pulls;
    unsigned char *to;
    struct iovec vec[2];
    size_t n;
    if (!r || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return 0;
    to = (unsigned char *)(r->bounce ? r->bounce : r->pieces[0].iov_base) + r->received;
    n = r->len - r->received < STRIDE ? (size_t)(r->len - r->received) : STRIDE;
    vec[0] = (struct iovec){to, n};
    if (!gate->link->driver->get(gate->link, vec, 1, r->at + r->received, n)) {
        pull_refused(r);
    } else if ((r->received += n) == r->len) {
        gate->pulled_blocks++;
        gate->pulled_bytes += r->len - r->eager;
        r->msg->conn->block_bytes_in += r->len - r->eager;
        madi_rdv_send_grant(gate, r->sender, 0, r->len, true);
        madi_rdv_recv_done(r);
    }
    if (gate->pulls)
        madi_gate_work(gate);
    return 1;
}

/* The first stride at once: who waits for it has nothing else to do. */
static void pull_start(madi_rdv_recv_t *r, uint64_t at)
{
    madi_gate_t *gate = r->gate;
    bool first = !gate->pulls;
    r->at = at;
    r->next_pull = NULL;
    if (first)
        gate->pulls_tail = &gate->pulls;
    *gate->pulls_tail = r;
    gate->pulls_tail = &r->next_pull;
    madi_gate_work(gate);
}

/* ---- Granted -------------------------------------------------------------------------------------------------- */

void madi_rdv_recv_done(madi_rdv_recv_t *r)
{
    madi_rx_msg_t *m = r->msg;
    marceli_waiter_t *waiter = m->waiter;
    bool ended = m->ended; /* with a request: it is ours to finish.  Else the user may be waiting for the last block, and
                            * the message is gone as soon as that is counted */
    if (r->at)
        pull_end(r);
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_BLOCK_IN, r->began, m->conn, r->handle, r->len);
    if (r->bounce)
        madi_spread(r->pieces, r->n, (unsigned char *)r->bounce + r->eager, r->eager, r->len - r->eager);
    free(r->bounce);
    if (r->wait)
        atomic_store_explicit(&r->wait->done, 1, memory_order_release); /* pairs with madi_done */
    if (r->next)
        r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        r->gate->incoming = r->next;
    madi_handle_del(r->gate->session->receives, r->handle);
    free(r);
    atomic_fetch_sub_explicit(&m->rdv_pending, 1, memory_order_release); /* pairs with end_test */
    if (ended)
        madi_rx_finish(m);
    if (waiter) /* it takes session->lock before it goes */
        marceli_waiter_wake(waiter);
}

/* Name the destination of a block to its sender; wait, if there is one, is done when it is filled.  Under
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
    r = calloc(1, sizeof *r + (size_t)n * sizeof *pieces);
    if (r && n > 1)
        r->bounce = malloc(len);
    if (r)
        r->handle = madi_handle_add(gate->session->receives, r);
    if (!r || !r->handle || (n > 1 && !r->bounce)) {
        if (r && r->handle)
            madi_handle_del(gate->session->receives, r->handle);
        if (r)
            free(r->bounce);
        free(r);
        madi_rdv_send_grant(gate, rdv->sender, 0, len, true);
        return MAD_ERR_NOMEM;
    }
    r->msg = m;
    r->gate = gate;
    r->len = len;
    r->received = r->eager = rdv->eager;
    r->wait = wait;
    if (wait)
        atomic_store_explicit(&wait->done, 0, memory_order_relaxed);
    r->n = n;
    memcpy(r->pieces, pieces, (size_t)n * sizeof *pieces);
    r->next = gate->incoming;
    if (r->next)
        r->next->prev = r;
    gate->incoming = r;
    if (m->base.plain) /* not so when progress grants what comes later: then the owner may be looking at it */
        m->base.plain = 0;
    atomic_fetch_add_explicit(&m->rdv_pending, 1, memory_order_relaxed);
    r->sender = rdv->sender;
    r->began = madi_trace_now();
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_GRANT, 0, m->conn, r->handle, len);
    if (block->at && gate->link->direct)
        pull_start(r, block->at);
    else
        madi_rdv_send_grant(gate, rdv->sender, r->handle, len, false);
    return MAD_OK;
}

void madi_rdv_recv_fail(madi_gate_t *gate, mad_status_t status)
{
    madi_rdv_recv_t *r;
    while ((r = gate->incoming)) {
        madi_message_fail(&r->msg->base, status);
        r->eager = r->len; /* nothing is to be spread */
        madi_rdv_recv_done(r);
    }
}

/* ---- Asked for by mad_try_unpack before they were there -------------------------------------------------------- */

static bool early_done(void *arg)
{
    madi_rx_msg_t *m = arg;
    return madi_done(&m->early->here) || madi_message_status(&m->base);
}

/* The next block is announced: have it sent, into memory of ours, since the caller may come back with another buffer.
 * Under session->lock. */
mad_status_t madi_early_start(madi_rx_msg_t *m)
{
    madi_sent_block_t b;
    madi_rx_early_t *early;
    struct iovec piece;
    mad_status_t status = madi_block_parse(m, &b);
    if (status)
        return status;
    early = malloc(sizeof *early + MADI_WIRE_DESC_LEN(b.desc));
    if (!early) {
        madi_rdv_send_grant(m->conn->gate, b.rdv.sender, 0, b.inside, true);
        madi_message_fail(&m->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    early->desc = b.desc;
    early->borrowed = false;
    atomic_init(&early->here.done, 1);
    piece = (struct iovec){early->data, MADI_WIRE_DESC_LEN(b.desc)};
    memcpy(early->data, b.data, b.inside);
    m->base.plain = 0;
    m->early = early;
    status = madi_rdv_grant(m, &piece, 1, piece.iov_len, &b, &early->here);
    if (status)
        madi_message_fail(&m->base, status);
    return status || madi_done(&early->here) ? status : MAD_ERR_AGAIN;
}

void madi_early_drop(madi_rx_msg_t *m)
{
    free(m->early);
    m->early = NULL;
    m->index++;
}

mad_status_t madi_early_take(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t expected, bool may_wait)
{
    mad_status_t status;
    if (!may_wait && !early_done(m)) {
        mad_progress(m->base.session);
        if (!early_done(m))
            return MAD_ERR_AGAIN;
    }
    madi_message_wait(m, early_done, m);
    madi_lock(&m->base.session->lock);
    status = madi_message_status(&m->base);
    if (!status && !madi_block_agrees(m, m->early->desc, expected)) {
        madi_block_mismatch(m, m->early->desc, expected, false);
        status = MAD_ERR_MISMATCH;
    }
    if (!status) {
        madi_spread(pieces, n, m->early->data, 0, MADI_WIRE_DESC_LEN(m->early->desc));
        madi_early_drop(m);
    }
    madi_unlock(&m->base.session->lock);
    return status;
}

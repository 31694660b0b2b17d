/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails that break, or that no longer answer; packets that were in flight on them are sent again by the other rails.  Under
 * session->lock. */
#include "base/clock.h"
#include "base/log.h"
#include "core/conn/rx_pool.h"
#include "core/connect/gate.h"
#include "core/connect/paths.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/rails/rails.h"
#include "core/recv/receive.h"

#include <stdlib.h>
#include <string.h>

/* True if another rail can take over the packets of a rail that breaks. */
static bool is_survived(madi_rails_t *w, const rail_t *r)
{
    if (!w->tx_on || !w->rx_on || w->n_unkept)
        return false;
    for (const rail_t *other = w->rail; other < w->rail + MADI_RAILS_MOST; other++)
        if (other != r && other->state == RAIL_UP)
            return true;
    return false;
}

/* Send LOST with the final count of a rail, by the quickest of the other rails.  False if out of memory.  Under
 * gate->tx_lock. */
static bool lost_send(madi_rails_t *w, uint32_t id, uint32_t count, bool unknown)
{
    rail_t *by = madi_rails_quickest(w);
    rails_out_t *out = madi_rails_lost_record(w, id, count);
    if (!out || !by) {
        free(out);
        return false;
    }
    out->unknown = unknown;
    w->n_unknown += unknown;
    madi_rail_append(by, out);
    madi_rail_pump(w, by);
    return true;
}

/* A broken rail may have lost LOST packets of other rails: send these again by another rail, immediately.  If they waited
 * until the broken rail is settled, two rails that break at the same time could wait for each other.  False if out of
 * memory.  Under gate->tx_lock. */
static bool losts_repeat(madi_rails_t *w, const rail_t *r)
{
    for (rails_out_t *out = r->out; out; out = out->next) {
        madi_wire_hdr_t hdr;
        memcpy(&hdr, out->vec->iov_base, sizeof hdr);
        if (hdr.type != MADI_WIRE_RAIL || out->repeated)
            continue;
        if (!lost_send(w, hdr.aux, hdr.seq, out->unknown))
            return false;
        out->repeated = true;
    }
    return true;
}

static void rail_free(rail_t *r)
{
    r->state = RAIL_NONE;
    r->adapter = NULL;
}

/* Close the link of a rail.  From here on the count of packets that arrived by this rail is final. */
static void rail_close(madi_rails_t *w, rail_t *r)
{
    madi_gate_t *gate = w->base.gate;
    madi_link_t *link = r->link;
    madi_lock(&gate->tx_lock);
    r->state = RAIL_LOST;
    r->link = NULL;
    r->join_due = r->begin_due = r->ack_due = false;
    r->carried = w->first == r;
    if (r->carried)
        w->first = NULL;
    madi_unlock(&gate->tx_lock);
    madi_link_bury(link);
    if (r->partial)
        madi_rx_abandon(gate);
    if (r->piece)
        madi_rdv_abandon(gate, r->piece, r->piece_len);
    r->partial = false;
    r->piece = 0;
}

static void lost_log(const madi_rails_t *w, const rail_t *r, mad_status_t status, const char *text)
{
    const madi_gate_t *gate = w->base.gate;
    bool quiet = r->ends || gate->bye_received || atomic_load_explicit(&gate->session->closing, memory_order_relaxed);
    madi_log(quiet ? MADI_LOG_DEBUG : MADI_LOG_WARN, r->adapter->driver->name,
             "peer %d: the rail over %s (%s) is lost: %s: %s; its packets go over the other rails", gate->peer,
             r->adapter->name, r->adapter->network, mad_status_text(status), text);
}

void madi_rail_broke(madi_rails_t *w, rail_t *r, mad_status_t status, const char *text)
{
    madi_gate_t *gate = w->base.gate;
    bool joined = r->state == RAIL_UP, sent = true;
    if (r->state == RAIL_UP && !is_survived(w, r)) {
        madi_link_down(&w->base, status, text);
        return;
    }
    if (joined) {
        lost_log(w, r, status, text);
        w->ends |= r->ends;
        madi_peer_path_failed(gate, r->adapter, text);
        MADI_GATE_COUNT(gate, rails_lost, 1);
    }
    rail_close(w, r);
    if (!joined) { /* nothing was sent by it */
        rail_free(r);
    } else {
        madi_lock(&gate->tx_lock);
        sent = lost_send(w, r->id, r->n_received, false) && losts_repeat(w, r);
        madi_unlock(&gate->tx_lock);
    }
    if (!sent)
        madi_link_down(&w->base, MAD_ERR_NOMEM, "no memory to report a lost rail");
    else if (w->dials)
        madi_rails_dial_soon(w, madi_deadline(w->dial_pause));
}

/* ---- A rail is settled when both ends have closed it, and know each other's counts
 * ------------------------------------------ */

/* Move the packets that the peer has not received to the rail that carries messages.  Under gate->tx_lock. */
static void packets_send_again(madi_rails_t *w, rail_t *r)
{
    rail_t *to = w->first ? w->first : madi_rails_quickest(w);
    rails_out_t *out;
    while ((out = r->out)) {
        r->out = out->next;
        if (out->repeated) {
            w->n_unknown -= out->unknown;
            free(out);
            continue;
        }
        madi_rail_append(to, out);
        MADI_GATE_COUNT(w->base.gate, packets_again, 1);
    }
    r->out_tail = &r->out;
    r->unsent = NULL;
    r->in_flight = 0;
    if (r->carried) { /* only the rail that carried messages decides when they continue */
        w->first = to;
        w->last_adapter = to->adapter;
    }
    madi_rail_pump(w, to);
}

static rail_t *rail_by_id(madi_rails_t *w, uint32_t id)
{
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        if ((r->state == RAIL_UP || r->state == RAIL_LOST) && r->id == id)
            return r;
    return NULL;
}

bool madi_rail_is_settled(const madi_rails_t *w, uint32_t id)
{
    unsigned n = w->n_settled < MADI_RAILS_SETTLED ? w->n_settled : MADI_RAILS_SETTLED;
    for (unsigned i = 0; i < n; i++)
        if (w->settled[i] == id)
            return true;
    return false;
}

/* Handle LOST of a rail whose JOIN has not arrived: answer that no packet has come by that rail. */
static void settle_unknown(madi_rails_t *w, uint32_t id)
{
    bool many, sent = false;
    madi_lock(&w->base.gate->tx_lock);
    many = w->n_unknown >= MADI_RAILS_UNKNOWN;
    if (!many)
        sent = lost_send(w, id, 0, true);
    madi_unlock(&w->base.gate->tx_lock);
    if (many)
        madi_link_down(&w->base, MAD_ERR_PROTOCOL, "the peer gives up more rails than a process connects");
    else if (!sent)
        madi_link_down(&w->base, MAD_ERR_NOMEM, "no memory to report a lost rail");
}

void madi_rail_settle(madi_rails_t *w, uint32_t id, uint32_t count)
{
    madi_gate_t *gate = w->base.gate;
    rail_t *r = w->closed ? NULL : rail_by_id(w, id);
    rails_out_t *done = NULL;
    bool good;
    if (w->closed || madi_rail_is_settled(w, id))
        return;
    w->settled[w->n_settled++ % MADI_RAILS_SETTLED] = id;
    if (!r) {
        settle_unknown(w, id);
        return;
    }
    if (r->state == RAIL_UP)
        madi_rail_broke(w, r, MAD_ERR_PEER, "the peer has given it up");
    if (w->closed)
        return;
    madi_lock(&gate->tx_lock);
    good = madi_rail_acknowledged(w, r, count, &done);
    if (good)
        packets_send_again(w, r);
    madi_unlock(&gate->tx_lock);
    rail_free(r);
    madi_rails_complete(done, MAD_OK);
    madi_gate_work(gate);
    if (!good)
        madi_link_down(&w->base, MAD_ERR_PROTOCOL, "a count of packets that were not sent");
}

/* ---- Without an answer ------------------------------------------------------------------------------------------ */

/* True if a packet has arrived by another rail since this time. */
static bool others_answer(const madi_rails_t *w, const rail_t *r, int64_t since)
{
    for (const rail_t *other = w->rail; other < w->rail + MADI_RAILS_MOST; other++)
        if (other != r && other->state == RAIL_UP && other->heard_at > since)
            return true;
    return false;
}

/* True if packets of a rail have waited so long for their acknowledgement that ASK has to be sent.  Under gate->tx_lock. */
static bool is_overdue(const rail_t *r, int64_t now)
{
    return r->state == RAIL_UP && r->out && r->out->sent_at && now - r->out->sent_at >= MADI_RAILS_STALL / 2 &&
           now - r->heard_at >= MADI_RAILS_STALL / 2;
}

/* Send ASK by all rails, so that answers by the other rails show that the peer is alive.  Under gate->tx_lock. */
static void all_ask(madi_rails_t *w, int64_t now)
{
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        if (r->state == RAIL_UP && !r->asked_at) {
            r->asked_at = now;
            /* if the driver refuses ASK, the rail is treated like one that does not answer */
            madi_rail_control(r, MADI_RAIL_ASK, r->id, 0);
        }
}

static bool is_stalled(const madi_rails_t *w, const rail_t *r, int64_t now)
{
    return r->state == RAIL_UP && r->asked_at && now - r->asked_at >= MADI_RAILS_STALL && r->heard_at < r->asked_at &&
           others_answer(w, r, r->asked_at) &&
           !(r->link->driver->live.moves && r->link->driver->live.moves(r->link, MADI_RAILS_STALL / 2));
}

int64_t madi_rails_stalled(madi_rails_t *w, int64_t now)
{
    bool ask = false, waits = false;
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST && !w->closed; r++)
        if (is_stalled(w, r, now))
            madi_rail_broke(w, r, MAD_ERR_TIMEOUT, "it does not answer, and another rail does");
    if (w->closed)
        return INT64_MAX;
    madi_lock(&w->base.gate->tx_lock);
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++) {
        ask |= is_overdue(r, now);
        waits |= r->state == RAIL_UP && r->out;
    }
    if (ask)
        all_ask(w, now);
    madi_unlock(&w->base.gate->tx_lock);
    return waits ? now + MADI_RAILS_STALL / 4 : INT64_MAX;
}

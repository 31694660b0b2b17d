/* SPDX-License-Identifier: BSD-3-Clause */
/* Failover: another path for a stream whose path has failed (doc/gateways.md has the algorithm, and why each packet is
 * received exactly once).
 *
 * An endpoint that has lost its path opens another one.  OPEN carries the stream's number, a turn greater than that of
 * the last path, and the number of fragments received.  The other endpoint leaves its old path, if it still has one,
 * and answers with ACK.  Then each endpoint sends again what the other one has not received.  Usually the opener of the
 * stream opens the new path; the other endpoint does so only if nothing arrives for a while.  If both do, the greater
 * turn wins.
 *
 * A new stream does the same before its endpoints know each other.  But a new stream tries further paths only after the
 * death of a gateway, which may come back; any other failure is reported immediately. */
#include "gateway/gateway.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

#define PAUSE INT64_C(100000000) /* ns: pause after all paths were tried in vain */

/* ---- Leaving a path --------------------------------------------------------------------------------------------- */

/* Replace the current path.  Nothing more is sent on the old path.  On the new path nothing is sent until both endpoints
 * use it. */
static gw_side_t *side_replace(gw_end_t *end, gw_side_t *new, bool resuming)
{
    gw_side_t *old = end->side;
    gw_end_lock(end);
    gw_end_leave_refused(end);
    end->side = new;
    end->resuming = resuming;
    gw_end_unlock(end);
    return old;
}

/* Retire a path: discard its queue, and ignore fragments that are still in flight.  The side is freed when it is quiet. */
void gw_path_retire(gw_end_t *end, gw_side_t *side, enum madi_close_what what, const char *text)
{
    if (!side)
        return;
    side->old = true;
    side->route = end->route;
    side->next_old = end->old;
    end->old = side;
    if (side->hop && !side->hop->down) {
        gw_side_drop(side);
        gw_side_send_close(side, what, MAD_ERR_PEER, text);
        if (atomic_load_explicit(&side->in_flight, memory_order_relaxed))
            gw_side_probe(side); /* probe the path, because a driver may still read the program's memory */
    } else {
        gw_side_close(side);
    }
    gw_later(end->gw);
}

void gw_path_change(gw_end_t *end, gw_side_t *new, bool resuming, const char *text)
{
    gw_path_retire(end, side_replace(end, new, resuming), MADI_CLOSE_WAY, text);
}

void gw_path_avoid(gw_end_t *end, const gw_side_t *side)
{
    if (side->hop && end->avoid.n < (int)MADI_COUNT(end->avoid.peer))
        end->avoid.peer[end->avoid.n++] = side->hop->gate->peer;
}

void gw_path_lost(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text)
{
    gw_end_t *end = side->end;
    gw_t *gw = end->gw;
    int64_t now = madi_now();
    if (side == end->standby) {
        gw_migrate_failed(end, text);
        return;
    }
    if (side->old) {
        if (side->hop->down)
            gw_side_close(side);
        gw_later(gw);
        return;
    }
    if (end->closed) {
        gw_path_change(end, NULL, true, "");
        end->gone = true;
        gw_end_finish(end);
        return;
    }
    if (end->link && end->link->gate->bye_received) { /* the peer has ended, so no other path would help */
        gw_path_change(end, NULL, true, "the peer has ended");
        gw_end_closed(end, status, text);
        return;
    }
    snprintf(end->why, sizeof end->why, "%s", text);
    if (!end->lost)
        end->avoid.n = 0;
    gw_path_avoid(end, side);
    if (!end->lost) {
        end->lost = now;
        end->turns = 0;
        end->hope = end->started || (what != MADI_CLOSE_GONE && status == MAD_ERR_PEER);
        end->try_at = end->active ? now : now + gw_opener_head_start(end->gw);
        madi_log(MADI_LOG_INFO, "virtual", "a path has failed, another one is tried: %s", text);
    } else {
        end->hope |= what != MADI_CLOSE_GONE && (end->started || status == MAD_ERR_PEER);
        end->try_at = now;
    }
    end->status = status;
    gw_path_change(end, NULL, true, "this end takes another path");
    if (end->standby_take) {
        gw_migrate_take(end);
        return;
    }
    /* the standby path's state is unknown; a standby path that the other endpoint opened still waits for its ACK */
    if (end->standby && end->standby->opener)
        gw_migrate_forget(end, MADI_CLOSE_WAY, "this end takes another path");
    gw_alive_soon(gw);
}

/* ---- Opening a path --------------------------------------------------------------------------------------------- */

gw_side_t *gw_path_begin(gw_end_t *end, gw_hop_t *hop, const uint32_t *label)
{
    gw_side_t *side = hop->down ? NULL : gw_side_new(end);
    if (side && gw_side_open(side, hop, label)) {
        side->tx_limit = GW_FIRST;
        return side;
    }
    free(side);
    return NULL;
}

uint32_t gw_path_turn(const gw_end_t *end)
{
    uint32_t turn = end->turn > end->turn_tried ? end->turn : end->turn_tried; /* unique among the paths */
    return end->active ? (turn | 1) + 1 : (turn + 1) | 1;
}

void gw_path_send_open(gw_end_t *end, gw_side_t *side, unsigned kind, uint32_t turn, const unsigned char *address)
{
    madi_wire_open_t open = {.limit = UINT64_MAX, .stream = end->stream, .ack = end->rx_seq, .turn = turn};
    side->turn = turn;
    if (turn > end->turn_tried)
        end->turn_tried = turn;
    gw_protect_open(end, kind, &open);
    gw_side_send_control(side, kind, GW_HOPS, &open, sizeof open, address, madi_address_len(address));
}

/* Start the numbering as if OPEN had been sent. */
static void resume_number(gw_end_t *end)
{
    end->window.base = end->window.next = 1;
    atomic_store(&end->window.ack, 1);
}

void gw_path_wait(gw_end_t *end, const char *why)
{
    resume_number(end);
    snprintf(end->why, sizeof end->why, "%s", why);
    end->status = MAD_ERR_PEER;
    end->lost = madi_now();
    end->try_at = end->lost + PAUSE;
    end->hope = end->resuming = true;
    gw_alive_soon(end->gw);
}

bool gw_path_open(gw_end_t *end, gw_hop_t *hop, const unsigned char *address)
{
    bool first = !end->turn && !end->window.next;
    gw_side_t *side = gw_path_begin(end, hop, NULL);
    if (!side)
        return false;
    if (first)
        resume_number(end);
    else
        end->turn = gw_path_turn(end);
    gw_path_change(end, side, !first, "this end takes another path");
    end->try_at = madi_now() + gw_step_limit(end->gw);
    gw_path_send_open(end, side, MADI_FORWARD_OPEN, end->turn, address);
    return true;
}

static void end_give_up(gw_end_t *end, bool late, const char *why)
{
    char text[GW_TEXT + MADI_REASON_MAX];
    GW_COUNT(end->gw, links_given_up, 1);
    if (late && end->started)
        snprintf(text, sizeof text, "no path within MAD_FORWARD_DEADLINE (%lld ms): %.150s",
                 (long long)(madi_knob_int(MADI_KNOB_FORWARD_DEADLINE) / 1000000), why);
    else if (late)
        snprintf(text, sizeof text, "no path for %lld ms (MAD_FORWARD_DEADLINE, MAD_CONNECT_TIMEOUT): %.150s",
                 (long long)((madi_now() - end->lost) / 1000000), why);
    else
        snprintf(text, sizeof text, "no gateway reaches the peer any more: %.150s", why);
    gw_end_closed(end, end->started ? MAD_ERR_PEER : end->status, end->started || late ? text : why);
}

/* Return the time (ns) until which a path is sought.  For a new stream this time is a little before the handshake's
 * deadline, so that the reason is reported. */
static int64_t resume_deadline(const gw_end_t *end)
{
    int64_t deadline = end->lost + madi_knob_int(MADI_KNOB_FORWARD_DEADLINE), handshake;
    if (end->started)
        return deadline;
    handshake = end->link ? madi_gate_deadline(end->link->gate) - PAUSE : INT64_MAX;
    return handshake < deadline ? handshake : deadline;
}

/* Handle the failure of all paths.  After the first round the path that failed is tried again, because its gateway may
 * itself have found another path. */
static void path_round_end(gw_end_t *end, int64_t now, const char *reason)
{
    const char *why = end->why[0] ? end->why : reason;
    if (!end->hope && (!end->started || end->turns > 0)) {
        end_give_up(end, false, why);
        return;
    }
    end->try_at = end->turns++ ? now + PAUSE : now;
    end->avoid.n = 0;
    end->hope = false;
}

static void resume_try_next(gw_end_t *end, int64_t now)
{
    gw_t *gw = end->gw;
    const unsigned char *address = gw_end_address(end);
    char reason[MADI_REASON_MAX] = "";
    madi_gate_t *gate;
    gw_hop_t *hop;
    mad_status_t status;
    if (!address) {
        end->try_at = now + PAUSE; /* time until the other endpoint opens a path, or the handshake times out */
        return;
    }
    end->avoid.lost = !end->turns; /* the first round uses only processes that live, on any host */
    status = gw_next_gate(gw, end->link->gate->lane, address, &end->avoid, &gate, NULL, reason);
    if (status) {
        /* No gateway was found that could report the loss of the peer. */
        end->hope |= !end->avoid.n && (end->started || status == MAD_ERR_PEER);
        path_round_end(end, now, reason);
        return;
    }
    hop = gw_hop_get(gw, gate);
    if (!hop || !gw_path_open(end, hop, address)) {
        end->hope = true;
        end->try_at = now + PAUSE;
    }
}

void gw_path_check(gw_end_t *end, int64_t now)
{
    if (now >= resume_deadline(end)) {
        end_give_up(end, true, end->why);
    } else if (now < end->try_at) {
        return;
    } else if (end->side) { /* no answer */
        snprintf(end->why, sizeof end->why, "the other end does not answer over the gateway %s",
                 madi_map_name(end->gw->map, gw_host_of_peer(end->gw, end->side->hop->gate->peer)));
        gw_path_avoid(end, end->side);
        gw_side_probe(end->side);
        end->hope = true;
        gw_path_change(end, NULL, true, "no answer");
        resume_try_next(end, now);
    } else {
        resume_try_next(end, now);
    }
}

int gw_paths_check(gw_t *gw)
{
    int64_t now = 0;
    int n = 0;
    for (gw_end_t *end = gw->ends; end; end = end->next) {
        if (!end->lost || end->closed)
            continue;
        if (!now)
            gw_alive_postpone(gw, now = madi_now());
        if (now >= end->try_at) {
            gw_path_check(end, now);
            n++;
        }
    }
    return n;
}

/* ---- A new path ------------------------------------------------------------------------------------------------- */

void gw_path_resume(gw_end_t *end, uint32_t ack)
{
    gw_t *gw = end->gw;
    int n = -1;
    if (gw_window_ack_arrived(end, ack))
        n = gw_window_resend(end);
    if (n < 0) {
        gw_end_closed(end, MAD_ERR_PEER, "the ends disagree about the received fragments, or memory is lacking");
        return;
    }
    atomic_fetch_add_explicit(&gw->resends, (uint64_t)n, memory_order_relaxed);
    end->side->resends += (uint64_t)n;
    if (end->started)
        gw_end_route(end);
    GW_COUNT(gw, rerouted, 1);
    if (end->lost)
        madi_log(MADI_LOG_INFO, "virtual", "another path was found after %lld ms; %d fragments were sent again",
                 (long long)((madi_now() - end->lost) / 1000000), n);
    end->lost = 0;
    end->avoid.n = 0;
    end->asked = false;
    gw_end_lock(end);
    end->resuming = false;
    gw_end_unlock(end);
    if (end->link && end->started)
        madi_link_writable(end->link);
}

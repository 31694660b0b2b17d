/* SPDX-License-Identifier: BSD-3-Clause */
/* A standby path of a stream, in addition to its current path.  Either the other endpoint has opened it, or this
 * endpoint tries it because a gateway is about to leave (doc/gateways.md has the algorithm).
 *
 * A gateway that is about to leave carries its streams as long as they stay.  Another gateway may be about to leave
 * too, and refuse them.  So an endpoint leaves the current path only when both endpoints are on another one.  TRY
 * opens the standby path, and the other endpoint answers with ACK.  The opener then leaves the old path and reports
 * this with ACK on the new one.  The other endpoint follows, and both resume as after a failed path. */
#include "gateway/gateway.h"
#include "base/clock.h"

void gw_migrate_forget(gw_end_t *end, enum madi_close_what what, const char *text)
{
    gw_side_t *side = end->standby;
    if (!side)
        return;
    end->standby = NULL;
    end->standby_take = false;
    gw_path_retire(end, side, what, text);
    side->route = NULL; /* the standby path is not counted in the endpoint's route */
}

/* ---- Switching to the standby path ------------------------------------------------------------------------------ */

void gw_migrate_take(gw_end_t *end)
{
    gw_side_t *side = end->standby;
    end->standby = NULL;
    end->standby_take = false;
    end->turn = end->standby_turn;
    gw_path_change(end, side, true, "another path is taken");
    gw_end_ack(end, false);
    if (!side->opener) {
        gw_path_resume(end, end->standby_ack);
        return;
    }
    end->lost = madi_now(); /* the path counts as lost until the other endpoint answers */
    end->try_at = end->lost + gw_step_limit(end->gw);
    end->turns = 0;
    end->hope = true;
    gw_alive_soon(end->gw);
}

/* True if a packet whose destination the driver holds is arriving on the current path. */
static bool packet_is_arriving(const gw_end_t *end)
{
    const gw_hop_t *hop = end->side ? end->side->hop : NULL;
    return end->partial && hop && hop->in == GW_IN_END && hop->in_side == end->side;
}

static void standby_take_when_possible(gw_end_t *end)
{
    if (!packet_is_arriving(end)) {
        gw_migrate_take(end);
        return;
    }
    end->standby_take = true;
    gw_side_probe(end->side);
}

/* ---- Standby paths that the other endpoint has opened ------------------------------------------------------------ */

static bool standby_begin_by_peer(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open)
{
    gw_side_t *side;
    gw_migrate_forget(end, MADI_CLOSE_WAY, "the other end has opened another path");
    side = gw_path_begin(end, hop, &label);
    if (!side)
        return false; /* the other endpoint tries again */
    side->tx_limit = open->limit;
    side->turn = open->turn;
    end->standby = side;
    end->standby_turn = open->turn;
    end->standby_ack = open->ack;
    gw_credit_unlimited(side);
    return true;
}

void gw_migrate_opened(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open)
{
    if (standby_begin_by_peer(end, hop, label, open))
        standby_take_when_possible(end);
}

void gw_migrate_tried(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open)
{
    if (standby_begin_by_peer(end, hop, label, open))
        gw_end_ack_by(end, end->standby, false);
}

/* Change to the standby path: the other endpoint is on it, or has left the old path. */
void gw_migrate_acked(gw_end_t *end, uint32_t ack)
{
    if (end->standby_take)
        return;
    if (end->standby_turn <= end->turn) { /* another path was taken meanwhile */
        gw_migrate_forget(end, MADI_CLOSE_WAY, "the other end has opened another path");
        return;
    }
    end->standby_ack = ack;
    standby_take_when_possible(end);
}

/* ---- Standby paths of this endpoint ----------------------------------------------------------------------------- */

static void migrate_try_next(gw_end_t *end)
{
    gw_t *gw = end->gw;
    const unsigned char *address = gw_end_address(end);
    char reason[MADI_REASON_MAX];
    madi_gate_t *gate;
    gw_hop_t *hop;
    if (!address || gw_next_gate(gw, end->link->gate->lane, address, &end->avoid, &gate, NULL, reason) != MAD_OK ||
        !(hop = gw_hop_get(gw, gate)) || !(end->standby = gw_path_begin(end, hop, NULL))) {
        end->avoid.n = 0; /* try all peers again later, and keep the current path as long as it works */
        return;
    }
    end->standby_turn = gw_path_turn(end);
    end->standby_since = madi_now();
    gw_path_send_open(end, end->standby, MADI_FORWARD_TRY, end->standby_turn, address);
}

/* True if this endpoint still has to leave its path for another one.  An endpoint whose process is about to end stays on
 * its path. */
static bool migrate_wanted(const gw_end_t *end)
{
    return end->active && end->started && !end->closed && !end->lost && !end->resuming && end->side && end->side->moves &&
           !end->gw->draining;
}

void gw_migrate_failed(gw_end_t *end, const char *text)
{
    bool ours = end->standby->opener;
    if (ours && migrate_wanted(end))
        gw_path_avoid(end, end->standby);
    gw_migrate_forget(end, MADI_CLOSE_WAY, text);
    if (ours && migrate_wanted(end))
        migrate_try_next(end);
}

void gw_migrate_requested(gw_side_t *side)
{
    gw_end_t *end = side->end;
    if (side->old || end->closed)
        return;
    side->moves = true;
    if (side == end->standby && side->opener)
        gw_migrate_failed(end, "a gateway on this path is about to leave");
    else if (migrate_wanted(end) && !end->standby)
        migrate_try_next(end);
    gw_alive_watch(end->gw); /* check again, because a new gateway may accept the stream later */
}

bool gw_migrate_check(gw_end_t *end, int64_t now)
{
    if (!migrate_wanted(end))
        return false;
    if (!end->standby) {
        migrate_try_next(end);
    } else if (end->standby->opener && !end->standby_take && now - end->standby_since > gw_step_limit(end->gw)) {
        gw_side_probe(end->standby);
        gw_migrate_failed(end, "no answer");
    }
    return true;
}

/* ---- A leaving gateway ------------------------------------------------------------------------------------------ */

void gw_drain(gw_t *gw)
{
    if (gw->draining)
        return;
    gw->draining = true;
    for (gw_transit_t *t = gw->transits; t; t = t->next)
        for (int i = 0; i < 2; i++)
            if (!t->closed[i] && t->side[i].hop && !t->side[i].hop->down)
                gw_side_send_control(&t->side[i], MADI_FORWARD_MOVE, 0, NULL, 0, NULL, 0);
    for (gw_end_t *end = gw->ends; end; end = end->next)
        if (end->standby && end->standby->opener) /* keep the current path, and only forget the standby path */
            gw_migrate_forget(end, MADI_CLOSE_WAY, "this end is about to leave");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Outgoing connections ("dials") on behalf of peers.  An OPEN names the destination process and its address.  A gateway
 * that does not know that process has no other source of the address, which the sender of the OPEN may have invented.
 * For an address that only peers have named (madi_peer_t.claimed) these rules hold:
 *
 *   - the address must be on a network of the topology file that both hosts share, and in the subnet of the adapter
 *   that would dial; - few dials are pending at a time, for one peer and in total (MADI_CHARGE_DIALS); - the only
 *   reported failure is that the process did not answer, always after the same delay: peers cannot find out
 *     whether a port is closed, filtered, or in use by others.
 *
 * Once the destination has answered and proved the job's key, its address is no longer a claim. */
#include "gateway/gateway.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

#define AFTER INT64_C(500000000) /* ns: by then every unanswered attempt has ended */

struct gw_dial {
    gw_dial_t *next;
    gw_hop_t *hop; /* hop of the peer that caused the dial; NULL if the peer is gone, and only the total is charged */
    uint32_t label;
    bool answers; /* true while the opener still has to be refused; false before a failure, and after the stream's end */
    bool direct;  /* true if the destination itself was dialled, and not a gateway */
    gw_transit_t *transit; /* the stream; NULL if the stream is over */
    int64_t at;            /* ns: time at which the dial ends */
};

/* ---- Which addresses may be dialled
 * ------------------------------------------------------------------------------------ */

static bool peer_is_claimed(const gw_t *gw, mad_peer_t peer)
{
    const madi_peer_t *p = madi_peer_at(gw->base.session, peer);
    return p && p->claimed;
}

/* True if the host shares a network with this one, by the topology file. */
static bool host_is_near(gw_t *gw, int lane, const unsigned char *address)
{
    char reason[MADI_REASON_MAX];
    int host = gw_host_of(gw, address, NULL);
    return host >= 0 && (host == gw->host || madi_map_next(gw->map, lane, host, NULL, reason) == host);
}

static bool adapters_are_near(gw_t *gw, int lane, const unsigned char *address)
{
    mad_session_t *s = gw->base.session;
    for (int i = 0; i < s->n_adapters; i++) {
        madi_adapter_t *a = s->adapters[i];
        madi_address_entry_t e;
        char reason[MADI_REASON_MAX];
        size_t at = 0;
        if (a == &gw->base || !a->driver->reach.within)
            continue;
        while (madi_peer_path_next(s, address, lane, a, &at, &e, reason))
            if (!a->driver->reach.within(a, e.bytes, e.len))
                return false;
    }
    return true;
}

bool gw_dial_address_allowed(gw_hop_t *from, const unsigned char *address)
{
    gw_t *gw = from->gw;
    int lane = gw_lane_of(gw, from->gate->lane);
    if (host_is_near(gw, lane, address) && adapters_are_near(gw, lane, address))
        return true;
    if (!from->named_far && madi_ledger_line(gw->base.session, MADI_LOG_WARN)) {
        int host = gw_host_of(gw, address, NULL);
        madi_log(MADI_LOG_WARN, "virtual",
                 "peer %d names an address for a process of host %s that is on no network which this gateway shares with "
                 "that host: this gateway does not connect to it (logged once per peer; make the job's processes known to "
                 "the gateway, by a launcher or mad_peer_add)",
                 from->gate->peer, host < 0 ? "?" : madi_map_name(gw->map, host));
    }
    from->named_far = true;
    return false;
}

/* ---- Number of pending dials ---------------------------------------------------------------------------------------- */

static int64_t dials_under_way(const _Atomic(int64_t) *held)
{
    return atomic_load_explicit((_Atomic(int64_t) *)&held[MADI_CHARGE_DIALS], memory_order_relaxed);
}

bool gw_dial_allowed(gw_t *gw, const madi_gate_t *gate, char *reason)
{
    gw_hop_t *asker = gw->asker;
    const madi_bound_t *bound = &madi_bounds[MADI_CHARGE_DIALS];
    if (!asker || !peer_is_claimed(gw, gate->peer) ||
        atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_UP)
        return true;
    if (!gw_dial_address_allowed(asker, madi_peer_address(gw->base.session, gate->peer))) {
        snprintf(reason, MADI_REASON_MAX,
                 "the next process on the path has an address to which this gateway does not connect");
        return false;
    }
    if (dials_under_way(asker->gate->ledger.held) < bound->peer &&
        dials_under_way(gw->base.session->ledger.held) < bound->sum) {
        gw->asker_claims = true;
        return true;
    }
    madi_ledger_refused(asker->gate, MADI_CHARGE_DIALS);
    snprintf(reason, MADI_REASON_MAX, "too many connections are being made for this peer");
    return false;
}

gw_dial_t *gw_dial_new(gw_hop_t *hop, uint32_t label, bool direct)
{
    gw_dial_t *dial = calloc(1, sizeof *dial);
    if (!dial || !madi_charge(hop->gate, MADI_CHARGE_DIALS, 1)) {
        free(dial);
        return NULL;
    }
    *dial = (gw_dial_t){.next = hop->gw->dials, .hop = hop, .label = label, .direct = direct};
    dial->at = madi_now() + madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) + AFTER;
    hop->gw->dials = dial;
    gw_alive_watch(hop->gw);
    return dial;
}

void gw_dial_follow(gw_dial_t *dial, gw_transit_t *transit)
{
    dial->transit = transit;
    transit->dial = dial;
}

void gw_dial_leave(gw_transit_t *transit)
{
    if (transit->dial)
        transit->dial->transit = NULL;
    transit->dial = NULL;
}

void gw_dial_failed(gw_dial_t *dial)
{
    dial->answers = true;
}

/* ---- The end of a dial
 * -------------------------------------------------------------------------------------------------- */

static void dial_refuse(const gw_dial_t *dial)
{
    gw_t *gw = dial->hop->gw;
    madi_wire_hdr_t opened = {.aux = dial->label};
    char text[GW_TEXT + 1];
    snprintf(text, sizeof text, "%s: the requested process, or a gateway on the path, has not answered",
             madi_map_name(gw->map, gw->host));
    gw_refuse(dial->hop, &opened, dial->direct ? MADI_CLOSE_GONE : MADI_CLOSE_WAY, MAD_ERR_PEER, text);
}

static void dial_free(gw_t *gw, gw_dial_t *dial)
{
    if (dial->transit)
        dial->transit->dial = NULL;
    if (dial->hop)
        madi_uncharge(dial->hop->gate, MADI_CHARGE_DIALS, 1);
    else
        madi_uncharge_orphan(gw->base.session, MADI_CHARGE_DIALS, 1);
    free(dial);
}

void gw_dials_up(const madi_gate_t *gate)
{
    gw_t *gw = gw_of_session(gate->session);
    for (gw_dial_t **p = &gw->dials, *dial; (dial = *p);) {
        const gw_hop_t *to = dial->transit ? dial->transit->side[1].hop : NULL;
        if (!to || to->gate != gate) {
            p = &dial->next;
            continue;
        }
        *p = dial->next;
        dial_free(gw, dial);
    }
}

void gw_dials_hop_down(gw_hop_t *hop)
{
    for (gw_dial_t *dial = hop->gw->dials; dial; dial = dial->next)
        if (dial->hop == hop) {
            madi_charge_orphan(hop->gate, MADI_CHARGE_DIALS, 1);
            dial->hop = NULL;
        }
}

int64_t gw_dials_check(gw_t *gw, int64_t now)
{
    int64_t next = INT64_MAX;
    for (gw_dial_t **p = &gw->dials, *dial; (dial = *p);) {
        if (dial->at > now) {
            next = dial->at < next ? dial->at : next;
            p = &dial->next;
            continue;
        }
        *p = dial->next;
        if (dial->hop && dial->answers)
            dial_refuse(dial);
        dial_free(gw, dial);
    }
    return next;
}

void gw_dials_free(gw_t *gw)
{
    for (gw_dial_t *dial; (dial = gw->dials);) {
        gw->dials = dial->next;
        dial_free(gw, dial);
    }
}

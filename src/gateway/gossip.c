/* SPDX-License-Identifier: BSD-3-Clause */
/* Gateways that join later.  Processes that start together know each other from the launcher, or from a file.  A gateway
 * that is started by hand, or again, connects to the gateways that it knows; gateways then learn of each other from common
 * neighbours.  A process to which a late gateway connects sends that gateway's address to its other gateways.  The process
 * also sends the late gateway the addresses of gateways that joined late before.
 *
 * A process only advertises gateways that it is itself connected to, and no process relays advertised addresses.  So
 * a gateway that has left is no longer advertised, and a large job is not flooded.  These announcements suffice: a
 * gateway on a path needs to know the next one only if both are on one network, and then they have common neighbours on
 * that network. */
#include "gateway/gateway.h"
#include "base/log.h"

/* True if the peer of this gate understands KNOW fragments. */
static bool gate_understands(gw_t *gw, const madi_gate_t *gate)
{
    int state = atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed);
    return !gw_lane_of(gw, gate->lane) && state == MADI_GATE_UP && gate->link->driver != &madi_driver_virtual &&
           gw_host_of(gw, madi_peer_address(gw->base.session, gate->peer), NULL) >= 0;
}

static bool gate_forwards(gw_t *gw, const madi_gate_t *gate)
{
    return gw_flags_of(gw, madi_peer_address(gw->base.session, gate->peer)) & GW_FORWARDS;
}

/* True if this gateway has too many unread fragments to be sent another address.  Without this check, a gateway that
 * reconnects repeatedly could cause the disconnection of that peer. */
static bool gate_is_behind(const madi_gate_t *gate)
{
    return atomic_load_explicit((_Atomic(int64_t) *)&gate->ledger.held[MADI_CHARGE_ANSWERS], memory_order_relaxed) >
           madi_bounds[MADI_CHARGE_ANSWERS].peer / 64;
}

static void forwarder_announce(madi_gate_t *gate, const madi_gate_t *of)
{
    const unsigned char *address = madi_peer_address(gate->session, of->peer);
    size_t len = madi_address_len(address);
    unsigned char body[sizeof(madi_wire_forward_t) + MADI_ADDRESS_MAX] = {0};
    madi_wire_hdr_t hdr = {
        .type = MADI_WIRE_FORWARD, .flags = MADI_FORWARD_KNOW, .length = (uint32_t)(sizeof(madi_wire_forward_t) + len)};
    memcpy(body + sizeof(madi_wire_forward_t), address, len);
    madi_gate_ctrl(gate, &hdr, body);
}

void gw_gossip_gate_up(madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    gw_t *gw = gw_of_session(s);
    gw_dials_up(gate);
    gw_place_connected(gw, gate->peer);
    bool late = (uint32_t)gate->peer >= gw->n_known && gate_forwards(gw, gate);
    if (gate->forward)
        ((gw_hop_t *)gate->forward)->network = gw_network(gate);
    if (!gate_understands(gw, gate) || (!late && (uint32_t)madi_peers_end(s) <= gw->n_known))
        return;
    for (madi_gate_t *other = s->gates; other; other = other->next) {
        if (other == gate || !gate_understands(gw, other) || !gate_forwards(gw, other))
            continue;
        if (late && !gate_is_behind(other))
            forwarder_announce(other, gate);
        if ((uint32_t)other->peer >= gw->n_known)
            forwarder_announce(gate, other);
    }
}

void gw_gossip_arrived(gw_hop_t *hop, const unsigned char *address, size_t max)
{
    size_t len;
    mad_peer_t peer;
    if (madi_address_check(address, max, &len) || len != max) {
        madi_link_down(hop->gate->link, MAD_ERR_PROTOCOL, "a malformed address of a gateway");
        return;
    }
    /* Only forwarding processes accept KNOW, and only about other forwarding processes with which they share a network. */
    if (!hop->gw->forwards || !(gw_flags_of(hop->gw, address) & GW_FORWARDS) ||
        madi_peer_find(hop->gw->base.session, address) >= 0 || !gw_dial_address_allowed(hop, address))
        return;
    if (madi_peer_learn(hop->gate, address, len, &peer) != MAD_OK)
        madi_ledger_refused(hop->gate, MADI_CHARGE_PEERS);
    else if (madi_ledger_line(hop->gw->base.session, MADI_LOG_INFO))
        madi_log(MADI_LOG_INFO, "virtual", "peer %d was announced by another process: it forwards on %s", peer,
                 madi_map_name(hop->gw->map, gw_host_of_peer(hop->gw, peer)));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Gateways that come later.  Whoever starts with the others knows them from the launcher, or from a file; one that is
 * started by hand, or again, calls those that it knows.  They know each other from the neighbours that they have in common:
 * who is connected to one that came later tells its other gateways of it, and it of those that came before it in the same way.
 *
 * Only what one is connected to oneself is told, and nobody passes on what he was told: so a gateway that has gone is not
 * spoken of any more, and a job with many processes is not flooded.  That is enough, for a gateway on the way has to know of
 * the next one only if both are on one network, and then those in between are, too. */
#include "gateway/gateway.h"
#include "base/log.h"

/* Is there somebody at the other end of this gate who knows what is told? */
static bool understands(gw_t *gw, const madi_gate_t *gate)
{
    int state = atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed);
    return !gw_lane_of(gw, gate->lane) && state == MADI_GATE_UP && gate->link->driver != &madi_driver_virtual &&
           gw_host_of(gw, madi_peer_address(gw->base.session, gate->peer), NULL) >= 0;
}

static bool forwards(gw_t *gw, const madi_gate_t *gate)
{
    return gw_flags_of(gw, madi_peer_address(gw->base.session, gate->peer)) & GW_FORWARDS;
}

static void tell(madi_gate_t *gate, const madi_gate_t *of)
{
    const unsigned char *address = madi_peer_address(gate->session, of->peer);
    size_t len = madi_address_len(address);
    unsigned char body[sizeof(madi_wire_forward_t) + MADI_ADDRESS_MAX] = {0};
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD,
                           .flags = MADI_FORWARD_KNOW,
                           .length = (uint32_t)(sizeof(madi_wire_forward_t) + len)};
    memcpy(body + sizeof(madi_wire_forward_t), address, len);
    madi_gate_ctrl(gate, &hdr, body);
}

void gw_know_up(madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    gw_t *gw = gw_of_session(s);
    bool late = (uint32_t)gate->peer >= gw->n_known && forwards(gw, gate);
    if (gate->forward)
        ((gw_hop_t *)gate->forward)->network = gw_network(gate);
    if (!understands(gw, gate) || (!late && (uint32_t)s->next_peer <= gw->n_known))
        return;
    for (madi_gate_t *other = s->gates; other; other = other->next) {
        if (other == gate || !understands(gw, other) || !forwards(gw, other))
            continue;
        if (late)
            tell(other, gate);
        if ((uint32_t)other->peer >= gw->n_known)
            tell(gate, other);
    }
}

void gw_know_came(gw_hop_t *hop, const unsigned char *address, size_t max)
{
    size_t len;
    mad_peer_t peer;
    if (madi_address_check(address, max, &len) || len != max) {
        madi_link_down(hop->gate->link, MAD_ERR_PROTOCOL, "a gateway's address that is not one");
        return;
    }
    if (gw_flags_of(hop->gw, address) & GW_FORWARDS && madi_peer_add(hop->gw->base.session, address, len, &peer) == MAD_OK)
        madi_log(MADI_LOG_INFO, "virtual", "peer %d is told of: it forwards on %s", peer,
                 madi_map_name(hop->gw->map, gw_host_of_peer(hop->gw, peer)));
}

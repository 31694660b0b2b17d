/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes: the next process towards an address, hosts, channels with networks of their own, traffic by route. */
#ifndef MADI_GATEWAY_ROUTE_H
#define MADI_GATEWAY_ROUTE_H

#include "gateway/end.h"

/* A route of streams, as far as this process knows it, with the counts of the streams that have ended (count.c). */
struct gw_route {
    struct gw_route *next;
    int lane;
    /* numbers of hosts: of the previous process, the next process, the destination; -1 if unknown, or if several */
    int from, via, to;
    bool passes; /* false if the streams end here, so that `from` is this host */
    uint64_t opened;
    gw_count_t there, back; /* traffic towards the destination, and back from it */
    uint64_t stalls, resends;
    uint32_t queued_most; /* largest queue of one stream, in one direction */
    uint64_t queued_bytes_most;
    int row; /* index of the row in a report */
};

/* next_hop.c.  The caller holds the session's lock, except for gw_started. */
mad_status_t gw_started(mad_session_t *session);
/* True if an adapter other than the virtual one reaches the address. */
bool gw_reached_directly(gw_t *gw, int lane, const unsigned char *address);
/* Return the host of an address, -1 if it is not in the topology file; flags may be NULL. */
int gw_host_of(gw_t *gw, const unsigned char *address, unsigned *flags);
void gw_places_free(gw_t *gw);
/* Handle the connection of a process that only a peer had named. */
void gw_place_connected(gw_t *gw, mad_peer_t peer);
void gw_place_forget(mad_session_t *session, mad_peer_t peer); /* Contract as in forward.h. */
/* True if a gate is down because the dialled process does not exist, or refuses this process, as its host has reported.  If
 * false, the gate may be dialled again: the network may recover, or the process was connected once. */
static inline bool gw_nobody_there(const madi_gate_t *gate)
{
    return !madi_gate_adapter(gate) && !madi_gate_no_answer(gate);
}
int gw_host_of_peer(gw_t *gw, mad_peer_t peer);
unsigned gw_flags_of(gw_t *gw, const unsigned char *address); /* GW_FORWARDS, GW_ANSWERS, GW_DAEMON */
/* Choose the peer that carries fragments on that lane towards the process with this address, and set *gate.  Peers in
 * avoid (may be NULL) are not used.  On failure reason says why; MAD_ERR_PEER means that processes on the path are lost,
 * but may come back.  *direct (unless direct is NULL) is true if the destination itself was dialled; after a failure the
 * destination then does not exist. */
mad_status_t gw_next_gate(gw_t *gw, int lane, const unsigned char *address, const gw_avoid_t *avoid, madi_gate_t **gate,
                          bool *direct, char *reason);

/* lane.c.  The contracts are those of forward.h. */
int gw_lane(mad_session_t *session, const char *channel);
const char *gw_lane_name(mad_session_t *session, int lane);
int gw_lanes(mad_session_t *session);
bool gw_lane_carries(mad_session_t *session, int lane);
/* Lane of the channel whose streams this lane carries: the lane itself, or the lane for which it is the second lane. */
int gw_lane_of(gw_t *gw, int lane);
/* Lane on which a stream of the given lane continues to the process with this address. */
int gw_lane_to(gw_t *gw, int lane, const unsigned char *address);
bool gw_agrees(mad_session_t *session, const unsigned char *address);
bool gw_lane_reachable(mad_session_t *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                       char *reason);
int gw_lane_network(mad_session_t *session, int lane, const madi_adapter_t *adapter);
const char *gw_network(const madi_gate_t *gate);
bool gw_carried(const madi_adapter_t *adapter);
int gw_security(const madi_adapter_t *adapter);

/* daemon.c */
bool gw_is_daemon(void); /* True if this process only forwards (madgw). */
/* Mark of a gateway that the launcher started: its number and its start time, which follow the host's name in its
 * address.  A new gateway replaces an older one with its number. */
typedef struct gw_mark {
    uint32_t number;
    uint64_t since; /* start time in ns; 0 if the launcher did not start the process as a gateway */
} gw_mark_t;
size_t gw_mark_put(unsigned char *bytes, size_t room);          /* Write the mark of this process; return its length. */
gw_mark_t gw_mark_read(const unsigned char *bytes, size_t len); /* Read the mark from an adapter's bytes. */
/* Add the gateways that the launcher started in addition to the ranks. */
mad_status_t gw_learn_gateways(mad_session_t *session);
mad_status_t gw_learn_named(mad_session_t *session); /* Add the gateways of MAD_GATEWAYS.  MAD_ERR_CONFIG is logged. */

/* gossip.c.  The caller holds the session's lock. */
void gw_gossip_gate_up(madi_gate_t *gate); /* Contract as in forward.h. */
void gw_gossip_arrived(gw_hop_t *hop, const unsigned char *address, size_t max);

/* count.c */
/* Return the row of these streams, and count one more stream in it; NULL if out of memory.  Under the session's lock,
 * like all functions here. */
gw_route_t *gw_route_open(gw_t *gw, int lane, int from, int via, int to, bool passes);
/* Add the counters of a stream that has ended to its row.  route may be NULL. */
void gw_route_close(gw_route_t *route, const gw_side_t *there, const gw_side_t *back);
void gw_routes_free(gw_t *gw);
void gw_route_text(const madi_link_t *link, char *buf, size_t len); /* Contract as in forward.h; under the session's lock. */
void gw_report_routes(struct mad_session *session, madi_json_t *json);
void gw_traffic(madi_gate_t *gate, madi_traffic_t *ends, madi_traffic_t *passing);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes: channels that the topology file names use only their own networks.  Every path belongs to a lane (forward.h).
 * All links of one stream are on the same lane, or on the lane that carries its streams.  So the link over which a
 * stream is opened tells a gateway which networks to use next; fragments need not carry the lane.
 *
 * With n lanes in the file, lane n + i carries the streams of lane i between two ranks.  So a rank that gives no sign
 * of life while streams wait can soon be given up as a gateway.  Direct messages to that rank wait, as for every other
 * rank.  A daemon carries only streams and needs no second lane. */
#include "gateway/gateway.h"

#include <limits.h>
#include <stdio.h>

static const madi_map_t *map_of(mad_session_t *session)
{
    return gw_of_session(session)->map;
}

int gw_lane(mad_session_t *session, const char *channel)
{
    return madi_map_lane(map_of(session), channel);
}

const char *gw_lane_name(mad_session_t *session, int lane)
{
    return gw_lane_carries(session, lane) ? "(streams)" : madi_map_lane_name(map_of(session), lane);
}

int gw_lanes(mad_session_t *session)
{
    return 2 * madi_map_lanes(map_of(session));
}

bool gw_lane_carries(mad_session_t *session, int lane)
{
    return lane >= madi_map_lanes(map_of(session));
}

int gw_lane_of(gw_t *gw, int lane)
{
    return lane % madi_map_lanes(gw->map);
}

int gw_lane_to(gw_t *gw, int lane, const unsigned char *address)
{
    unsigned flags = 0;
    int host = gw_host_of(gw, address, &flags);
    bool rank = !gw_is_daemon() && !(flags & GW_DAEMON);
    /* processes of one host need no second lane: none of them becomes unreachable by itself */
    return rank && host != gw->host ? lane + madi_map_lanes(gw->map) : lane;
}

/* True if the peer uses the same topology file, whose hash is in the name of the virtual adapter's network. */
bool gw_agrees(mad_session_t *session, const unsigned char *address)
{
    return gw_host_of(gw_of_session(session), address, NULL) >= 0;
}

int gw_lane_network(mad_session_t *session, int lane, const madi_adapter_t *adapter)
{
    int place;
    lane = gw_lane_of(gw_of_session(session), lane);
    if (!lane || adapter->driver == &madi_driver_virtual)
        return INT_MAX;
    place = madi_map_network_index(map_of(session), lane, adapter->driver->name, adapter->name, adapter->network, NULL);
    return place < 0 ? INT_MAX : place;
}

bool gw_lane_reachable(mad_session_t *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                       char *reason)
{
    int own = gw_lane_of(gw_of_session(session), lane);
    if (adapter->driver == &madi_driver_virtual && lane == own)
        return gw_reachable(gw_of_session(session), lane, bytes, len, reason);
    if (adapter->driver == &madi_driver_virtual) {
        snprintf(reason, MADI_REASON_MAX, "a stream cannot be carried by another stream");
        return false;
    }
    if (own &&
        madi_map_network_index(map_of(session), own, adapter->driver->name, adapter->name, adapter->network, reason) < 0)
        return false;
    return !adapter->driver->reach.reachable || adapter->driver->reach.reachable(adapter, bytes, len, reason);
}

const char *gw_network(const madi_gate_t *gate)
{
    const madi_adapter_t *adapter = madi_gate_adapter(gate);
    gw_t *gw = gw_of_session(adapter->session);
    return madi_map_network(gw->map, adapter->driver->name, adapter->name, adapter->network,
                            gw_host_of_peer(gw, gate->peer));
}

int gw_security(const madi_adapter_t *adapter)
{
    return madi_map_security(map_of(adapter->session), adapter->driver->name, adapter->name, adapter->network);
}

bool gw_carried(const madi_adapter_t *adapter)
{
    return adapter->driver == &madi_driver_virtual;
}

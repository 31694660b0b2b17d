/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that the topology file names, which take their own networks only.  Whatever speaks of ways has a lane
 * (forward.h), and all links of one stream are on the same: so a gateway knows from the link over which a stream is opened
 * by which networks it goes on, and nothing is said of it on the way. */
#include "gateway/gateway.h"

#include <limits.h>

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
    return madi_map_lane_name(map_of(session), lane);
}

int gw_lanes(mad_session_t *session)
{
    return madi_map_lanes(map_of(session));
}

/* The virtual adapter's network has the file's hash in its name. */
bool gw_agrees(mad_session_t *session, const unsigned char *address)
{
    return gw_host_of(gw_of_session(session), address, NULL) >= 0;
}

int gw_lane_place(mad_session_t *session, int lane, const madi_adapter_t *adapter)
{
    int place;
    if (adapter->driver == &madi_driver_virtual)
        return INT_MAX;
    place = madi_map_place(map_of(session), lane, adapter->driver->name, adapter->name, adapter->network, NULL);
    return place < 0 ? INT_MAX : place;
}

bool gw_lane_reachable(mad_session_t *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                       char *reason)
{
    if (adapter->driver == &madi_driver_virtual)
        return gw_reachable(gw_of_session(session), lane, bytes, len, reason);
    return madi_map_place(map_of(session), lane, adapter->driver->name, adapter->name, adapter->network, reason) >= 0 &&
           (!adapter->driver->reachable || adapter->driver->reachable(adapter, bytes, len, reason));
}

const char *gw_network(const madi_gate_t *gate)
{
    const madi_adapter_t *adapter = gate->adapter;
    gw_t *gw = gw_of_session(adapter->session);
    return madi_map_network(gw->map, adapter->driver->name, adapter->name, adapter->network,
                            gw_host_of_peer(gw, gate->peer));
}

bool gw_carried(const madi_adapter_t *adapter)
{
    return adapter->driver == &madi_driver_virtual;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that are forwarded (MADI_WIRE_FORWARD): what the core asks of src/gateway, which it does not know.
 *
 * A session that has a virtual adapter has a forwarder.  session->forward is set by that adapter's open, gate->forward by
 * the forwarder for each gate over which such packets go; both are NULL elsewhere, and then nothing of this is called. */
#ifndef MADI_FORWARD_H
#define MADI_FORWARD_H

#include "base/json.h"
#include "core/driver.h"
#include <madeleine.h>

struct madi_traffic;

/* Lanes.  A channel that the topology file names takes that one's networks and no others: it is on a lane of its own, and a
 * peer has a gate for each lane on which it was spoken to.  All other channels are on lane 0, for which every adapter is
 * good.  A lane's number is the same for all who read the same file; both ends of a link are on one.
 *
 * Streams take links on the lane of their channel, or, between two ranks, on another one that carries for it: what these two
 * say to each other themselves is then not lost with a link that is given up since a stream waits. */

typedef struct madi_forward {
    /* As a session starts.  If there is a launcher: it has all addresses now, and nobody else talks to it yet: later that
     * may be in the program's hands (a barrier), and the forwarder not ask it.  No lock. */
    mad_status_t (*started)(struct mad_session *session);
    /* The lane of a channel of this name; what the file calls a lane ("": 0); how many there are, 0 included; is this one for
     * streams only?  Any lock. */
    int (*lane)(struct mad_session *session, const char *channel);
    const char *(*lane_name)(struct mad_session *session, int lane);
    int (*lanes)(struct mad_session *session);
    bool (*carries)(struct mad_session *session, int lane);
    /* Does whoever has this address read the same file?  Under the session's lock. */
    bool (*agrees)(struct mad_session *session, const unsigned char *address);
    /* Of a lane that is not 0: may this adapter be used for an adapter with these bytes, which has the same network's name?
     * False: why not.  And its place among those that may, the first is best.  Under the session's lock. */
    bool (*reachable)(struct mad_session *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                      char *reason);
    int (*place)(struct mad_session *session, int lane, const madi_adapter_t *adapter);
    /* What the topology file calls the network by which this gate's adapter reaches its peer; NULL: nothing, or it does not
     * tell which of several it is.  Does what goes over this adapter go over others, in fragments?  Under the session's
     * lock. */
    const char *(*network)(const struct madi_gate *gate);
    bool (*carried)(const madi_adapter_t *adapter);
    /* The madi_security_t that the topology file has for the network of this adapter: the strongest, where it does not tell
     * which of several it is.  -1: none.  Under the session's lock, or as the session starts. */
    int (*security)(const madi_adapter_t *adapter);
    /* The gate is up.  Under the session's lock. */
    void (*up)(struct madi_gate *gate);
    /* A peer that only it has kept is forgotten.  Under the session's lock. */
    void (*forget)(struct mad_session *session, mad_peer_t peer);
    /* A FORWARD packet: as the upcalls of driver.h.  Under the session's lock. */
    madi_place_t (*rx_begin)(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_done)(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    /* Send what waits for this gate, which is up.  Under both locks, from madi_gate_pump. */
    void (*pump)(struct madi_gate *gate);
    /* The gate is down, or its session ends: what was coming in does not go on.  Under the session's lock. */
    void (*down)(struct madi_gate *gate, const char *text);
    void (*free)(struct madi_gate *gate);
    /* No stream goes over this gate, which is down.  Under the session's lock. */
    bool (*idle)(const struct madi_gate *gate);
    /* The session is about to end: whoever can shall send by other ways.  Under the session's lock. */
    void (*leave)(struct mad_session *session);
    /* Is somebody else's traffic passing through?  Under the session's lock. */
    bool (*busy)(struct mad_session *session);
    /* Has what waited for this gate, which is up, been given to its link?  Under the session's lock. */
    bool (*drained)(struct madi_gate *gate);
    /* The hosts that what goes over this link passes, in order, both ends' too, with blanks between them, put into buf, which
     * is empty; nothing when it is none of the forwarder's.  Under the session's lock. */
    void (*route)(const madi_link_t *link, char *buf, size_t len);
    /* True if what goes over this link is encrypted between its two ends.  Under the session's lock. */
    bool (*encrypts)(const madi_link_t *link);
    /* What mad_info shows: members of one object, and another one, by route.  Under the session's lock. */
    void (*say)(struct mad_session *session, madi_json_t *json);
    void (*say_routes)(struct mad_session *session, madi_json_t *json);
    /* Fragments over this gate (as messages), and their bytes: of streams that end here, and of others; is added.  Under
     * the session's lock. */
    void (*traffic)(struct madi_gate *gate, struct madi_traffic *ends, struct madi_traffic *passing);
    void *state;
} madi_forward_t;

#endif

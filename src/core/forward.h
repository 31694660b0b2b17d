/* SPDX-License-Identifier: BSD-3-Clause */
/* Forwarded packets (MADI_WIRE_FORWARD): the functions of src/gateway that the core calls, by this table only.
 *
 * A session that has a virtual adapter has a forwarder.  The virtual adapter's open sets session->forward; the forwarder
 * sets gate->forward for each gate that carries these packets.  Both are NULL elsewhere, and then no function here is
 * called. */
#ifndef MADI_FORWARD_H
#define MADI_FORWARD_H

#include "base/json.h"
#include "core/driver.h"
#include <madeleine.h>

struct madi_traffic;

/* Lanes.  A channel of the topology file uses only the networks given there: it has a lane of its own.  A peer has a gate
 * for each lane on which communication has begun.  All other channels are on lane 0, which every adapter serves.  A lane has
 * one number in all processes with the same file; both ends of a link are on one lane.
 *
 * Streams use links on the lane of their channel.  Between two ranks they use a separate lane that carries streams only.
 * If such a link is closed because a stream is stuck, the messages between these two ranks are not lost with it. */

typedef struct madi_forward {
    /* Start the forwarder, as a session starts.  The launcher, if any, has all addresses by now, and no other thread
     * uses the launcher yet.  Later the program may use the launcher (for a barrier), and the forwarder must not.  Called
     * without locks. */
    mad_status_t (*started)(struct mad_session *session);
    /* lane: return the lane of the channel of this name.  lane_name: return a lane's name in the file ("" for lane 0).
     * lanes: return the number of lanes, lane 0 included.  carries: true if the lane is for streams only.  Any lock. */
    int (*lane)(struct mad_session *session, const char *channel);
    const char *(*lane_name)(struct mad_session *session, int lane);
    int (*lanes)(struct mad_session *session);
    bool (*carries)(struct mad_session *session, int lane);
    /* True if the process with this address has the same topology file.  Under the session's lock. */
    bool (*agrees)(struct mad_session *session, const unsigned char *address);
    /* For lanes other than 0.  reachable: true if this adapter may be used to reach the adapter with these address bytes, on
     * the same network; false sets reason.  place: its preference, the lowest is best.  Under the session's lock. */
    bool (*reachable)(struct mad_session *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                      char *reason);
    int (*place)(struct mad_session *session, int lane, const madi_adapter_t *adapter);
    /* network: the topology file's name of the network by which this gate's adapter reaches its peer; NULL if there is
     * none, or if several are possible.  carried: true if this adapter's packets go over other adapters as fragments.
     * Under the session's lock. */
    const char *(*network)(const struct madi_gate *gate);
    bool (*carried)(const madi_adapter_t *adapter);
    /* The madi_security_t in the topology file for the network of this adapter; of several possible networks the strongest.
     * -1: none.  Under the session's lock, or as the session starts. */
    int (*security)(const madi_adapter_t *adapter);
    /* Report that the gate is up.  Under the session's lock. */
    void (*up)(struct madi_gate *gate);
    /* Report that a peer is being released that only the forwarder has used.  Under the session's lock. */
    void (*forget)(struct mad_session *session, mad_peer_t peer);
    /* Receive a FORWARD packet: like the upcalls of driver.h.  Under the session's lock. */
    madi_place_t (*rx_begin)(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_done)(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    /* Send fragments that wait for this gate.  Precondition: the gate is up.  Under both locks, from madi_gate_pump. */
    void (*pump)(struct madi_gate *gate);
    /* Report that the gate is down, or its session ends: the rest of a partial fragment will not arrive.  Under the
     * session's lock. */
    void (*down)(struct madi_gate *gate, const char *text);
    void (*free)(struct madi_gate *gate);
    /* True if no stream uses this gate.  Precondition: the gate is down.  Under the session's lock. */
    bool (*idle)(const struct madi_gate *gate);
    /* Report that the session is about to end, so that peers with another path use that path.  Under the session's lock. */
    void (*leave)(struct mad_session *session);
    /* True if streams of other processes pass through this one.  Under the session's lock. */
    bool (*busy)(struct mad_session *session);
    /* True if no fragment waits for this gate: the link has taken all of them.  Precondition: the gate is up.  Under the
     * session's lock. */
    bool (*drained)(struct madi_gate *gate);
    /* Write to buf the hosts on the path of this link, in order, both ends included, separated by blanks.  buf is empty
     * before, and stays so for a link that is not virtual.  Under the session's lock. */
    void (*route)(const madi_link_t *link, char *buf, size_t len);
    /* True if this link's packets are encrypted from end to end.  Under the session's lock. */
    bool (*encrypts)(const madi_link_t *link);
    /* Write two objects for mad_info: the members of a session's forwarding, and its routes.  Under the session's lock. */
    void (*write)(struct mad_session *session, madi_json_t *json);
    void (*write_routes)(struct mad_session *session, madi_json_t *json);
    /* Add the fragments that have gone over this gate (counted as messages), and their bytes: those of streams that end
     * here, and those of streams that pass.  Under the session's lock. */
    void (*traffic)(struct madi_gate *gate, struct madi_traffic *ends, struct madi_traffic *passing);
    void *state;
} madi_forward_t;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that are forwarded (MADI_WIRE_FORWARD): what the core asks of src/gateway, which it does not know.
 *
 * A session that has a virtual adapter has a forwarder.  session->forward is set by that adapter's open, gate->forward by
 * the forwarder for each gate over which such packets go; both are NULL elsewhere, and then nothing of this is called. */
#ifndef MADI_FORWARD_H
#define MADI_FORWARD_H

#include "base/json.h"
#include "core/driver.h"

struct madi_traffic;

typedef struct madi_forward {
    /* The launcher has all addresses now, and nobody else talks to it yet: later that may be in the program's hands (a
     * barrier), and the forwarder not ask it.  No lock. */
    mad_status_t (*started)(struct mad_session *session);
    /* May a channel have this name?  False: why not.  No lock. */
    bool (*channel)(struct mad_session *session, const char *name, char *reason);
    /* A FORWARD packet: as the upcalls of driver.h.  Under the session's lock. */
    madi_place_t (*rx_begin)(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    void (*rx_done)(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
    /* Send what waits for this gate, which is up.  Under both locks, from madi_gate_pump. */
    void (*pump)(struct madi_gate *gate);
    /* The gate is down, or its session ends: what was coming in does not go on.  Under the session's lock. */
    void (*down)(struct madi_gate *gate, const char *text);
    void (*free)(struct madi_gate *gate);
    /* The session is about to end: whoever can shall send by other ways.  Under the session's lock. */
    void (*leave)(struct mad_session *session);
    /* Is somebody else's traffic passing through?  Under the session's lock. */
    bool (*busy)(struct mad_session *session);
    /* The hosts that what goes over this link passes, in order, both ends' too, with blanks between them, put into buf, which
     * is empty; nothing when it is none of the forwarder's.  Under the session's lock. */
    void (*route)(const madi_link_t *link, char *buf, size_t len);
    /* What mad_info shows: members of one object, and another one, by route.  Under the session's lock. */
    void (*say)(struct mad_session *session, madi_json_t *json);
    void (*say_routes)(struct mad_session *session, madi_json_t *json);
    /* Fragments over this gate (as messages), and their bytes: of streams that end here, and of others; is added.  Under
     * the session's lock. */
    void (*traffic)(struct madi_gate *gate, struct madi_traffic *ends, struct madi_traffic *passing);
    void *state;
} madi_forward_t;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a gate and of its links; the end of connections and peers.  Under session->lock. */
#ifndef MADI_GATE_H
#define MADI_GATE_H

#include "core/object/gate.h"

/* gate.c */
/* Take a gate down: its messages fail, its link is closed, and the program gets an event.  text: the cause; NULL for the
 * explanation that madi_gate_why writes.  Under session->lock. */
void madi_gate_down(madi_gate_t *gate, mad_status_t status, const char *text);
void madi_link_bury(madi_link_t *link);       /* close a link, to be freed later; under session->lock */
void madi_gate_time_out(madi_gate_t *gate);   /* fail a gate at its deadline; under session->lock */
void madi_gate_pump(madi_gate_t *gate);       /* send what waits for the peer; under tx_lock */
extern madi_adapter_t madi_no_adapter;        /* placeholder for an adapter; its operation `take` finds nothing */
void madi_links_reap(mad_session_t *session); /* free closed links; under session->lock; not from an upcall */
madi_conn_t *madi_conn_get(mad_channel_t *channel, mad_peer_t peer, mad_status_t *status); /* takes session->lock */

/* gate_life.c.  The caller holds session->lock. */
madi_gate_t *madi_gate_new(mad_session_t *session, mad_peer_t peer, int lane); /* return NULL if out of memory */
void madi_gate_rest(madi_gate_t *gate);       /* keep a released gate, to which nothing refers, for reuse */
void madi_gates_free(mad_session_t *session); /* free all gates, at the end of the session */
/* Return the adapter of the gate's link, or of its last link; NULL if the gate was never up. */
const madi_adapter_t *madi_gate_adapter(const madi_gate_t *gate);
/* Return the adapter of the gate's link, which may not be up yet; of rails, the one that carries messages.  NULL if there is
 * no link. */
madi_adapter_t *madi_gate_link_adapter(const madi_gate_t *gate);
int64_t madi_gate_deadline(const madi_gate_t *gate); /* ns: deadline of a connecting gate; time at which a gate went down */
bool madi_gate_no_answer(const madi_gate_t *gate);   /* true if an attempt of the gate to connect got no answer */
void madi_gate_set_quiet(madi_gate_t *gate);         /* have the gate's end reported to the log only, at level info */

/* retire.c */
bool madi_conns_retire_gate(madi_gate_t *gate);   /* retire the gate's connections; false if one is in use; under
                                                   * session->lock */
void madi_channels_sweep(mad_session_t *session); /* retire closed channels to which nothing refers; under session->lock */
bool madi_conns_in_use(madi_gate_t *gate);        /* true if any connection of the gate is in use; takes gate->tx_lock */
bool madi_conn_retire_unused(madi_conn_t *conn);  /* like madi_conn_retire; precondition: no connection of its gate is in
                                                   * use */
/* Retire a connection; return false if that is not possible yet.  Precondition: channel not open, or gate down. */
bool madi_conn_retire(madi_conn_t *conn);
bool madi_conn_in_use(madi_conn_t *conn); /* true if a message of the connection is open, pending, or not received */
/* release unopened channels that peers no longer use; before each announcement */
void madi_unopened_sweep(madi_gate_t *gate);

/* ledger_enforce.c.  A driver's upcall must not call these functions. */
void madi_ledger_enforce(madi_gate_t *gate); /* end the gate's connection if its peer has passed a bound */
/* If all peers together have passed a bound, end the connection of the peer with the largest charge. */
void madi_ledger_enforce_all(mad_session_t *session);

/* forget.c.  A driver's upcall must not call these functions. */
#define MADI_FORGET_NS 20000000 /* ns; least time that a lost peer is kept; also the time between two checks */
/* Free lost peers that the program did not add and that are not ranks, once nothing refers to them.  Does nothing before
 * the next check is due; now: ns. */
void madi_peers_forget_lost(mad_session_t *session, int64_t now);
/* Release a gate that connected a rail, and that is down.  False if something refers to it. */
bool madi_gate_release(madi_gate_t *gate);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers by number and by identity.  Under session->lock. */
#ifndef MADI_PEER_H
#define MADI_PEER_H

#include "core/object/types.h"

/* A peer.  Before communication begins, a peer costs this structure and its address. */
struct madi_peer {
    madi_gate_t *gate;      /* the peer's gate on lane 0 */
    unsigned char *address; /* address, in allocated memory; NULL for a rank whose address was not fetched yet */
    madi_gate_t **lanes;    /* gates on lanes from 1 on; NULL if none was used yet */
    mad_peer_t number;      /* -1: the entry is free */
    bool kept : 1;          /* the program has added this peer, so the library does not free it */
    bool serves : 1;        /* the forwarder sends streams through this peer */
    bool claimed : 1;       /* only other peers have reported this address; no connection has confirmed the address */
    bool wanted : 1;        /* another peer has named this one as the end of a stream, and it is not connected yet */
    /* true if the process is known from one peer only, which is charged for the process; the gate of that peer is noted
     * behind the address */
    bool announced : 1;
};

/* connect_session.c: this folder's part of a session (session->connect) */
struct madi_connect_session *madi_connect_session_new(void); /* return NULL if out of memory */
void madi_connect_session_lose(mad_session_t *session);      /* forget gates and handshakes, in the child of a fork */
void madi_connect_session_free(mad_session_t *session);      /* free peers and gates, and this folder's part of the session
                                                              * if there is one */
uint32_t madi_peers_known(const mad_session_t *session);     /* number of peers */
mad_peer_t madi_peers_end(const mad_session_t *session);     /* the lowest number that was never used */

/* peer.c */
/* return the peer with this number, NULL if there is none; valid until a peer is added */
madi_peer_t *madi_peer_at(const mad_session_t *session, mad_peer_t peer);
const unsigned char *madi_peer_address(const mad_session_t *session, mad_peer_t peer); /* return the peer's address; NULL if
                                                                                        * there is none, or if it is not
                                                                                        * known yet */
void madi_peer_drop(mad_session_t *session, madi_peer_t *peer);                        /* free a peer without a gate */
mad_status_t madi_peer_add(mad_session_t *session, const unsigned char *address, size_t len, mad_peer_t *peer);
/* Like madi_peer_add, but for a process that a peer has announced: the announcing peer is charged.  MAD_ERR_BUSY if that
 * peer has announced too many processes. */
mad_status_t madi_peer_learn(madi_gate_t *announcer, const unsigned char *address, size_t len, mad_peer_t *peer);
mad_peer_t madi_peer_find(mad_session_t *session, const unsigned char *address); /* find a peer by identity; -1 if none */
/* Record that the peer is connected: no other peer is charged for this peer any more.  If reached is true, this process
 * has connected to the peer, so the peer's address is right. */
void madi_peer_proved(mad_session_t *session, mad_peer_t peer, bool reached);
mad_status_t madi_peer_gate(mad_session_t *session, mad_peer_t peer, int lane, madi_gate_t **gate); /* makes it if needed */
madi_gate_t *madi_peer_gate_find(const mad_session_t *session, mad_peer_t peer, int lane); /* NULL if not made yet */
int madi_lanes(mad_session_t *session);                   /* number of lanes: 1 without a topology file */
bool madi_lane_carries(mad_session_t *session, int lane); /* true if the lane carries streams, and no messages */
/* Give a lost peer a new number, since the process may be reachable again.  On lanes on which the peer is not lost,
 * both numbers share a gate, and the peer's messages come from the old number.  quiet: only the library communicates
 * with the peer on that lane, and the program gets no event.  MAD_ERR_INVAL if the peer has a new number already. */
mad_status_t madi_peer_renumber(mad_session_t *session, mad_peer_t lost, int lane, bool quiet, mad_peer_t *peer);
/* Like madi_peer_add, but give a new number to a peer that is lost on that lane; lane -1 means any lane. */
mad_status_t madi_peer_add_anew(mad_session_t *session, const unsigned char *address, size_t len, int lane,
                                mad_peer_t *peer);
mad_status_t madi_peer_fetch(mad_session_t *session, mad_peer_t peer); /* get a rank's address from the launcher */
/* Check that there is a peer with this number, and get its address if it is a rank whose address is not known yet. */
mad_status_t madi_peer_know(mad_session_t *session, mad_peer_t peer);

#endif

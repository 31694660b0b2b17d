/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake on a new stream socket: version, identities, and a proof of a key of the job by both ends.
 *
 *   active                                               passive
 *   HELLO     nonce, identity wanted, own identity,  ->
 *             role, security
 *                                                    <-  CHALLENGE nonce, role, security
 *   PROOF     proof, credit floor, lane, own address ->
 *                                                    <-  VERDICT   proof, status, credit floor
 *   either may be answered by REFUSE: a status, and the socket is closed
 *
 * A process that has not proved the key learns only the version, role and security of the other.  REFUSE and the end of the
 * socket are not authenticated: they end this path to the peer, and do not affect other paths.
 *
 *   hello.c          life of a handshake, frames             accept.c    the passive side: incoming connections, limits
 *   hello_deadline.c deadlines                               attempt.c   the active side
 *   hello_seal.c     TLS below it, where the network is sealed
 *   proof.h          the signed bytes                        secret.h    the keys
 *
 * Everything here is under session->lock. */
#ifndef MADI_HELLO_H
#define MADI_HELLO_H

#include "core/object/types.h"

struct madi_hello;

/* Begin the handshake on a path of the gate's search; takes fd.  On an error (errno) the caller still owns the link. */
mad_status_t madi_hello_connect(madi_gate_t *gate, madi_link_t *link, int fd, int way);
void madi_hello_accept(madi_adapter_t *adapter, int fd);
void madi_hello_abort(struct madi_hello *hello);
void madi_hello_abort_all(madi_gate_t *gate);   /* end all attempts of this process to connect the gate */
void madi_hellos_abort(mad_session_t *session); /* end all handshakes of the session */
/* Choose one of this process's attempts that have received the peer's challenge, unless a better attempt may still
 * receive one. */
void madi_hello_decide(madi_gate_t *gate, int64_t now);
bool madi_hello_tries(const madi_gate_t *gate, const madi_adapter_t *adapter);     /* true if an attempt uses this adapter */
void madi_hello_give_up(madi_link_t *link, mad_status_t status, const char *text); /* end the link's attempt, if one runs */
/* Let the handshake of a lost link fail, if the handshake runs in frames.  Return false if no such handshake runs. */
bool madi_hello_lost(madi_link_t *link, mad_status_t status, const char *text);
void madi_hello_unlink(madi_link_t *link); /* end the link's handshake in frames, if any: the link is to be closed */
/* Remove the deadline of the link's attempt, because the peer may compute for long. */
void madi_hello_no_deadline(madi_gate_t *gate);
/* Mark the link's attempt, if any: an end without a verdict does not count as a refusal, and a new attempt follows. */
void madi_hello_unsure(madi_link_t *link);
bool madi_hello_evict(mad_session_t *session); /* end the handshake of an incoming connection (accept.c); false if none */
void madi_hellos_reap(mad_session_t *session);
/* End the attempts whose deadline has passed.  Time during which this process or its machine stood still does not count.
 * To be called again at the time madi_hello_deadline at the latest, which is INT64_MAX if nothing has a deadline. */
void madi_hello_expire(mad_session_t *session, int64_t now);
int64_t madi_hello_deadline(const mad_session_t *session);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a session that belongs to this folder.  Private to src/core/connect: the functions of peer.h, gate.h and
 * hello.h are for others. */
#ifndef MADI_CONNECT_SESSION_H
#define MADI_CONNECT_SESSION_H

#include "core/connect/peer.h"
#include "core/security/proof.h"

struct madi_hello;
struct madi_kept_verdict;

/* Peers, released gates, and handshakes of a session.  Under session->lock.  Times are in ns. */
struct madi_connect_session {
    /* peer.c */
    madi_peer_t *peers;   /* table of peers, indexed by the low bits of their numbers */
    uint32_t n_peers;     /* peers that are known */
    uint32_t cap_peers;   /* entries of peers, a power of two; 0 before the first peer */
    mad_peer_t next_peer; /* the lowest number that was never used */
    int fetched;          /* number of addresses that were fetched from the launcher so far */
    uint32_t *peer_index; /* hash table by identity, open addressing: peer + 1; 0 if free */
    uint32_t cap_index;   /* entries of peer_index */
    uint32_t n_index;     /* entries of peer_index that are in use */
    /* forget.c, gate_life.c */
    int64_t forget_at;                    /* ns; time of the next check for lost peers that can be released; 0 if no peer is
                                           * lost */
    madi_gate_t *resting, **resting_tail; /* released gates for reuse, the oldest first */
    uint32_t n_resting;
    /* hello.c, hello_deadline.c, accept.c, search.c */
    struct madi_hello *hellos;          /* running handshakes, the newest first */
    struct madi_hello *dead_hellos;     /* ended handshakes, to be freed outside of callbacks */
    int n_accepted;                     /* handshakes of incoming connections */
    int n_attempts;                     /* number of running handshakes that this process has begun */
    struct madi_kept_verdict *verdicts; /* frames.c: the verdicts that were sent last; NULL if none yet */
    unsigned next_verdict;              /* number of verdicts that were kept so far */
    uint32_t refused_logged;            /* bits: statuses of refused incoming connections that were logged already */
    madi_proof_mac_t mac;               /* for the proofs of all handshakes; NULL if none yet */
    int64_t hellos_looked;              /* ns: last check of the handshakes' deadlines; 0 if no deadline runs */
    int64_t stopped_looked;             /* ns: last check whether silent peers are stopped */
    int64_t stopped_took;               /* ns: duration of that check */
    int64_t stopped_found;              /* ns: last search for stopped processes; 0 if none */
    struct madi_stopped *stopped;       /* result of that search; NULL if none */
};

#endif

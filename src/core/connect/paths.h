/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths to a peer: which there are, which is best, and what became of each.  Under session->lock. */
#ifndef MADI_PATHS_H
#define MADI_PATHS_H

#include "core/object/gate.h"
#include "core/wire/address.h"

/* Find the first entry of a peer's address that this adapter can reach on that lane; false sets reason. */
bool madi_way_find(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a,
                   madi_address_entry_t *entry, char *reason);
/* Like madi_way_find, but the next entry at or behind offset *at (first 0); *at moves behind it. */
bool madi_way_next(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a, size_t *at,
                   madi_address_entry_t *entry, char *reason);
#define MADI_WAY_CLASS 12
/* Compute the preference of an adapter's paths: the lowest (memcmp) is best. */
void madi_way_class(mad_session_t *session, int lane, const madi_adapter_t *a, unsigned char class[MADI_WAY_CLASS]);
int madi_way_rank(const madi_adapter_t *a);                                           /* the lowest is tried first */
void madi_way_failed(madi_gate_t *gate, const madi_adapter_t *a, const char *reason); /* copies reason, if memory allows */
void madi_way_late(madi_gate_t *gate); /* record that MAD_CONNECT_TIMEOUT has passed: of the chosen way, or of all */
/* Write the rejected paths with their reasons, each reason once, and what is used, or was lost, or that no path led to the
 * peer in time.  Of many paths a few are named, the others counted. */
#define MADI_WHY_MAX 512 /* bytes */
void madi_gate_why(const madi_gate_t *gate, char why[MADI_WHY_MAX]);
void madi_ways_free(madi_gate_t *gate);

/* A path that failed; in gate->failures, the last one first. */
struct madi_failure {
    struct madi_failure *next; /* the one before */
    const madi_adapter_t *adapter;
    bool was_used; /* packets had flowed */
    char reason[];
};

/* Return the last failure of an adapter's paths; NULL if none.  gate: may be NULL. */
const struct madi_failure *madi_way_failure(const madi_gate_t *gate, const madi_adapter_t *adapter);

enum madi_way { MADI_WAY_USED, MADI_WAY_TRIED, MADI_WAY_LOST, MADI_WAY_SPARE, MADI_WAY_REJECTED };
/* Return the state of a path to a peer whose address is known; reason (MADI_REASON_MAX bytes) is the cause.  Empty for USED,
 * and for TRIED (connecting) unless the peer is stopped. */
enum madi_way madi_way_explain(mad_session_t *session, mad_peer_t peer, int lane, madi_adapter_t *a, char *reason);
const char *madi_way_name(enum madi_way way); /* "used", "connecting", "was used", ... */

#endif

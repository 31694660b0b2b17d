/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths to a peer: which paths exist, which is best, and what became of each.  Under session->lock. */
#ifndef MADI_PATHS_H
#define MADI_PATHS_H

#include "core/object/gate.h"
#include "core/wire/address.h"

/* Find the first entry of a peer's address that this adapter can reach on that lane; false sets reason. */
bool madi_peer_path_find(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a,
                         madi_address_entry_t *entry, char *reason);
/* Like madi_peer_path_find, but search at and behind the offset *at (0 at first), and move *at behind the entry that
 * was found. */
bool madi_peer_path_next(mad_session_t *session, const unsigned char *address, int lane, madi_adapter_t *a, size_t *at,
                         madi_address_entry_t *entry, char *reason);
#define MADI_PEER_PATH_CLASS 12
/* Compute the preference of an adapter's paths.  The path with the lowest value (by memcmp) is best. */
void madi_peer_path_class(mad_session_t *session, int lane, const madi_adapter_t *a,
                          unsigned char class[MADI_PEER_PATH_CLASS]);
int madi_adapter_rank(const madi_adapter_t *a); /* return an adapter's rank; the adapter with the lowest rank is tried
                                                 * first */
/* Record that a path has failed. reason is copied, if memory allows. */
void madi_peer_path_failed(madi_gate_t *gate, const madi_adapter_t *a, const char *reason);
/* Record that MAD_CONNECT_TIMEOUT has passed, for the chosen path or, if none was chosen, for all. */
void madi_peer_path_time_out(madi_gate_t *gate);
/* Write the rejected paths with their reasons, and then the outcome: the path in use, the path that was lost, or the
 * fact that no path was connected in time.  Each reason is written once; of many paths a few are named, and the others
 * counted. */
#define MADI_WHY_MAX 512 /* longest explanation in bytes */
void madi_gate_why(const madi_gate_t *gate, char why[MADI_WHY_MAX]);
void madi_peer_paths_free(madi_gate_t *gate);

/* Return the last failure of an adapter's paths; NULL if none.  gate: may be NULL. */
const struct madi_failure *madi_peer_path_failure(const madi_gate_t *gate, const madi_adapter_t *adapter);

enum madi_peer_path {
    MADI_PEER_PATH_USED,
    MADI_PEER_PATH_TRIED,
    MADI_PEER_PATH_LOST,
    MADI_PEER_PATH_SPARE,
    MADI_PEER_PATH_REJECTED
};
/* Return the state of a path to a peer whose address is known.  reason (MADI_REASON_MAX bytes) receives the cause of the
 * state.  For USED the reason is empty, or notes that the stream is encrypted.  For TRIED the reason is empty, unless
 * the peer's process is stopped by a signal. */
enum madi_peer_path madi_peer_path_explain(mad_session_t *session, mad_peer_t peer, int lane, madi_adapter_t *a,
                                           char *reason);
const char *madi_peer_path_name(enum madi_peer_path way); /* "used", "connecting", "was used", ... */

#endif

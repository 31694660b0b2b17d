/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a path to a peer.  Under session->lock. */
#ifndef MADI_SEARCH_H
#define MADI_SEARCH_H

#include "core/object/gate.h"

struct madi_search;

void madi_gate_connect(madi_gate_t *gate);       /* start the search for a path, unless one runs */
void madi_gate_connect_again(madi_gate_t *gate); /* restart the search, with the same deadline; precondition: no attempt
                                                  * is under way */
madi_link_t *madi_link_new(madi_adapter_t *adapter, madi_gate_t *gate);
/* Have the driver describe this end of the link for the other one; return the number of bytes, MADI_DESCRIPTION_MAX at
 * most. */
size_t madi_link_describe(madi_link_t *link, void *bytes);
void madi_search_wave(madi_gate_t *gate); /* start the next wave, at the time next_at */
void madi_search_failed(madi_gate_t *gate, madi_link_t *link, mad_status_t status, const char *text);
void madi_search_untry(madi_gate_t *gate, int way); /* allow another try of a path that was given up in favour of another */
/* True if paths are left that cannot be tried in parallel with the attempts under way.  The attempts under way must leave
 * time for these paths. */
bool madi_search_waits(const madi_gate_t *gate, bool alone);
bool madi_search_path_better(const struct madi_search *search, int a,
                             int b); /* true if path a is of a better class than b */
void madi_search_free(madi_gate_t *gate);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a path to a peer.  Under session->lock. */
#ifndef MADI_SEARCH_H
#define MADI_SEARCH_H

#include "core/connect/paths.h"

typedef struct madi_search_path {
    madi_adapter_t *adapter;
    size_t entry; /* offset of the entry in the peer's address */
    unsigned char class[MADI_PEER_PATH_CLASS];
    int nth, index; /* nth: number of the path among its adapter's paths; index: number of the adapter */
    bool tried;     /* an attempt is running, or has failed */
} madi_search_path_t;

struct madi_search {
    int64_t next_at; /* time at which the next wave starts (ns); 0: only after a path fails */
    int wave;        /* number of paths in a wave */
    int n;           /* number of all paths */
    bool none_left;  /* for tests: there were paths, and none is left */
    madi_search_path_t way[];
};

void madi_gate_connect(madi_gate_t *gate);       /* start the search for a path, unless one runs */
void madi_gate_connect_again(madi_gate_t *gate); /* restart the search, with the same deadline; precondition: no attempt
                                                  * is under way */
madi_link_t *madi_link_new(madi_adapter_t *adapter, madi_gate_t *gate);
void madi_search_wave(madi_gate_t *gate); /* start the next wave: next_at has come */
void madi_search_failed(madi_gate_t *gate, madi_link_t *link, mad_status_t status, const char *text);
void madi_search_untry(madi_gate_t *gate, int way); /* a path was given up for another one: it may be tried again */
/* True if paths are left that cannot be tried in parallel with the attempts under way, which must leave them some time. */
bool madi_search_waits(const madi_gate_t *gate, bool alone);
bool madi_search_path_better(const struct madi_search *search, int a,
                             int b); /* true if path a is of a better class than b */
void madi_search_free(madi_gate_t *gate);

#endif

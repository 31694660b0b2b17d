/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate that belongs to this folder.  Private to src/core/connect: the functions of gate.h are for others. */
#ifndef MADI_CONNECT_GATE_H
#define MADI_CONNECT_GATE_H

#include "core/connect/paths.h"

struct madi_hello;

/* A path that the search may try: one of our adapters, and one of the peer's. */
typedef struct madi_search_path {
    madi_adapter_t *adapter;
    size_t entry; /* offset of the entry in the peer's address */
    unsigned char class[MADI_PEER_PATH_CLASS];
    int nth, index; /* nth: the path's number among the paths of its adapter; index: the adapter's number */
    bool tried;     /* the path is being tried, or has failed */
} madi_search_path_t;

/* A search for a path, the best path first. */
struct madi_search {
    int64_t next_at; /* time at which the next wave starts (ns); 0: only after a path fails */
    int wave;        /* number of paths that the next wave tries */
    int n;           /* number of all paths */
    bool none_left;  /* for tests: true if there were paths to the peer and all have failed */
    madi_search_path_t way[];
};

/* A path that failed, as an entry of the gate's list of failures, which has the last failure first. */
struct madi_failure {
    struct madi_failure *next; /* the failure before this one */
    const madi_adapter_t *adapter;
    bool was_used; /* true if packets have flowed on the path */
    char reason[];
};

/* State of a gate that is connecting or down, and what explains it.  Under session->lock, unless a field says otherwise. */
struct madi_connect_gate {
    int64_t deadline;  /* ns; while connecting: time at which the attempt fails, INT64_MAX if never; if down: time at which
                        * the gate went down */
    int64_t redial_at; /* ns: when to connect again, if the peer's own attempt has made no link by then; 0 if never */
    struct madi_search *search;    /* the search for a path (search.c); NULL if none runs */
    struct madi_hello *hello;      /* this process's chosen attempt, which proves the key; NULL if none is chosen yet */
    int n_attempts;                /* this process's attempts, the chosen one included */
    bool cut_off;                  /* an attempt ended without an answer: the peer has too many connections, or has ended */
    int n_cuts;                    /* number of searches that were repeated because cut_off was set */
    mad_status_t refusal;          /* unauthenticated status with which an attempt was refused: AUTH or VERSION; OK if
                                    * none */
    bool no_resources;             /* an attempt failed because this process lacks memory or descriptors */
    bool no_answer;                /* an attempt got no answer: the network or the host may be down for a short time */
    bool timed_out;                /* no path was connected within MAD_CONNECT_TIMEOUT, and none was chosen */
    int process;                   /* while connecting: process id of a peer of this host; 0 if not known */
    bool stop_logged;              /* true if a log line has reported that the peer is stopped */
    bool quiet;                    /* true if the program does not know of the gate, and gets no events */
    int sharers;                   /* number of other peer numbers that share the gate */
    madi_adapter_t *adapter;       /* adapter of the present link, or of the last one; NULL if the gate was never up */
    struct madi_failure *failures; /* paths that failed, the last one first; NULL if none */
    bool forward_first;            /* true if fragments are sent before messages at the next turn; under tx_lock */
};

#endif

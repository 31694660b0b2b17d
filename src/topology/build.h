/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal interface of the topology parser: the structure under construction, its memory, and the errors so far. */
#ifndef MADI_TOPOLOGY_BUILD_H
#define MADI_TOPOLOGY_BUILD_H

#include "topology/topology.h"

/* Memory of one topology, freed as a whole. */
typedef struct madi_topo_chunk madi_topo_chunk_t;
typedef struct madi_topo_arena {
    madi_topo_chunk_t *chunks;
    size_t used, size; /* bytes of the newest chunk */
    bool failed;       /* true if memory was lacking at least once: the result is then incomplete */
} madi_topo_arena_t;

/* Allocate zeroed memory; NULL if out of memory. */
void *madi_topo_alloc(madi_topo_arena_t *arena, size_t count, size_t size);
char *madi_topo_copy(madi_topo_arena_t *arena, const char *text); /* NULL likewise */
/* Make room for one more element behind count.  Return the array, which may have moved; NULL if out of memory.  Start
 * with NULL and 0. */
void *madi_topo_grow(madi_topo_arena_t *arena, void *array, int count, size_t size);
void madi_topo_arena_fini(madi_topo_arena_t *arena);

/* The structure that users see, with the table that finds hosts by name.  topo must be first, because a pointer to it is
 * cast to a pointer to the whole. */
typedef struct madi_topo_whole {
    madi_topo_t topo;
    madi_topo_arena_t arena;
    int *slot; /* hash table of hosts by name: index + 1, or 0 if the slot is empty; its size, `slots`, is a power of two */
    unsigned slots;
} madi_topo_whole_t;

/* A host's presence on a network. */
typedef struct madi_topo_pair {
    int host;
    madi_topo_on_t on;
} madi_topo_pair_t;

/* A topology while it is being read. */
typedef struct madi_topo_build {
    madi_topo_whole_t *whole;
    madi_topo_t *topo;         /* points into whole */
    madi_topo_arena_t scratch; /* freed when reading ends */
    const char **text;         /* start of each line of the file; the last entry is the end of the text */
    int lines;
    madi_topo_pair_t *pair; /* pairs in the order of networks */
    int pairs;
    int networks_line; /* line of the networks section */
    const char *where; /* current object for messages, for instance "network 'red'"; or NULL */
    char *errors;
    size_t errors_len;
    int wrong; /* number of errors */
} madi_topo_build_t;

/* errors.c: add an error for a line; its text says what is wrong and what would be right. */
void madi_topo_wrong(madi_topo_build_t *build, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* topology.c: return the host of this name, creating it if needed; -1 if out of memory, or if there are too many, which
 * adds an error. */
int madi_topo_host_make(madi_topo_build_t *build, const char *name, int line);

/* read.c: convert libconfig's tree into the structure. complete.c: order it, and fill in defaults. check.c: check
 * the whole.  Each step may add errors; the next one is called only if there are none. */
void madi_topo_read(madi_topo_build_t *build, const char *text, size_t len);
void madi_topo_complete(madi_topo_build_t *build);
void madi_topo_check(madi_topo_build_t *build);

#endif

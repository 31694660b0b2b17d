/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the topology's parser: what is being built, its memory, and the errors found so far. */
#ifndef MADI_TOPOLOGY_BUILD_H
#define MADI_TOPOLOGY_BUILD_H

#include "topology/topology.h"

/* All memory of one topology; freed as a whole. */
typedef struct madi_topo_chunk madi_topo_chunk_t;
typedef struct madi_topo_arena {
    madi_topo_chunk_t *chunks;
    size_t used, size; /* of the newest chunk */
    bool failed;       /* out of memory: what was asked for then is missing */
} madi_topo_arena_t;

/* Zeroed memory; NULL: there is none. */
void *madi_topo_alloc(madi_topo_arena_t *arena, size_t count, size_t size);
char *madi_topo_copy(madi_topo_arena_t *arena, const char *text); /* NULL likewise */
/* Room for one more element behind count: the array, which may have moved, or NULL.  Starts with NULL and 0. */
void *madi_topo_grow(madi_topo_arena_t *arena, void *array, int count, size_t size);
void madi_topo_arena_fini(madi_topo_arena_t *arena);

/* The structure that users see, and what finds things in it. */
typedef struct madi_topo_whole {
    madi_topo_t topo; /* first: a pointer to it is one to the whole */
    madi_topo_arena_t arena;
    int *slot; /* hash table of hosts by name: index + 1; slots is a power of two */
    unsigned slots;
} madi_topo_whole_t;

/* That a host is on a network. */
typedef struct madi_topo_pair {
    int host;
    madi_topo_on_t on;
} madi_topo_pair_t;

/* A topology while it is read. */
typedef struct madi_topo_build {
    madi_topo_whole_t *whole;
    madi_topo_t *topo;         /* the same */
    madi_topo_arena_t scratch; /* freed when it has been read */
    const char **text;         /* where each line of the file begins; one more: where it ends */
    int lines;
    madi_topo_pair_t *pair; /* by networks */
    int pairs;
    int networks_line; /* where they begin */
    const char *where; /* "network 'red'": what is being read, said before what is wrong; or NULL */
    char *errors;
    size_t errors_len;
    int wrong; /* how many errors there are */
} madi_topo_build_t;

/* errors.c: what is wrong in line, and what would be right. */
void madi_topo_wrong(madi_topo_build_t *build, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* topology.c: the host of that name, made if need be; -1: no memory, or too many, which is an error then. */
int madi_topo_host_make(madi_topo_build_t *build, const char *name, int line);

/* read.c: from libconfig's tree into the structure.  complete.c: put in order what was read, with defaults for what is not
 * said.  check.c: is it right as a whole?  Each finds errors; the next is called only if there are none. */
void madi_topo_read(madi_topo_build_t *build, const char *text, size_t len);
void madi_topo_complete(madi_topo_build_t *build);
void madi_topo_check(madi_topo_build_t *build);

#endif

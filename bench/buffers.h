/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers that are not in the sender's cache: taken from a space larger than a core's private caches (fresh), or
 * written by the other process's core (shared). */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A space from which each message takes another part.  A part is used again only after all others. */
typedef struct bench_space {
    char *base;
    size_t part;     /* bytes from one part to the next */
    uint32_t parts;  /* number of parts; a power of two */
    uint32_t number; /* number of parts taken so far */
} bench_space_t;

/* Make a space for messages of size bytes, filled with bytes of value fill. 0 or -1 with errno. */
int bench_space_open(bench_space_t *space, size_t size, int fill);
void bench_space_close(bench_space_t *space);

/* Return the next part.  No prefetcher can foresee the order. */
static inline char *bench_space_next(bench_space_t *space)
{
    uint32_t at = space->number++ * 0x9e3779b1u & (space->parts - 1);
    return space->base + at * space->part;
}

/* The buffers from which two processes send, in shared memory: each process writes the other's. */
typedef struct bench_shared {
    char *base; /* NULL until the memory is open */
    size_t len; /* bytes of one buffer, whole pages */
    int fd;     /* descriptor of the memory in the process that made it; -1: closed */
} bench_shared_t;

/* Name of the memory, by which the other process opens it. */
typedef struct bench_shared_name {
    int64_t pid, fd, len;
} bench_shared_name_t;

/* Make memory for two buffers of size bytes, and its name.  0 or -1 with errno. */
int bench_shared_make(bench_shared_t *shared, size_t size, bench_shared_name_t *name);
/* Open memory that another process of this user has made, and still keeps. 0 or -1 with errno. */
int bench_shared_open(bench_shared_t *shared, const bench_shared_name_t *name);
void bench_shared_close(bench_shared_t *shared);

/* Return the buffer from which the first or the second process sends. */
static inline char *bench_shared_buffer(const bench_shared_t *shared, bool first)
{
    return shared->base + (first ? 0 : shared->len);
}

/* True if each of len bytes is value. */
bool bench_all(const void *buf, size_t len, char value);

#endif

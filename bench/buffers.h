/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers that are not warm: out of a space larger than a core's own caches (fresh), or written by the other process's core (shared). */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A space of which each message takes another part.  A part comes again only after all others. */
typedef struct bench_space {
    char *base;
    size_t part;     /* bytes from one part to the next */
    uint32_t parts;  /* a power of two */
    uint32_t number; /* of parts taken */
} bench_space_t;

/* Make a space for messages of size bytes, every byte of it fill.  0 or -1 with errno. */
int bench_space_open(bench_space_t *space, size_t size, int fill);
void bench_space_close(bench_space_t *space);

/* The next part.  Parts follow each other in an order that no prefetcher foresees. */
static inline char *bench_space_next(bench_space_t *space)
{
    uint32_t at = space->number++ * 0x9e3779b1u & (space->parts - 1);
    return space->base + at * space->part;
}

/* The buffers from which two processes send, in memory of both: each writes the other one's. */
typedef struct bench_shared {
    char *base; /* NULL: not open */
    size_t len; /* of one buffer, whole pages */
    int fd;     /* of the memory, in the process that made it; -1: closed */
} bench_shared_t;

/* Names the memory for the other process, which opens it. */
typedef struct bench_shared_name {
    int64_t pid, fd, len;
} bench_shared_name_t;

/* Make memory for two buffers of size bytes, and its name.  0 or -1 with errno. */
int bench_shared_make(bench_shared_t *shared, size_t size, bench_shared_name_t *name);
/* Open what another process of this user has made and still keeps.  0 or -1 with errno. */
int bench_shared_open(bench_shared_t *shared, const bench_shared_name_t *name);
void bench_shared_close(bench_shared_t *shared);

/* The buffer from which the first or the second process sends. */
static inline char *bench_shared_buffer(const bench_shared_t *shared, bool first)
{
    return shared->base + (first ? 0 : shared->len);
}

/* True if each of len bytes is value. */
bool bench_all(const void *buf, size_t len, char value);

#endif

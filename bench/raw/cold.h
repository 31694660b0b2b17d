/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong of a pair with buffers that are not in the cache, like fresh and written of mad_perf.  A program that
 * includes this header provides its moves, and calls cold_test instead of pair_sizes. */
#ifndef BENCH_RAW_COLD_H
#define BENCH_RAW_COLD_H

#include "../buffers.h"
#include "pair.h"

typedef struct cold {
    pair_t *pair;
    pair_move_t send, receive;
    bench_space_t from, to;
    bench_shared_t shared; /* opened by the program for the largest size */
} cold_t;

#define COLD_FILL 7

static inline int cold_fresh_body(void *arg, int n)
{
    cold_t *c = arg;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        c->pair->send = bench_space_next(&c->from);
        c->pair->receive = bench_space_next(&c->to);
        rc = pair_turns(c->pair, 1, c->send, c->receive);
    }
    return rc;
}

static inline int cold_written_body(void *arg, int n)
{
    cold_t *c = arg;
    pair_t *pair = c->pair;
    size_t size = pair->size;
    int rc = 0;
    pair->send = bench_shared_buffer(&c->shared, pair->first);
    for (int i = 0; i < n && !rc; i++) {
        uint64_t begin = bench_now();
        memset(bench_shared_buffer(&c->shared, !pair->first), i, size);
        pair->size = 0;
        rc = pair_turns(pair, 1, c->send, c->receive);
        pair->size = size;
        bench_untimed(bench_now() - begin);
        if (!rc)
            rc = pair_turns(pair, 1, c->send, c->receive);
    }
    return rc;
}

static inline int cold_size(cold_t *c, const bench_options_t *o, bool fresh)
{
    pair_t *pair = c->pair;
    size_t size = pair->size;
    bench_stats_t us;
    if (bench_measure(o, size, 2, fresh ? cold_fresh_body : cold_written_body, c, pair->first ? &us : NULL))
        return fprintf(stderr, "%s: a transfer of %zu bytes failed\n", pair->who, size), -1;
    if (!bench_all(pair->receive, size, fresh ? COLD_FILL : (char)(bench_iterations(o, size) - 1)))
        return fprintf(stderr, "%s: wrong data at %zu bytes\n", pair->who, size), -1;
    if (pair->first)
        bench_row_print(o, &(bench_row_t){.who = pair->who,
                                          .test = fresh ? "fresh" : "written",
                                          .driver = pair->driver,
                                          .size = size,
                                          .us = us,
                                          .bytes_per_us = (double)size / us.best,
                                          .iterations = (long)bench_iterations(o, size) * bench_batches(o, size)});
    return 0;
}

/* Measure every size.  fresh: with fresh buffers; else with written ones, from c->shared.  0 or -1 after a line on
 * stderr. */
static inline int cold_test(cold_t *c, const bench_options_t *o, bool fresh)
{
    pair_t warm = *c->pair;
    int rc = 0;
    for (int i = 0; i < o->n_sizes && !rc; i++) {
        c->pair->size = o->sizes[i];
        if (fresh && (bench_space_open(&c->from, o->sizes[i], COLD_FILL) || bench_space_open(&c->to, o->sizes[i], 0)))
            return perror(c->pair->who), -1;
        rc = cold_size(c, o, fresh);
        bench_space_close(&c->from);
        bench_space_close(&c->to);
        c->pair->send = warm.send, c->pair->receive = warm.receive;
    }
    return rc;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Many streams at once, for a time: with N pairs (--pairs, else half of the ranks) rank i sends to rank N + i, for i
 * from 0; further ranks take no part (they may be gateways).  Times are per message of all streams together;
 * least_share is the share of the slowest stream, where 1 is the N-th part of all. */
#include <stdio.h>

#include "perf.h"

/* Collect the receivers' counts at rank 0 by way of their senders, so that no further pair of processes communicates. */
static int counts_gather(perf_t *p, long *all, long *least)
{
    long came;
    int rc = perf_receive(p, p->peer, &came, sizeof came);
    *all = *least = came;
    if (!rc && p->rank)
        rc = perf_send(p, 0, &came, sizeof came);
    for (int i = 1; !p->rank && i < p->options.pairs && !rc; i++) {
        rc = perf_receive(p, i, &came, sizeof came);
        *all += came;
        *least = came < *least ? came : *least;
    }
    return rc;
}

static int print(perf_t *p, long all, long least)
{
    char extra[96];
    double us = all ? p->options.ms * 1e3 / (double)all : 0;
    if (!all)
        return fprintf(stderr, "mad_perf: no message of %zu bytes came within %d ms\n", p->size, p->options.ms), -1;
    snprintf(extra, sizeof extra, "\"pairs\": %d, \"least_share\": %.3f", p->options.pairs,
             (double)least * p->options.pairs / (double)all);
    p->options.iterations = (int)all;
    p->options.batches = 1;
    return perf_print(p, perf_streams.name, (bench_stats_t){us, us, us}, (double)p->size / us, extra);
}

static int size_run(perf_t *p, bool sends, bool takes)
{
    int rc = 0;
    long came = 0, least = 0;
    if (sends || takes)
        rc = perf_verify(p);
    if (!rc)
        rc = perf_barrier(p);
    if (!rc && sends)
        rc = perf_timed_send(p, p->peer, p->options.ms) || counts_gather(p, &came, &least) ? -1 : 0;
    else if (!rc && takes)
        rc = perf_timed_receive(p, p->peer, p->options.ms, &came) || perf_send(p, p->peer, &came, sizeof came) ? -1 : 0;
    return rc || p->rank ? rc : print(p, came, least);
}

static int run(perf_t *p)
{
    int pairs = p->options.pairs = p->options.pairs ? p->options.pairs : p->ranks / 2, rc = 0;
    bool sends = p->rank < pairs, takes = !sends && p->rank < 2 * pairs;
    if (pairs < 1 || 2 * pairs > p->ranks)
        return fputs("mad_perf: streams needs two processes for each pair\n", stderr), -1;
    p->first = sends;
    p->peer = sends ? p->rank + pairs : p->rank - pairs;
    for (int i = 0; i < p->options.n_sizes && !rc; i++) {
        p->size = p->options.sizes[i];
        rc = p->size ? size_run(p, sends, takes) : (fputs("mad_perf: streams: no empty messages\n", stderr), -1);
    }
    return rc;
}

const perf_test_t perf_streams = {"streams",    "many pairs at once, for a time", "64K", .run = run, .timed = true,
                                  .pairs = true};

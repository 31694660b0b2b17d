/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong with buffers that are not in the cache. fresh: each message is sent from, and received into, memory
 * that no core's private cache holds. written: each message is sent from memory that the other process's core has just
 * written; that writing is not timed. */
#include <stdio.h>
#include <string.h>

#include "buffers.h"
#include "perf.h"

typedef struct cold {
    perf_t *p;
    bench_space_t from, to;
    bench_shared_t shared;
} cold_t;

#define FILL 7

static int turn(perf_t *p, const char *from, char *to, size_t size)
{
    int rc = p->first ? perf_send(p, p->peer, from, size) : 0;
    if (!rc)
        rc = perf_receive(p, p->peer, to, size);
    return rc || p->first ? rc : perf_send(p, p->peer, from, size);
}

static int fresh_body(void *arg, int n)
{
    cold_t *c = arg;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        c->p->receive = bench_space_next(&c->to);
        rc = turn(c->p, bench_space_next(&c->from), c->p->receive, c->p->size);
    }
    return rc;
}

/* Each side writes what the other will send; empty messages report that both have written. */
static int written_body(void *arg, int n)
{
    cold_t *c = arg;
    perf_t *p = c->p;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        uint64_t begin = bench_now();
        memset(bench_shared_buffer(&c->shared, !p->first), i, p->size);
        rc = turn(p, NULL, NULL, 0);
        bench_untimed(bench_now() - begin);
        if (!rc)
            rc = turn(p, bench_shared_buffer(&c->shared, p->first), p->receive, p->size);
    }
    return rc;
}

static int size_run(cold_t *c, const char *test, bench_body_t body)
{
    perf_t *p = c->p;
    bench_stats_t us;
    if (bench_measure(&p->options, p->size, 2, body, c, p->first ? &us : NULL))
        return -1;
    if (!bench_all(p->receive, p->size, body == fresh_body ? FILL : (char)(bench_iterations(&p->options, p->size) - 1))) {
        fprintf(stderr, "mad_perf: rank %d received wrong data in a message of %zu bytes\n", p->rank, p->size);
        return -1;
    }
    return p->first ? perf_print(p, test, us, (double)p->size / us.best, NULL) : 0;
}

static int fresh_size(cold_t *c)
{
    char *warm = c->p->receive;
    int rc = -1;
    if (bench_space_open(&c->from, c->p->size, FILL) || bench_space_open(&c->to, c->p->size, 0))
        perror("mad_perf: memory for buffers long unused");
    else
        rc = size_run(c, perf_fresh.name, fresh_body);
    bench_space_close(&c->from);
    bench_space_close(&c->to);
    c->p->receive = warm;
    return rc;
}

/* The first process makes the memory, the second one opens it. */
static int shared_meet(cold_t *c)
{
    perf_t *p = c->p;
    bench_shared_name_t name;
    int rc = 0;
    if (p->first)
        rc = bench_shared_make(&c->shared, p->size, &name) ? -1 : perf_send(p, p->peer, &name, sizeof name);
    else if (!(rc = perf_receive(p, p->peer, &name, sizeof name)))
        rc = bench_shared_open(&c->shared, &name);
    if (rc)
        perror("mad_perf: memory of both processes");
    return rc;
}

static int written_size(cold_t *c)
{
    int rc = shared_meet(c);
    if (!rc)
        rc = size_run(c, perf_written.name, written_body);
    bench_shared_close(&c->shared);
    return rc;
}

static int sizes_run(perf_t *p, int (*one)(cold_t *c))
{
    cold_t c = {.p = p};
    int rc = 0;
    if (p->peer == p->rank)
        return fputs("mad_perf: this test needs two processes\n", stderr), -1;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = one(&c);
    }
    return rc;
}

static int run_fresh(perf_t *p)
{
    return sizes_run(p, fresh_size);
}

static int run_written(perf_t *p)
{
    return sizes_run(p, written_size);
}

const perf_test_t perf_fresh = {"fresh", "the ping-pong with buffers long unused", "8-4M", .run = run_fresh};
const perf_test_t perf_written = {"written", "the ping-pong with buffers that the other core has just written (same host)",
                                  "8-4M", .run = run_written};

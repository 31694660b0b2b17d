/* SPDX-License-Identifier: BSD-3-Clause */
/* A token around all ranks; the time is per hop. */
#include <stdio.h>
#include <string.h>

#include "perf.h"

static int body(void *perf, int n)
{
    perf_t *p = perf;
    int next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
    int rc = 0;
    if (p->ranks == 1)
        return perf_self_body(p, n);
    for (int i = 0; i < n && !rc; i++) {
        if (p->rank == 0)
            rc = perf_send(p, next, p->send, p->size);
        if (!rc)
            rc = perf_receive(p, before, p->receive, p->size);
        if (p->rank != 0 && !rc)
            rc = perf_send(p, next, p->send, p->size);
    }
    return rc;
}

/* Check the token as each rank receives it; all ranks send the same one. */
static int verify(perf_t *p)
{
    bench_fill(p->send, p->size, 9);
    memset(p->receive, 0, p->size);
    if (body(p, 1))
        return -1;
    if (!bench_check(p->receive, p->size, 9))
        return fprintf(stderr, "mad_perf: rank %d received a wrong token of %zu bytes\n", p->rank, p->size), -1;
    return 0;
}

static int run(perf_t *p)
{
    int rc = 0;
    for (int i = 0; i < p->options.n_sizes && !rc; i++) {
        bench_stats_t us;
        char extra[32];
        p->size = p->options.sizes[i];
        rc = verify(p);
        if (!rc)
            rc = bench_measure(&p->options, p->size, p->ranks, body, p, p->first ? &us : NULL);
        snprintf(extra, sizeof extra, "\"ranks\": %d", p->ranks);
        if (!rc && p->first)
            rc = perf_print(p, perf_ring.name, us, (double)p->size / us.best, extra);
    }
    return rc;
}

const perf_test_t perf_ring = {"ring", "a token round all processes, by hop", "8", .run = run};

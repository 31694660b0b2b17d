/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations of all ranks, one after another.  The root of broadcasts and reductions changes, so that no process
 * runs ahead.  Sums add doubles; size is what each rank contributes, or sends to each other rank.  One row per operation. */
#include "perf.h"

#include <madeleine/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP 0x70657266 /* the group's number */

/* Common state of the bodies below. */
typedef struct coll_perf {
    perf_t *p;
    mad_group_t *group;
    char *send, *receive; /* a block for each rank */
    mad_status_t status;  /* the first failure */
} coll_perf_t;

static void doubles_add(void *arg, const void *in, void *inout, size_t count)
{
    const double *a = in;
    double *b = inout;
    (void)arg;
    for (size_t i = 0; i < count; i++)
        b[i] += a[i];
}

static const mad_combine_t sum = {doubles_add, NULL, sizeof(double), 1};

#define BODY(name, call) \
    static int name(void *arg, int n) \
    { \
        coll_perf_t *c = arg; \
        for (int i = 0; i < n && !c->status; i++) \
            c->status = call; \
        return c->status != MAD_OK; \
    }
BODY(do_barrier, mad_group_barrier(c->group, NULL))
BODY(do_broadcast, mad_group_broadcast(c->group, i % c->p->ranks, c->send, c->p->size, NULL))
BODY(do_reduce, mad_group_reduce(c->group, i % c->p->ranks, c->send, c->receive, c->p->size / sizeof(double), &sum, NULL))
BODY(do_allreduce, mad_group_allreduce(c->group, c->send, c->receive, c->p->size / sizeof(double), &sum, NULL))
BODY(do_reduce_scatter, mad_group_reduce_scatter(c->group, c->send, c->receive, c->p->size / sizeof(double), &sum, NULL))
BODY(do_scan, mad_group_scan(c->group, c->send, c->receive, c->p->size / sizeof(double), &sum, NULL))
BODY(do_gather, mad_group_gather(c->group, i % c->p->ranks, c->send, c->p->size, c->receive, NULL))
BODY(do_scatter, mad_group_scatter(c->group, i % c->p->ranks, c->send, c->receive, c->p->size, NULL))
BODY(do_allgather, mad_group_allgather(c->group, c->send, c->p->size, c->receive, NULL))
BODY(do_alltoall, mad_group_alltoall(c->group, c->send, c->receive, c->p->size, NULL))

static const struct {
    const char *name;
    bench_body_t body;
} operations[] = {{"barrier", do_barrier},     {"broadcast", do_broadcast}, {"reduce", do_reduce},
                  {"allreduce", do_allreduce}, {"scan", do_scan},           {"reduce_scatter", do_reduce_scatter},
                  {"gather", do_gather},       {"scatter", do_scatter},     {"allgather", do_allgather},
                  {"alltoall", do_alltoall}};
#define N_OPERATIONS (sizeof operations / sizeof *operations)

/* Check that a sum of all ranks' numbers is right. */
static int sum_verify(coll_perf_t *c)
{
    double mine = c->p->rank + 1, all = 0, wanted = c->p->ranks * (c->p->ranks + 1) / 2.0;
    mad_status_t status = mad_group_allreduce(c->group, &mine, &all, 1, &sum, NULL);
    if (status)
        return perf_failed("mad_group_allreduce", status);
    if (all < wanted || all > wanted)
        return fprintf(stderr, "mad_perf: rank %d got a wrong sum: %g, not %g\n", c->p->rank, all, wanted), -1;
    return 0;
}

static int sizes_measure(coll_perf_t *c)
{
    perf_t *p = c->p;
    for (int i = 0; i < p->options.n_sizes; i++) {
        p->size = p->options.sizes[i];
        for (size_t k = i ? 1 : 0; k < N_OPERATIONS; k++) { /* barriers have no size */
            bench_stats_t us;
            char extra[96];
            if (bench_measure(&p->options, p->size, 1, operations[k].body, c, p->first ? &us : NULL))
                return perf_failed(operations[k].name, c->status);
            snprintf(extra, sizeof extra, "\"operation\": \"%s\", \"ranks\": %d", operations[k].name, p->ranks);
            if (p->first && perf_print(p, perf_coll.name, us, (double)p->size / us.best, extra))
                return -1;
        }
    }
    return 0;
}

static int run(perf_t *p)
{
    coll_perf_t c = {.p = p};
    size_t longest = sizeof(double);
    mad_peer_t *members = malloc((size_t)p->ranks * sizeof *members);
    mad_status_t status;
    int rc = -1;
    for (int i = 0; i < p->options.n_sizes; i++)
        longest = p->options.sizes[i] > longest ? p->options.sizes[i] : longest;
    c.send = calloc((size_t)p->ranks, longest);
    c.receive = calloc((size_t)p->ranks, longest);
    if (members && c.send && c.receive) {
        for (int i = 0; i < p->ranks; i++)
            members[i] = i;
        status = mad_group_new(p->session, members, p->ranks, p->rank, GROUP, &c.group);
        rc = status ? perf_failed("mad_group_new", status) : sum_verify(&c);
        if (!rc)
            rc = sizes_measure(&c);
        mad_group_free(c.group);
    }
    free(members);
    free(c.send);
    free(c.receive);
    return rc;
}

const perf_test_t perf_coll = {"coll", "collective operations of all processes", "8,1K,64K", .run = run};

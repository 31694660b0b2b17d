/* SPDX-License-Identifier: BSD-3-Clause */
/* Computing on a gateway: rank 2 computes, in turn alone and while rank 0 sends messages to rank 1, which pass through rank
 * 2 if the topology says so.  lost_percent is how much less rank 2 computes while it forwards; forwarding_percent is
 * the time of its other threads, in percent of one processor.  Times are per message. */
#include <stdio.h>
#include <sys/resource.h>

#include "overlap.h"
#include "perf.h"

#define COMPUTES 2 /* rank that computes */
#define TURNS 5    /* measurements without and with messages, in turn */

typedef struct result {
    double alone, beside;      /* steps per us, without and with messages */
    double forwarding_percent; /* percent of one processor */
} result_t;

static double cpu_us(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return ((double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec) * 1e6 + (double)u.ru_utime.tv_usec +
           (double)u.ru_stime.tv_usec;
}

/* Compute for ms.  Return the processor time of the other threads; *rate: steps per us. */
static double compute(int ms, uint64_t some, double *rate)
{
    double others = cpu_us(RUSAGE_SELF) - cpu_us(RUSAGE_THREAD), us;
    uint64_t start = bench_now(), steps = 0;
    do {
        overlap_compute(some);
        steps += some;
        us = (double)(bench_now() - start) / 1e3;
    } while (us < ms * 1e3);
    *rate = (double)steps / us;
    return 100 * (cpu_us(RUSAGE_SELF) - cpu_us(RUSAGE_THREAD) - others) / us;
}

static int computer_run(perf_t *p, int ms)
{
    result_t all = {0, 0, 0};
    uint64_t some = (uint64_t)(overlap_steps_per_us() * 20);
    int rc = 0;
    for (int i = 0; i < TURNS && !rc; i++) {
        double alone, beside;
        compute(ms, some, &alone);
        rc = perf_barrier(p);
        all.forwarding_percent += compute(ms, some, &beside) / TURNS;
        all.alone += alone / TURNS;
        all.beside += beside / TURNS;
        rc = rc ? rc : perf_barrier(p);
    }
    return rc ? rc : perf_send(p, 0, &all, sizeof all);
}

/* Send for ms; rank 1 counts the messages, and reports their number. */
static int pair_run(perf_t *p, int ms, long *all)
{
    long came = 0;
    int rc = 0;
    for (int i = 0; i < TURNS && !rc; i++) {
        rc = perf_barrier(p);
        if (!rc)
            rc = p->first ? perf_timed_send(p, p->peer, ms) || perf_receive(p, p->peer, &came, sizeof came)
                          : perf_timed_receive(p, p->peer, ms, &came) || perf_send(p, p->peer, &came, sizeof came);
        *all += came;
        rc = rc ? -1 : perf_barrier(p);
    }
    return rc;
}

static int size_run(perf_t *p)
{
    int ms = p->options.ms / TURNS > 0 ? p->options.ms / TURNS : 1;
    char extra[96];
    result_t result;
    long all = 0;
    if (perf_in_pair(p) && (perf_verify(p) || pair_run(p, ms, &all)))
        return -1;
    if (!p->first)
        return p->rank == COMPUTES ? computer_run(p, ms) : 0;
    if (perf_receive(p, COMPUTES, &result, sizeof result))
        return -1;
    if (!all)
        return fprintf(stderr, "mad_perf: no message of %zu bytes came\n", p->size), -1;
    snprintf(extra, sizeof extra, "\"lost_percent\": %.2f, \"forwarding_percent\": %.2f",
             100 * (1 - result.beside / result.alone), result.forwarding_percent);
    p->options.iterations = (int)all;
    p->options.batches = 1;
    double us = ms * 1e3 * TURNS / (double)all;
    return perf_print(p, perf_beside.name, (bench_stats_t){us, us, us}, (double)p->size / us, extra);
}

static int run(perf_t *p)
{
    int rc = 0;
    if (p->ranks != COMPUTES + 1)
        return fputs("mad_perf: beside needs three processes\n", stderr), -1;
    for (int i = 0; i < p->options.n_sizes && !rc; i++) {
        p->size = p->options.sizes[i];
        rc = p->size ? size_run(p) : (fputs("mad_perf: beside: no empty messages\n", stderr), -1);
    }
    return rc;
}

const perf_test_t perf_beside = {"beside", "computing of rank 2 while ranks 0 and 1 stream", "1M", .run = run,
                                 .timed = true};

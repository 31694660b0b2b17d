/* SPDX-License-Identifier: BSD-3-Clause */
/* A receiver that waits long.  Rank 1 waits for a message, which rank 0 sends after sleeping for a second, and answers this
 * message.  The time is from the send to the arrival of the answer, so it includes waking the receiver.  cpu_us_per_s is the
 * processor time of the receiver's process during the wait, switches_per_s the number of times that the process was
 * woken. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "perf.h"

#define ROUNDS 3
#define SLEEP_NS 1000000000L

/* Measurement that the receiver sends back. */
typedef struct idle_cost {
    double cpu_us, waited_us;
    long switches;
} idle_cost_t;

static double cpu_us(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) * 1e6 + (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec);
}

static int waiter_round(perf_t *p)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = bench_now();
    int rc = perf_receive(p, p->peer, p->receive, p->size);
    uint64_t end = bench_now();
    getrusage(RUSAGE_SELF, &after);
    idle_cost_t cost = {cpu_us(&after) - cpu_us(&before), (double)(end - start) / 1e3, after.ru_nvcsw - before.ru_nvcsw};
    if (!rc)
        rc = perf_send(p, p->peer, p->send, p->size);
    return rc ? rc : perf_send(p, p->peer, &cost, sizeof cost);
}

static int sleeper_round(perf_t *p, double *us, idle_cost_t *sum)
{
    idle_cost_t cost;
    nanosleep(&(struct timespec){SLEEP_NS / 1000000000L, SLEEP_NS % 1000000000L}, NULL);
    uint64_t start = bench_now();
    if (perf_send(p, p->peer, p->send, p->size) || perf_receive(p, p->peer, p->receive, p->size))
        return -1;
    *us = (double)(bench_now() - start) / 1e3;
    if (perf_receive(p, p->peer, &cost, sizeof cost))
        return -1;
    sum->cpu_us += cost.cpu_us;
    sum->waited_us += cost.waited_us;
    sum->switches += cost.switches;
    return 0;
}

static int size_run(perf_t *p)
{
    double us[ROUNDS];
    idle_cost_t sum = {0};
    char extra[96];
    int rounds = p->options.batches && p->options.batches < ROUNDS ? p->options.batches : ROUNDS, rc = perf_verify(p);
    p->options.batches = rounds;
    p->options.iterations = 1;
    for (int i = 0; i < rounds && !rc; i++)
        rc = p->first ? sleeper_round(p, &us[i], &sum) : waiter_round(p);
    if (rc || !p->first)
        return rc;
    double seconds = sum.waited_us / 1e6;
    snprintf(extra, sizeof extra, "\"cpu_us_per_s\": %.1f, \"switches_per_s\": %.1f", sum.cpu_us / seconds,
             (double)sum.switches / seconds);
    bench_stats_t stats = bench_stats(us, rounds);
    return perf_print(p, perf_idle.name, stats, (double)p->size / stats.best, extra);
}

static int run(perf_t *p)
{
    int rc = 0;
    if (p->ranks < 2)
        return fputs("mad_perf: idle needs two processes\n", stderr), -1;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = size_run(p);
    }
    return rc;
}

const perf_test_t perf_idle = {"idle", "what a receiver that waits a second costs, and how fast it wakes", "8", .run = run};

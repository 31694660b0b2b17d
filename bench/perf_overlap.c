/* SPDX-License-Identifier: BSD-3-Clause */
/* Computing while a message goes: rank 0 begins to send (or has posted a receive), computes without calling in, and then
 * waits; rank 1 does nothing else.  Computing takes 1, 1.5 and 2 times as long as the message alone.  exposed_percent is
 * the part of the shorter of the two that was not hidden by the longer: (total - max) / min, the median of the rounds. */
#include <stdio.h>
#include <stdlib.h>

#include "perf.h"

#define ROUNDS 60
#define WARM_UP 60 /* not timed */
#define LENGTHS 3 /* of computing: (2 + i) / 2 times the message */

static double us_since(uint64_t start)
{
    return (double)(bench_now() - start) / 1e3;
}

/* Rank 1, one round: a message each way.  Before, empty ones: it is awake, and waits in the library, when the round begins. */
static int idle_round(perf_t *p, bool sends)
{
    int rc = perf_receive(p, p->peer, NULL, 0);
    rc = rc ? rc : perf_send(p, p->peer, NULL, 0);
    if (rc)
        return rc;
    if (!sends)
        return perf_receive(p, p->peer, p->receive, p->size);
    return perf_receive(p, p->peer, NULL, 0) ? -1 : perf_send(p, p->peer, p->send, p->size);
}

static int start(perf_t *p, bool sends, mad_request_t **request)
{
    mad_block_t block = {p->receive, p->size, p->send_mode, p->receive_mode};
    mad_status_t status;
    if (sends)
        return perf_send_start(p, p->peer, p->send, p->size, request);
    *request = NULL;
    status = mad_post_unpacking(p->channel, p->peer, &block, 1, request);
    return status ? perf_failed("post", status) : 0;
}

/* Rank 0: how long a round takes with so much computing; less than 0: failed.  The message that tells rank 1 to send is no
 * part of the receive: its time is left out. */
static double busy_round(perf_t *p, bool sends, uint64_t steps)
{
    mad_request_t *request;
    if (perf_send(p, p->peer, NULL, 0) || perf_receive(p, p->peer, NULL, 0))
        return -1;
    uint64_t begun = bench_now();
    if (start(p, sends, &request))
        return -1;
    uint64_t begun_aside = bench_now();
    if (!sends && perf_send(p, p->peer, NULL, 0))
        return -1;
    begun += bench_now() - begun_aside;
    perf_compute(steps);
    return perf_wait(&request) ? -1 : us_since(begun);
}

static double exposed(double total, double message, double computing)
{
    double less = message < computing ? message : computing, more = message < computing ? computing : message;
    return 100 * (total - more) / less;
}

/* The message alone, computing alone, and both, one after another in each round. */
static int measure(perf_t *p, bool sends, int length, double rate, double message)
{
    double share[ROUNDS], us[ROUNDS];
    char extra[160];
    int rounds = p->options.batches && p->options.batches < ROUNDS ? p->options.batches : ROUNDS;
    uint64_t steps = (uint64_t)(message * (2 + length) / 2 * rate);
    for (int i = 0; i < rounds; i++) {
        double alone = busy_round(p, sends, 0);
        uint64_t begun = bench_now();
        perf_compute(steps);
        double computing = us_since(begun);
        us[i] = busy_round(p, sends, steps);
        if (alone < 0 || us[i] < 0)
            return -1;
        share[i] = exposed(us[i], alone, computing);
    }
    double median = bench_stats(share, rounds).median;
    snprintf(extra, sizeof extra,
             "\"way\": \"%s\", \"message_us\": %.1f, \"computing_us\": %.1f, \"exposed_percent\": %.2f",
             sends ? "send" : "receive", message, message * (2 + length) / 2, median > 0 ? median : 0);
    bench_stats_t stats = bench_stats(us, rounds);
    p->options.iterations = 1;
    return perf_print(p, perf_overlap.name, stats, (double)p->size / stats.best, extra);
}

static int way_run(perf_t *p, bool sends)
{
    double us[ROUNDS], rate = 0;
    int rounds = p->options.batches && p->options.batches < ROUNDS ? p->options.batches : ROUNDS, rc = 0;
    for (int i = 0; !p->first && i < WARM_UP + rounds * (1 + 2 * LENGTHS) && !rc; i++)
        rc = idle_round(p, !sends);
    if (!p->first)
        return rc;
    for (int i = -WARM_UP; i < rounds; i++) {
        double round = busy_round(p, sends, 0);
        if (round < 0)
            return -1;
        us[i < 0 ? 0 : i] = round;
    }
    rate = perf_steps_per_us();
    for (int length = 0; length < LENGTHS && !rc; length++)
        rc = measure(p, sends, length, rate, bench_stats(us, rounds).median);
    return rc;
}

static int run(perf_t *p)
{
    int rc = 0;
    if (p->ranks < 2)
        return fputs("mad_perf: overlap needs two processes\n", stderr), -1;
    p->options.batches = p->options.batches ? p->options.batches : ROUNDS;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = perf_verify(p) ? -1 : way_run(p, true) ? -1 : way_run(p, false);
    }
    return rc;
}

const perf_test_t perf_overlap = {"overlap", "how much of a message is hidden by computing", "1M", run};

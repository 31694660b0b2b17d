/* SPDX-License-Identifier: BSD-3-Clause */
/* Computing while a message goes: rank 0 begins to send (or has posted a receive), computes without calling in, and then
 * waits; rank 1 does nothing else. */
#include <stdio.h>
#include <stdlib.h>

#include "perf.h"

#define ROUNDS 60

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
    bench_compute(steps);
    return perf_wait(&request) ? -1 : us_since(begun);
}

static double busy_send(void *perf, uint64_t steps)
{
    return busy_round(perf, true, steps);
}

static double busy_receive(void *perf, uint64_t steps)
{
    return busy_round(perf, false, steps);
}

static int tell(void *perf, bench_stats_t us, const char *extra)
{
    perf_t *p = perf;
    p->options.iterations = 1;
    return perf_print(p, perf_overlap.name, us, (double)p->size / us.best, extra);
}

static int way_run(perf_t *p, bool sends)
{
    int rounds = p->options.batches < ROUNDS ? p->options.batches : ROUNDS, rc = 0;
    for (int i = 0; !p->first && i < bench_overlap_messages(rounds) && !rc; i++)
        rc = idle_round(p, !sends);
    return p->first ? bench_overlap(sends ? "send" : "receive", rounds, sends ? busy_send : busy_receive, tell, p) : rc;
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

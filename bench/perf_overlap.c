/* SPDX-License-Identifier: BSD-3-Clause */
/* Overlap of computation and communication: rank 0 begins to send (or has posted a receive), computes without calling
 * the library, and then waits; rank 1 does nothing else. overlap.h describes the measurement. */
#include <stdio.h>
#include <stdlib.h>

#include "overlap.h"
#include "perf.h"

/* Run one round of rank 1: a message each way.  Empty messages precede the round, so that rank 1 is awake, and waits in the
 * library, when the round begins. */
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
    status = mad_message_receive(p->channel, p->peer, &block, 1, request);
    return status ? perf_failed("post", status) : 0;
}

/* Run one round of rank 0.  The time of a receive excludes the message that lets rank 1 send. */
static int busy_round(void *arg, bool sends, uint64_t steps, overlap_time_t *time)
{
    perf_t *p = arg;
    mad_request_t *request;
    if (perf_send(p, p->peer, NULL, 0) || perf_receive(p, p->peer, NULL, 0))
        return -1;
    uint64_t begun = bench_now();
    if (start(p, sends, &request))
        return -1;
    uint64_t begun_aside = bench_now();
    time->begin_us = overlap_us_since(begun);
    if (!sends && perf_send(p, p->peer, NULL, 0))
        return -1;
    begun += bench_now() - begun_aside;
    overlap_compute(steps);
    uint64_t ends = bench_now();
    if (perf_wait(&request))
        return -1;
    time->end_us = overlap_us_since(ends);
    time->us = overlap_us_since(begun);
    return 0;
}

static int way_run(perf_t *p, bool sends)
{
    overlap_t rows[OVERLAP_LENGTHS];
    int rc = 0;
    for (int i = 0; !p->first && i < overlap_rounds(&p->options) && !rc; i++)
        rc = idle_round(p, !sends);
    if (!p->first)
        return rc;
    rc = overlap_measure(&p->options, sends, busy_round, p, rows);
    p->options.iterations = 1;
    for (int i = 0; i < OVERLAP_LENGTHS && !rc; i++)
        rc = perf_print(p, perf_overlap.name, rows[i].us, (double)p->size / rows[i].us.best, rows[i].extra);
    return rc;
}

static int run(perf_t *p)
{
    int rc = 0;
    if (p->ranks < 2)
        return fputs("mad_perf: overlap needs two processes\n", stderr), -1;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = perf_verify(p) ? -1 : way_run(p, true) ? -1 : way_run(p, false);
    }
    return rc;
}

const perf_test_t perf_overlap = {"overlap", "how much of a message is hidden by computing", "1M", .run = run};

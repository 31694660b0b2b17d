/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream: windows of messages one way, each window answered by an empty message.  Times are per message. */
#include "perf.h"

static int receiver_body(perf_t *p, int n)
{
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = perf_receive_many(p, p->peer, p->window);
        if (!rc)
            rc = perf_send(p, p->peer, NULL, 0);
    }
    return rc;
}

static int body(void *perf, int n)
{
    perf_t *p = perf;
    if (p->peer == p->rank)
        return perf_bidir_body(p, n);
    return p->first ? perf_windows_send(p, p->peer, n) : receiver_body(p, n);
}

static int run(perf_t *p)
{
    int rc = 0;
    p->window = 16;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = perf_verify(p);
        if (!rc)
            rc = perf_stream_size(p, perf_bandwidth.name, body, p->window);
    }
    return rc;
}

const perf_test_t perf_bandwidth = {"bandwidth", "windows of 16 messages one way", "1K-4M", .run = run};

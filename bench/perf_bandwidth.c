/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream: windows of messages one way, each window answered by an empty message.  Times are by message. */
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

static int stream(perf_t *p, const char *test, int window)
{
    int rc = 0;
    p->window = window;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = perf_verify(p);
        if (!rc)
            rc = perf_stream_size(p, test, body, window);
    }
    return rc;
}

static int run_bandwidth(perf_t *p)
{
    return stream(p, perf_bandwidth.name, 16);
}

/* The rate of small messages is a stream with a long window. */
static int run_rate(perf_t *p)
{
    return stream(p, perf_rate.name, PERF_WINDOW);
}

const perf_test_t perf_bandwidth = {"bandwidth", "windows of 16 messages one way", "1K-4M", .run = run_bandwidth};
const perf_test_t perf_rate = {"rate", "windows of 64 small messages one way", "8", .run = run_rate};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank except 0 sends windows of messages to rank 0.  Rank 0 takes the messages in order of arrival, and answers each
 * window with an empty message.  Times are per message, at rank 0. */
#include <stdio.h>

#include "perf.h"

static int one_body(perf_t *p, int n)
{
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = perf_receive_many(p, MAD_ANY_SOURCE, p->window * (p->ranks - 1));
        for (int peer = 1; peer < p->ranks && !rc; peer++)
            rc = perf_send(p, peer, NULL, 0);
    }
    return rc;
}

static int body(void *perf, int n)
{
    perf_t *p = perf;
    return p->rank == 0 ? one_body(p, n) : perf_windows_send(p, 0, n);
}

static int verify(perf_t *p)
{
    bench_fill(p->send, p->size, 3);
    if (body(p, 1))
        return -1;
    if (p->rank == 0 && !bench_check(p->receive, p->size, 3))
        return fprintf(stderr, "mad_perf: wrong data in a message of %zu bytes\n", p->size), -1;
    return 0;
}

static int run(perf_t *p)
{
    int rc = 0;
    p->window = 16;
    if (p->ranks < 2)
        return fputs("mad_perf: many-to-one needs at least two processes\n", stderr), -1;
    for (int i = 0; i < p->options.n_sizes && !rc; i++) {
        p->size = p->options.sizes[i];
        rc = verify(p);
        if (!rc)
            rc = perf_stream_size(p, perf_manytoone.name, body, p->window * (p->ranks - 1));
    }
    return rc;
}

const perf_test_t perf_manytoone = {"many-to-one", "all others send to rank 0", "8,1K,64K", .run = run};

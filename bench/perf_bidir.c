/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of messages in both directions at once.  Times are per message, both directions counted. */
#include "perf.h"

static int run(perf_t *p)
{
    int rc = 0;
    p->window = 16;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = perf_verify(p);
        if (!rc)
            rc = perf_stream_size(p, perf_bidir.name, perf_bidir_body, p->peer == p->rank ? p->window : 2 * p->window);
    }
    return rc;
}

const perf_test_t perf_bidir = {"bidirectional", "windows of 16 messages both ways at once", "1K-4M", .run = run};

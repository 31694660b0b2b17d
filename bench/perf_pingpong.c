/* SPDX-License-Identifier: BSD-3-Clause */
/* One block there and back; the time is that of one direction. */
#include "perf.h"

static int run(perf_t *p)
{
    int rc = 0;
    for (int i = 0; i < p->options.n_sizes && !rc && perf_in_pair(p); i++) {
        p->size = p->options.sizes[i];
        rc = perf_pingpong_size(p, perf_pingpong.name, NULL);
    }
    return rc;
}

const perf_test_t perf_pingpong = {"pingpong", "one block there and back, one way", "8,1K,64K,1M,4M", .run = run};

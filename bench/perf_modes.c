/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong in each of the six pairs of modes. */
#include <stdio.h>

#include "perf.h"

static int run(perf_t *p)
{
    static const char *const sends[] = {"SAFER", "LATER", "CHEAPER"};
    static const char *const receives[] = {"EXPRESS", "CHEAPER"};
    int rc = 0;
    for (int m = 0; m < 6 && perf_in_pair(p); m++) {
        char extra[64];
        p->send_mode = (mad_send_mode_t)(m / 2);
        p->receive_mode = (mad_receive_mode_t)(m % 2);
        snprintf(extra, sizeof extra, "\"send_mode\": \"%s\", \"receive_mode\": \"%s\"", sends[m / 2], receives[m % 2]);
        for (int i = 0; i < p->options.n_sizes && !rc; i++) {
            p->size = p->options.sizes[i];
            rc = perf_pingpong_size(p, perf_modes.name, extra);
        }
    }
    return rc;
}

const perf_test_t perf_modes = {"modes", "the ping-pong in all six pairs of modes", "8,1K,64K", .run = run};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads switch to each other by name, on one worker. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <stdint.h>

static marcel_t thread[2];
static int turns;

static void *turn_marcel(void *side)
{
    marcel_t other = thread[!(intptr_t)side];
    for (int i = turns; i > 0; i--)
        marcel_yield_to(other);
    return NULL;
}

static double batch_marcel(int n)
{
    turns = n;
    for (intptr_t i = 0; i < 2; i++)
        if (!perf_ok("marcel_create", marcel_create(&thread[i], NULL, turn_marcel, (void *)i)))
            return -1;
    double start = perf_now();
    marcel_join(thread[0], NULL);
    marcel_join(thread[1], NULL);
    return (perf_now() - start) / n / 2;
}

const perf_test_t perf_directed = {.name = "directed",
                                   .help = "hand over to the other of two threads by its name, on one worker",
                                   .marcel = batch_marcel,
                                   .n = 10000,
                                   .batches = 200,
                                   .workers = 1};

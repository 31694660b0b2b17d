/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads of Argobots on one execution stream that hand over to each other by name, in each way that Argobots has:
 *
 *   peer_abt [--batches N] [--cpus A,B] [--json]
 *
 * One object: nanoseconds of each way's best batch.  The fastest are also given as `handoff` and `directed`, the names
 * of the tests of marcel_perf. */
#include <abt.h>
#include <stdio.h>
#include <stdlib.h>

#include "../engine.h"

#define TURNS 10000

static ABT_pool pool;
static ABT_thread thread[2];

/* Switch by yielding to the other thread.  Both end in the same turn, so no ended thread is named. */
static void yield_to(void *side)
{
    ABT_thread other = thread[!(intptr_t)side];
    for (int i = 0; i < TURNS; i++)
        ABT_thread_yield_to(other);
}

/* Switch by self_yield_to.  The caller takes the target from its pool, as this call requires. */
static void self_yield_to(void *side)
{
    ABT_thread other;
    (void)side;
    for (int i = 0; i < TURNS; i++) {
        ABT_pool_pop_thread(pool, &other);
        if (other != ABT_THREAD_NULL)
            ABT_self_yield_to(other);
    }
}

/* Switch by suspending.  The other thread is suspended too, so no pool is used. */
static void suspend_to(void *side)
{
    bool first = !(intptr_t)side;
    if (first)
        ABT_self_yield(); /* the other thread begins */
    else
        ABT_self_suspend();
    for (int i = first ? 0 : 1; i < TURNS; i++)
        ABT_self_resume_suspend_to(thread[first]);
    if (!first)
        ABT_thread_resume(thread[0]);
}

static double batch(void (*turns)(void *))
{
    uint64_t start;
    double took;
    for (intptr_t i = 0; i < 2; i++)
        if (ABT_thread_create(pool, turns, (void *)i, ABT_THREAD_ATTR_NULL, &thread[i]))
            exit(1);
    start = bench_now();
    for (int i = 0; i < 2; i++)
        ABT_thread_join(thread[i]);
    took = (double)(bench_now() - start) / TURNS / 2;
    for (int i = 0; i < 2; i++)
        ABT_thread_free(&thread[i]);
    return took;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*turns)(void *);
    } ways[] = {{"thread_yield_to", yield_to}, {"self_yield_to", self_yield_to}, {"resume_suspend_to", suspend_to}};
    bench_options_t options;
    ABT_xstream stream;
    double quickest = 0;
    int batches;
    if (bench_options_parse(&options, argc, argv, 1, "0"))
        return 2;
    batches = options.batches ? options.batches : 200;
    bench_pin(options.cpus[0]);
    if (ABT_init(0, NULL) || ABT_self_get_xstream(&stream) || ABT_xstream_get_main_pools(stream, 1, &pool))
        return 1;
    printf("{\"size\": 0");
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double best = batch(ways[w].turns);
        for (int i = 0; i < batches; i++) {
            double one = batch(ways[w].turns);
            best = one < best ? one : best;
        }
        printf(", \"%s\": %.3f", ways[w].name, best);
        quickest = !w || best < quickest ? best : quickest;
    }
    printf(", \"handoff\": %.3f, \"directed\": %.3f}\n", quickest, quickest); /* the names of the tests of marcel_perf */
    return ABT_finalize() ? 1 : 0;
}

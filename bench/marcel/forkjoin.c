/* SPDX-License-Identifier: BSD-3-Clause */
/* A binary tree of threads: each creates two, and joins both. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <stdint.h>

static void *node_marcel(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    marcel_t left, right;
    if (depth == 0)
        return (void *)(intptr_t)1;
    void *a, *b;
    if (marcel_create(&left, NULL, node_marcel, (void *)(depth - 1)))
        return NULL;
    if (marcel_create(&right, NULL, node_marcel, (void *)(depth - 1)))
        return marcel_join(left, NULL), NULL;
    marcel_join(right, &b);
    marcel_join(left, &a);
    return (void *)((intptr_t)a + (intptr_t)b + 1);
}

static void *node_posix(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    pthread_t left, right;
    if (depth == 0)
        return (void *)(intptr_t)1;
    void *a, *b;
    if (pthread_create(&left, NULL, node_posix, (void *)(depth - 1)))
        return NULL;
    if (pthread_create(&right, NULL, node_posix, (void *)(depth - 1)))
        return pthread_join(left, NULL), NULL;
    pthread_join(right, &b);
    pthread_join(left, &a);
    return (void *)((intptr_t)a + (intptr_t)b + 1);
}

static double batch(int depth, void *(*node)(void *))
{
    double start = perf_now();
    intptr_t nodes = (intptr_t)node((void *)(intptr_t)depth);
    double took = perf_now() - start;
    if (nodes != ((intptr_t)2 << depth) - 1)
        return -1;
    return took / (double)(nodes - 1);
}

static double batch_marcel(int depth)
{
    return batch(depth, node_marcel);
}

static double batch_posix(int depth)
{
    return batch(depth, node_posix);
}

const perf_test_t perf_forkjoin = {
    .name = "forkjoin",
    .help = "a binary tree of threads, each created and joined by its parent; --iters is its depth",
    .marcel = batch_marcel,
    .pthread = batch_posix,
    .n = 12,
    .pthread_n = 6};

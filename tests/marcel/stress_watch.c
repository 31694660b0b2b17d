/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of running actions, and the watchdog. */
#include "stress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

node_t *nodes[NODES];
pthread_mutex_t nodes_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic(uint64_t) progress;
uint64_t seed;
int limit_s = 30;
_Atomic(int) failures;

void fail(const char *format, ...)
{
    va_list args;
    if (atomic_fetch_add(&failures, 1) >= 20)
        return;
    va_start(args, format);
    flockfile(stdout);
    printf("stress: seed %llu: ", (unsigned long long)seed);
    vprintf(format, args);
    putchar('\n');
    funlockfile(stdout);
    va_end(args);
}

unsigned draw(node_t *me, unsigned below)
{
    me->random ^= me->random << 13;
    me->random ^= me->random >> 7;
    me->random ^= me->random << 17;
    return (unsigned)(me->random >> 33) % below;
}

void begin_wait(node_t *me, const char *doing, int object)
{
    atomic_store_explicit(&me->object, object, memory_order_relaxed);
    atomic_store_explicit(&me->doing, doing, memory_order_relaxed);
}

void end_wait(node_t *me)
{
    atomic_store_explicit(&me->doing, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
}

/* ---- The watchdog --------------------------------------------------------------------------------------------------- */

static void print_all(void)
{
    printf("stress: stuck for %d s; seed %llu\n", limit_s, (unsigned long long)seed);
    pthread_mutex_lock(&nodes_lock);
    for (int i = 0; i < NODES; i++) {
        const node_t *n = nodes[i];
        const char *doing = n ? atomic_load(&((node_t *)n)->doing) : NULL;
        if (n)
            printf("stress: %s thread %d, child of %d%s: %s %d\n", n->plain ? "plain" : "user-level", i,
                   n->parent ? n->parent->slot : -1, atomic_load(&((node_t *)n)->asked) ? ", asked to end" : "",
                   doing ? doing : "runs, or is ready", doing ? atomic_load(&((node_t *)n)->object) : 0);
    }
    pthread_mutex_unlock(&nodes_lock);
    fflush(stdout);
}

bool has_come(sem_t *event, long us)
{
    struct timespec until;
    int rc;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while ((rc = sem_clockwait(event, CLOCK_MONOTONIC, &until)) && errno == EINTR)
        ;
    return !rc;
}

void *watch(void *over)
{
    uint64_t last = 0;
    int still = 0;
    while (!has_come(over, 100000)) {
        uint64_t now = atomic_load(&progress);
        still = now == last ? still + 1 : 0;
        last = now;
        if (still > 10 * limit_s) {
            print_all();
            abort();
        }
    }
    return NULL;
}

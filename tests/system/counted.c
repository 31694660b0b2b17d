/* SPDX-License-Identifier: BSD-3-Clause */
/* A process whose user-level threads mad_info stats counts.  The process makes threads that yield.  Then one worker
 * computes until another worker has taken the threads that wait behind it.  At last a user-level thread waits for a
 * message, which the program sends when its standard input ends.  The program prints "ready PID CREATED ENDED YIELDS
 * STOLEN", with numbers that it has counted by itself. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <marcel.h>
#include <sched.h>
#include <unistd.h>

#define THREADS 200
#define YIELDS 100 /* number of yields of each thread */
#define LEFT 20    /* number of threads that wait behind a computing thread */

static mad_session_t *session;
static mad_channel_t *channel;
static _Atomic(int) taken, waits;

static void *yields(void *arg)
{
    for (int i = 0; i < YIELDS; i++)
        marcel_yield();
    return arg;
}

static void *is_taken(void *arg)
{
    atomic_fetch_add(&taken, 1);
    return arg;
}

/* Create threads, and keep the worker: the other worker has to take these threads. */
static void *keeps_worker(void *arg)
{
    marcel_t threads[LEFT];
    for (int i = 0; i < LEFT; i++)
        CHECK(!marcel_create(&threads[i], NULL, is_taken, NULL));
    while (atomic_load(&taken) < LEFT)
        sched_yield(); /* the kernel thread yields, and the user-level thread does not */
    for (int i = 0; i < LEFT; i++)
        CHECK(!marcel_join(threads[i], NULL));
    return arg;
}

static void *waits_for_message(void *arg)
{
    atomic_store(&waits, 1);
    CHECK_OK(mad_end_unpacking(mad_begin_unpacking(channel)));
    return arg;
}

static void run(void *(*main)(void *arg), int n)
{
    marcel_t threads[THREADS];
    for (int i = 0; i < n; i++)
        CHECK(!marcel_create(&threads[i], NULL, main, NULL));
    for (int i = 0; i < n; i++)
        CHECK(!marcel_join(threads[i], NULL));
}

int main(void)
{
    marcel_t waiter;
    char c;
    test_begin("counted", 60);
    if (!CHECK(!marcel_init()) || !CHECK_OK(mad_init(NULL, NULL, &session)) ||
        !CHECK_OK(mad_channel_open(session, "counted", &channel)))
        return 1;
    run(yields, THREADS);
    run(keeps_worker, 1);
    CHECK(!marcel_create(&waiter, NULL, waits_for_message, NULL));
    while (!atomic_load(&waits))
        sched_yield();
    printf("ready %d %d %d %d %d\n", (int)getpid(), THREADS + 1 + LEFT + 1, THREADS + 1 + LEFT, THREADS * YIELDS, LEFT);
    fflush(stdout);
    CHECK(read(STDIN_FILENO, &c, 1) == 0);
    CHECK_OK(mad_end_packing(mad_begin_packing(channel, mad_rank(session))));
    CHECK(!marcel_join(waiter, NULL));
    mad_exit(session);
    CHECK(!marcel_fini());
    test_end();
    return atomic_load(&test_failures) != 0;
}

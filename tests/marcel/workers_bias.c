/* SPDX-License-Identifier: BSD-3-Clause */
/* Semaphores that one worker has used for long, and that other threads then use at any moment (src/marcel/bias.h). */
#include "workers.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_ENOUGH 3000 /* number of throws after which one worker has the bias of a semaphore (sem.c) */

static marcel_sem_t ball[2];
static _Atomic(int) thrown;
static atomic_bool over;

/* Two threads of the first worker hand one ball to each other, until the game is over. */
static void *play(void *side)
{
    int me = (int)(intptr_t)side;
    do {
        marcel_sem_wait(&ball[me]);
        atomic_fetch_add_explicit(&thrown, 1, memory_order_relaxed);
        marcel_sem_post(&ball[!me]);
    } while (!atomic_load_explicit(&over, memory_order_relaxed));
    return NULL;
}

/* Start the players; return after n throws. */
static void players_start(marcel_t player[2], int n)
{
    atomic_store(&thrown, 0);
    atomic_store(&over, false);
    marcel_sem_init(&ball[0], 0, 0);
    marcel_sem_init(&ball[1], 0, 1);
    for (intptr_t i = 0; i < 2; i++)
        player[i] = create_at(0, play, (void *)i);
    while (atomic_load(&thrown) < n)
        sched_yield();
}

static void players_end(marcel_t player[2])
{
    atomic_store(&over, true);
    join(player[0]);
    join(player[1]);
}

static int balls(void)
{
    int a = 0, b = 0;
    marcel_sem_getvalue(&ball[0], &a);
    marcel_sem_getvalue(&ball[1], &b);
    return a + b;
}

/* ---- Other threads --------------------------------------------------------------------------------------------- */

/* Take the ball and give it back, now and then. */
static void *visit(void *seed_given)
{
    unsigned seed = (unsigned)(uintptr_t)seed_given;
    for (int i = 0; i < 20; i++) {
        int side = (int)next(&seed, 2);
        if (next(&seed, 2)) {
            marcel_sem_wait(&ball[1]); /* where the ball is at the end of the game */
            marcel_sem_post(&ball[1]);
        } else if (!marcel_sem_trywait(&ball[side])) {
            marcel_sem_post(&ball[side]);
        }
        short_sleep(next(&seed, 100000));
    }
    return NULL;
}

void test_bias_taken_away_loses_no_post(void)
{
    for (int i = 0; i < 40 * rounds; i++) {
        marcel_t player[2], visitor;
        pthread_t plain;
        players_start(player, LONG_ENOUGH + 7 * i);
        CHECK_EQ(pthread_create(&plain, NULL, visit, (void *)(uintptr_t)(2 * i + 1)), 0);
        visitor = create_at(1, visit, (void *)(uintptr_t)(2 * i + 2));
        join(visitor);
        CHECK_EQ(pthread_join(plain, NULL), 0);
        players_end(player);
        CHECK_EQ(balls(), 1);
        CHECK_EQ(marcel_sem_destroy(&ball[0]), 0);
        CHECK_EQ(marcel_sem_destroy(&ball[1]), 0);
    }
}

/* ---- Waits that end otherwise ---------------------------------------------------------------------------------- */

static marcel_sem_t sem;
static _Atomic(int) posted, taken;

static void *post_until_over(void *arg)
{
    while (!atomic_load(&over)) {
        marcel_sem_post(&sem);
        atomic_fetch_add(&posted, 1);
        if (atomic_load(&posted) % 7 == 0 || atomic_load(&posted) > atomic_load(&taken))
            marcel_yield();
    }
    return arg;
}

static void *take_for_ever(void *with_deadline)
{
    for (;;) {
        struct timespec until = after_ms(CLOCK_MONOTONIC, 1);
        if (!(with_deadline ? marcel_sem_clockwait(&sem, CLOCK_MONOTONIC, &until) : marcel_sem_wait(&sem)))
            atomic_fetch_add(&taken, 1);
    }
    return NULL;
}

/* Check that every post was taken, or is left. */
static void cancelled(bool with_deadline, bool moves, int after)
{
    marcel_t taker, poster;
    void *result = NULL;
    int left = 0;
    atomic_store(&posted, 0);
    atomic_store(&taken, 0);
    atomic_store(&over, false);
    marcel_sem_init(&sem, 0, 0);
    taker = moves ? create_moving(take_for_ever, with_deadline ? &sem : NULL)
                  : create_at(0, take_for_ever, with_deadline ? &sem : NULL);
    poster = create_at(0, post_until_over, NULL);
    while (atomic_load(&posted) < after)
        sched_yield();
    CHECK_EQ(marcel_cancel(taker), 0);
    CHECK_EQ(marcel_join(taker, &result), 0);
    CHECK(result == MARCEL_CANCELED);
    atomic_store(&over, true);
    join(poster);
    CHECK_EQ(marcel_sem_getvalue(&sem, &left), 0);
    CHECK_EQ(atomic_load(&taken) + left, atomic_load(&posted));
    CHECK_EQ(marcel_sem_destroy(&sem), 0);
}

void test_bias_survives_cancellation(void)
{
    for (int i = 0; i < 16 * rounds; i++)
        cancelled(i & 1, i & 2, 200 * i);
}

/* ---- The child of a fork ---------------------------------------------------------------------------------------- */

/* Fork: the players' worker does not exist in the child, and may be lost in the middle of a use. */
static void *forks(void *arg)
{
    for (int i = 0; i < 50 * rounds; i++) {
        int status = 0;
        pid_t child = fork();
        if (!child) {
            for (int side = 0; side < 2; side++) {
                marcel_sem_trywait(&ball[side]);
                marcel_sem_post(&ball[side]);
            }
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    return arg;
}

void test_bias_ends_in_a_child(void)
{
    marcel_t player[2];
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
        return; /* without membarrier, the child may find a lock that the lost worker holds */
    players_start(player, LONG_ENOUGH);
    join(create_at(1, forks, NULL));
    players_end(player);
}

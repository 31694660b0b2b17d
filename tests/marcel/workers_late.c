/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines, wakes and cancels of a thread that may move, while the worker on which it began to wait computes. */
#include "workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

typedef enum how { SLEEPS, COND, SEM, JOIN, DESCRIPTOR, WOKEN, CANCELLED, HOWS } how_t;

static struct late {
    how_t how;
    bool early; /* the other workers are released before the thread begins to wait, and may sleep */
    int steps;  /* number of steps that the thread computes before its wait */
    atomic_bool waits;
    marcel_sem_t sem, end;
    marcel_t self, other;
    int pipe[2];
} late;

static int wait_late(void)
{
    marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
    marcel_cond_t cond = MARCEL_COND_INITIALIZER;
    struct timespec soon = after_ms(CLOCK_REALTIME, 3), never = after_ms(CLOCK_REALTIME, 1000000);
    int rc;
    atomic_store(&late.waits, true);
    switch (late.how) {
    case COND:
        marcel_mutex_lock(&mutex);
        rc = marcel_cond_timedwait(&cond, &mutex, &soon);
        marcel_mutex_unlock(&mutex);
        return rc;
    case SEM: return marcel_sem_timedwait(&late.sem, &soon);
    case JOIN: return marcel_timedjoin(late.other, NULL, &soon);
    case DESCRIPTOR: return -marcel_fd_wait(late.pipe[0], POLLIN, CLOCK_REALTIME, &soon);
    case WOKEN: return marcel_sem_timedwait(&late.sem, &never);
    case CANCELLED: return marcel_sleep(1000);
    default: return marcel_nanosleep(&(struct timespec){0, 3000000}, NULL);
    }
}

static void over(void *arg)
{
    (void)arg;
    atomic_fetch_add(&reached, 1);
}

static void *be_late(void *arg)
{
    int expected = late.how == SLEEPS || late.how == WOKEN ? 0 : ETIMEDOUT;
    if (late.early)
        atomic_store(&released, true);
    for (volatile int i = 0; i < late.steps; i++)
        ;
    marcel_cleanup_push(over, NULL);
    CHECK_EQ(wait_late(), expected);
    CHECK(late.how != CANCELLED);
    marcel_cleanup_pop(1);
    return arg;
}

static void *wait_for_end(void *arg)
{
    marcel_sem_wait(&late.end);
    return arg;
}

/* As soon as the other thread waits, compute until it has continued. */
static void *hog_late(void *arg)
{
    late.other = create_at(0, wait_for_end, NULL);
    late.self = create_moving(be_late, NULL);
    while (!atomic_load(&late.waits))
        marcel_yield();
    atomic_store(&released, true);
    compute_until(1);
    join(late.self);
    marcel_sem_post(&late.end);
    join(late.other);
    return arg;
}

/* End the wait from a plain pthread when the wait has begun, or is about to begin. */
static void *end_wait(void *arg)
{
    while (!atomic_load(&late.waits))
        sched_yield();
    if (late.how == WOKEN)
        CHECK_EQ(marcel_sem_post(&late.sem), 0);
    else if (late.how == CANCELLED)
        CHECK_EQ(marcel_cancel(late.self), 0);
    return arg;
}

void test_deadline_is_seen_by_another_worker(void)
{
    for (int i = 0; i < 12 * HOWS && !test_failures; i++) {
        pthread_t other;
        late = (struct late){.how = i % HOWS, .early = i / HOWS % 2, .steps = i / HOWS * 20000};
        CHECK_EQ(marcel_sem_init(&late.sem, 0, 0), 0);
        CHECK_EQ(marcel_sem_init(&late.end, 0, 0), 0);
        CHECK_EQ(pipe(late.pipe), 0);
        CHECK_EQ(pthread_create(&other, NULL, end_wait, NULL), 0);
        alone(hog_late, NULL);
        CHECK_EQ(pthread_join(other, NULL), 0);
        close(late.pipe[0]);
        close(late.pipe[1]);
    }
}

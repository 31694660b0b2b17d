/* SPDX-License-Identifier: BSD-3-Clause */
#include "locks.h"

#include <sched.h>

static void let_go(void *any)
{
    marcel_sem_wait(&((any_t *)any)->gone);
}

static void *plain_main(void *arg)
{
    any_t *any = arg;
    void *result;
    any->thread = marcel_self();
    marcel_sem_post(&any->known);
    marcel_cleanup_push(let_go, any); /* a thread that cancels this one must have returned */
    result = any->run(any->arg);
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, NULL);
    marcel_cleanup_pop(1);
    return result;
}

void any_start(any_t *any, bool plain, void *(*run)(void *), void *arg)
{
    *any = (any_t){.plain = plain, .run = run, .arg = arg};
    marcel_sem_init(&any->known, 0, 0);
    marcel_sem_init(&any->gone, 0, 0);
    if (plain) {
        CHECK_EQ(pthread_create(&any->pthread, NULL, plain_main, any), 0);
        marcel_sem_wait(&any->known);
    } else {
        CHECK_EQ(marcel_create(&any->thread, NULL, run, arg), 0);
    }
}

void *any_end(any_t *any)
{
    if (any->plain) {
        marcel_sem_post(&any->gone);
        pthread_join(any->pthread, &any->result);
    } else {
        CHECK_EQ(marcel_join(any->thread, &any->result), 0);
    }
    return any->result;
}

void everywhere(void *(*run)(void *))
{
    any_t any;
    run(NULL);
    for (int plain = 0; plain < 2; plain++) {
        any_start(&any, plain, run, NULL);
        any_end(&any);
    }
}

void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * MS};
    marcel_nanosleep(&t, NULL);
}

void yield_some(void)
{
    for (int i = 0; i < 5; i++) {
        marcel_yield();
        sched_yield();
    }
}

void *wait_done(void *arg)
{
    marcel_completion_wait(arg);
    return arg;
}

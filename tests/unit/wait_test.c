/* SPDX-License-Identifier: BSD-3-Clause */
/* core/wait.c: several threads of a process that wait at the same time. */
#include "unit.h"

#include <madeleine.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAITERS 4

typedef struct waiter {
    mad_channel_t *channel;
    pthread_t thread;
    int messages; /* to receive */
} waiter_t;

static mad_session_t *session;
static waiter_t waiters[WAITERS];

static void *receive(void *arg)
{
    waiter_t *w = arg;
    for (int i = 0; i < w->messages; i++)
        if (mad_end_unpacking(mad_begin_unpacking(w->channel)))
            return NULL;
    return w;
}

static void send_to(mad_channel_t *channel)
{
    ck_assert_int_eq(mad_end_packing(mad_begin_packing(channel, 0)), MAD_OK);
}

/* One process with threads that wait, each on a channel of its own. */
static void begin(int messages)
{
    char name[16];
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    for (int i = 0; i < WAITERS; i++) {
        snprintf(name, sizeof name, "wait%d", i);
        ck_assert_int_eq(mad_channel_open(session, name, &waiters[i].channel), MAD_OK);
        waiters[i].messages = messages;
        ck_assert_int_eq(pthread_create(&waiters[i].thread, NULL, receive, &waiters[i]), 0);
    }
}

static void end(void)
{
    void *good;
    for (int i = 0; i < WAITERS; i++) {
        ck_assert_int_eq(pthread_join(waiters[i].thread, &good), 0);
        ck_assert_ptr_nonnull(good);
    }
    mad_exit(session);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- While a handler runs ------------------------------------------------------------------------------------- */

static int64_t elapsed, used;
static sem_t handled;

/* A handler that takes long, and uses no time of the processor itself. */
static mad_handled_t slow(mad_channel_t *channel, mad_connection_t *cnx, void *arg)
{
    int64_t begun = clock_ns(CLOCK_MONOTONIC), before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)channel;
    (void)cnx;
    (void)arg;
    poll(NULL, 0, 200);
    used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    elapsed = clock_ns(CLOCK_MONOTONIC) - begun;
    sem_post(&handled);
    return MAD_CONSUMED;
}

/* The threads that wait meanwhile sleep: they do not go round because there is a handler to be run. */
START_TEST(handler_lets_others_sleep)
{
    mad_channel_t *channel;
    sem_init(&handled, 0, 0);
    begin(1);
    ck_assert_int_eq(mad_channel_open(session, "slow", &channel), MAD_OK);
    ck_assert_int_eq(mad_channel_set_handler(channel, slow, NULL), MAD_OK);
    send_to(channel);
    sem_wait(&handled);
    ck_assert_msg(used < elapsed / 2, "%lld ms of the processor in %lld ms", (long long)used / 1000000,
                  (long long)elapsed / 1000000);
    for (int i = 0; i < WAITERS; i++)
        send_to(waiters[i].channel);
    end();
    sem_destroy(&handled);
}
END_TEST

Suite *wait_suite(void)
{
    const TTest *tests[] = {handler_lets_others_sleep};
    return SUITE_OF("wait", tests);
}

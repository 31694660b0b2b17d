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
#include <sys/resource.h>
#include <time.h>

#define WAITERS 4

typedef struct waiter {
    mad_channel_t *channel;
    pthread_t thread;
    int messages; /* to receive */
    long switches; /* how often it has slept */
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
static void begin_with(void *(*run)(void *), int messages)
{
    char name[16];
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    for (int i = 0; i < WAITERS; i++) {
        snprintf(name, sizeof name, "wait%d", i);
        ck_assert_int_eq(mad_channel_open(session, name, &waiters[i].channel), MAD_OK);
        waiters[i].messages = messages;
        ck_assert_int_eq(pthread_create(&waiters[i].thread, NULL, run, &waiters[i]), 0);
    }
}

static void begin(int messages)
{
    begin_with(receive, messages);
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

/* ---- While another thread gets messages ------------------------------------------------------------------------ */

#define MESSAGES 300

static sem_t got;

static void *receive_many(void *arg)
{
    for (int i = 0; i < MESSAGES; i++) {
        if (mad_end_unpacking(mad_begin_unpacking(arg)))
            return NULL;
        sem_post(&got);
    }
    return arg;
}

static void *receive_one(void *arg)
{
    waiter_t *w = arg;
    struct rusage usage;
    if (mad_end_unpacking(mad_begin_unpacking(w->channel)))
        return NULL;
    getrusage(RUSAGE_THREAD, &usage);
    w->switches = usage.ru_nvcsw;
    return w;
}

/* A message wakes the thread that waits for it, and no other: all others but the one that leads sleep on. */
START_TEST(message_wakes_one)
{
    mad_channel_t *busy;
    pthread_t thread;
    void *good;
    int disturbed = 0;
    sem_init(&got, 0, 0);
    begin_with(receive_one, 1);
    ck_assert_int_eq(mad_channel_open(session, "busy", &busy), MAD_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_many, busy), 0);
    for (int i = 0; i < MESSAGES; i++) {
        poll(NULL, 0, 1); /* it waits again: what is tested is its waking */
        send_to(busy);
        sem_wait(&got);
    }
    ck_assert_int_eq(pthread_join(thread, &good), 0);
    ck_assert_ptr_nonnull(good);
    for (int i = 0; i < WAITERS; i++)
        send_to(waiters[i].channel);
    end();
    for (int i = 0; i < WAITERS; i++)
        disturbed += waiters[i].switches > MESSAGES / 3;
    ck_assert_msg(disturbed <= 1, "%d threads were woken by messages of another one", disturbed);
    sem_destroy(&got);
}
END_TEST

Suite *wait_suite(void)
{
    const TTest *tests[] = {handler_lets_others_sleep, message_wakes_one};
    return SUITE_OF("wait", tests);
}

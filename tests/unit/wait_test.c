/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/session/wait.c: several threads of a process that wait at the same time. */
#include "unit.h"

#include "core/core.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 4

typedef struct waiter {
    mad_channel_t *channel;
    pthread_t thread;
    int messages;  /* number of messages to receive */
    long switches; /* number of times that the thread has slept */
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

/* Open a session of one process with threads that wait, each on its own channel. */
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

/* ---- While a handler runs --------------------------------------------------------------------------------------- */

static int64_t elapsed, used;
static sem_t handled;

/* Handle a message slowly, without using the processor. */
static mad_handled_t slow(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    int64_t begun = clock_ns(CLOCK_MONOTONIC), before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)channel;
    (void)message;
    (void)arg;
    poll(NULL, 0, 200);
    used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    elapsed = clock_ns(CLOCK_MONOTONIC) - begun;
    sem_post(&handled);
    return MAD_CONSUMED;
}

/* The other waiting threads sleep while a handler runs.  The waiting threads do not spin because callbacks are due. */
START_TEST(handler_lets_others_sleep)
{
    mad_channel_t *channel;
    sem_init(&handled, 0, 0);
    begin(1);
    ck_assert_int_eq(mad_channel_open(session, "slow", &channel), MAD_OK);
    ck_assert_int_eq(mad_channel_handler_set(channel, slow, NULL), MAD_OK);
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

/* ---- The first waiter's thread runs a handler ------------------------------------------------------------------- */

static sem_t entered, passed, over;
static bool held_up;

/* Handler: return when another thread has received its message. */
static mad_handled_t until_passed(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    struct timespec limit;
    (void)channel;
    (void)message;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 10;
    sem_post(&entered);
    held_up = sem_timedwait(&passed, &limit);
    sem_post(&over);
    return MAD_CONSUMED;
}

static void *receive_and_pass(void *arg)
{
    mad_status_t status = mad_end_unpacking(mad_begin_unpacking(arg));
    sem_post(&passed);
    return status ? NULL : arg;
}

/* Wait until n threads wait, all but the leader asleep. */
static void until_waiting(int n)
{
    marceli_state_t state;
    do {
        sched_yield();
        marceli_state_get(&state);
    } while (state.inside < n || state.followers < n - 1);
}

/* Two threads wait on the same channel.  The first of them runs a handler, and a third thread leads.  The message must go to
 * the second thread. */
START_TEST(handler_holds_up_nothing)
{
    mad_channel_t *same, *other, *slow_one;
    pthread_t threads[3];
    void *good;
    sem_init(&entered, 0, 0);
    sem_init(&passed, 0, 0);
    sem_init(&over, 0, 0);
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "same", &same), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "other", &other), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "slow", &slow_one), MAD_OK);
    ck_assert_int_eq(mad_channel_handler_set(slow_one, until_passed, NULL), MAD_OK);
    for (int i = 0; i < 3; i++) { /* the thread that falls asleep last leads first */
        ck_assert_int_eq(pthread_create(&threads[i], NULL, receive_and_pass, i < 2 ? same : other), 0);
        until_waiting(i + 1);
    }
    send_to(slow_one);
    sem_wait(&entered);
    until_waiting(2);
    send_to(same);
    sem_wait(&over);
    send_to(same);
    send_to(other);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &good);
        ck_assert_ptr_nonnull(good);
    }
    mad_exit(session);
    ck_assert(!held_up);
    sem_destroy(&over);
    sem_destroy(&passed);
    sem_destroy(&entered);
}
END_TEST

/* ---- While another thread receives messages --------------------------------------------------------------------- */

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

/* A message wakes only the thread that waits for it: all others but the leader stay asleep. */
START_TEST(message_wakes_one_waiter)
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
        poll(NULL, 0, 1); /* lets the thread wait again, because its wake is tested */
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

/* ---- Events that another thread takes --------------------------------------------------------------------------- */

#define ROUNDS 100
#define BURST 40 /* number of messages that is more than one poll handles */

typedef struct talker {
    mad_session_t *session;
    mad_channel_t *aside, *channel;
} talker_t;

static void talker_open(talker_t *t)
{
    ck_assert_int_eq(mad_open("a key for the wait test", 23, &t->session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(t->session, "aside", &t->aside), MAD_OK);
    ck_assert_int_eq(mad_channel_open(t->session, "channel", &t->channel), MAD_OK);
}

typedef struct burst {
    talker_t *from;
    mad_peer_t to;
    _Atomic(int) go;
} burst_t;

/* Send messages that no thread waits for, and then one that a thread waits for. */
static void *send_burst(void *arg)
{
    burst_t *b = arg;
    while (!atomic_load(&b->go))
        sched_yield();
    for (int i = 0; i < BURST; i++)
        mad_end_packing(mad_begin_packing(b->from->aside, b->to));
    mad_end_packing(mad_begin_packing(b->from->channel, b->to));
    return NULL;
}

/* Take the event for which the leader sleeps, if this thread is faster. */
static void rob(mad_session_t *s)
{
    int robbed = 0, received = 0;
    while (!robbed && !received) {
        madi_lock(&s->lock);
        robbed = madi_poll_descriptors(s);
        madi_unlock(&s->lock);
        sem_getvalue(&got, &received);
        sched_yield(); /* else the sender, if it shares the processor, runs only when this thread's time slice ends */
    }
}

static void *receive_last(void *arg)
{
    bool good = !mad_end_unpacking(mad_begin_unpacking(arg));
    sem_post(&got);
    return good ? arg : NULL;
}

/* While the leader sleeps another thread takes its event, handles a part of the messages, and does not return. */
START_TEST(leader_whose_message_is_taken_waits_on)
{
    talker_t a, b;
    burst_t burst = {.from = &b};
    pthread_t sender, receiver;
    void *good;
    const void *address;
    size_t len;
    struct timespec limit;
    setenv("MAD_DRIVERS", "shm", 1);
    talker_open(&a);
    talker_open(&b);
    ck_assert_int_eq(mad_address(a.session, &address, &len), MAD_OK);
    ck_assert_int_eq(mad_peer_add(b.session, address, len, &burst.to), MAD_OK);
    sem_init(&got, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        atomic_store(&burst.go, 0);
        pthread_create(&sender, NULL, send_burst, &burst);
        pthread_create(&receiver, NULL, receive_last, a.channel);
        while (!atomic_load(&marceli_leader_sleeps))
            sched_yield();
        atomic_store(&burst.go, 1);
        rob(a.session);
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 10;
        ck_assert_msg(!sem_timedwait(&got, &limit), "round %d: it sleeps on", i);
        pthread_join(receiver, &good);
        ck_assert_ptr_nonnull(good);
        pthread_join(sender, NULL);
        for (int k = 0; k < BURST; k++)
            ck_assert_int_eq(mad_end_unpacking(mad_begin_unpacking(a.aside)), MAD_OK);
    }
    sem_destroy(&got);
    mad_exit(b.session);
    mad_exit(a.session);
}
END_TEST

Suite *wait_suite(void)
{
    const TTest *tests[] = {
        handler_lets_others_sleep,
        handler_holds_up_nothing,
        message_wakes_one_waiter,
        leader_whose_message_is_taken_waits_on,
    };
    return SUITE_OF("wait", tests);
}

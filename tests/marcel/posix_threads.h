/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads: their ends, cancellation, handlers, keys, once (see posix_names.h). */
#ifndef MARCEL_POSIX_THREADS_H
#define MARCEL_POSIX_THREADS_H

#include "posix_names.h"

/* Digits of the events, in their order; one thread at a time. */
static long happened;

static void happens(long digit)
{
    happened = happened * 10 + digit;
}

/* A thread that runs until it is released, and then returns its own address. */
typedef struct lasting {
    SEM begun, go, gone;
    T(t) thread;
} lasting_t;

static void *last(void *arg)
{
    lasting_t *lasting = arg;
    S(post, &lasting->begun);
    S(wait, &lasting->go);
    S(post, &lasting->gone);
    return lasting;
}

static void lasting_start(lasting_t *lasting)
{
    S(init, &lasting->begun, 0, 0);
    S(init, &lasting->go, 0, 0);
    S(init, &lasting->gone, 0, 0);
    if (T(create)(&lasting->thread, NULL, last, lasting))
        abort();
    S(wait, &lasting->begun);
}

/* ---- Join and detach ------------------------------------------------------------------------------------------ */

static void *join_self(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)T(join)(T(self)(), NULL);
}

/* Errors of join.  No invalid time is tried, because glibc 2.36 then checks a running thread again and again. */
static void join_errors(void)
{
    lasting_t l;
    void *result = NULL;
    struct timespec soon;
    NOTE_ELSEWHERE("oneself", join_self, NULL);
    lasting_start(&l);
    posix_note("tryjoin, runs", NP(tryjoin)(l.thread, &result));
    posix_note("timedjoin, past", NP(timedjoin)(l.thread, &result, &past));
    posix_note("timedjoin, before all", NP(timedjoin)(l.thread, &result, &before_all));
    posix_note("clockjoin, past", NP(clockjoin)(l.thread, &result, CLOCK_MONOTONIC, &past));
    posix_note("clockjoin, clock", NP(clockjoin)(l.thread, &result, CLOCK_PROCESS_CPUTIME_ID, &past));
    posix_note("no result yet (1)", result == NULL);
    S(post, &l.go);
    soon = in_ms(CLOCK_REALTIME, 20000);
    posix_note("timedjoin", NP(timedjoin)(l.thread, &result, &soon));
    posix_note("its result (1)", result == &l);
}

static void detach_errors(void)
{
    static lasting_t l;
    lasting_start(&l);
    posix_note("detach", T(detach)(l.thread));
    posix_note("detach again", T(detach)(l.thread));
    posix_note("join", T(join)(l.thread, NULL));
    posix_note("tryjoin", NP(tryjoin)(l.thread, NULL));
    S(post, &l.go);
    S(wait, &l.gone);
}

static void *post(void *arg)
{
    S(post, (SEM *)arg);
    return NULL;
}

static void attributes(void)
{
    T(attr_t) attr;
    T(t) thread;
    static SEM posted; /* static, because the thread may last a little longer than this function */
    size_t size = 0;
    int state = -1;
    S(init, &posted, 0, 0);
    posix_note("init", T(attr_init)(&attr));
    posix_note("getdetachstate", T(attr_getdetachstate)(&attr, &state));
    posix_note("joinable (1)", state == C(CREATE_JOINABLE));
    posix_note("setdetachstate 77", T(attr_setdetachstate)(&attr, 77));
    posix_note("setdetachstate", T(attr_setdetachstate)(&attr, C(CREATE_DETACHED)));
    T(attr_getdetachstate)(&attr, &state);
    posix_note("detached (1)", state == C(CREATE_DETACHED));
    posix_note("getstacksize", T(attr_getstacksize)(&attr, &size));
    posix_note("there is a default (1)", size >= 16384);
    posix_note("setstacksize 0", T(attr_setstacksize)(&attr, 0));
    posix_note("setstacksize", T(attr_setstacksize)(&attr, 1 << 18));
    T(attr_getstacksize)(&attr, &size);
    posix_note("stack size (number)", (long)size);
    posix_note("create", T(create)(&thread, &attr, post, &posted));
    posix_note("destroy", T(attr_destroy)(&attr));
    S(wait, &posted);
    posix_note("init again", T(attr_init)(&attr));
    posix_note("destroy again", T(attr_destroy)(&attr));
}

/* ---- Ends ----------------------------------------------------------------------------------------------------- */

static void handler(void *digit)
{
    happens((long)(intptr_t)digit);
}

static T(key_t) end_key;

static void end_destructor(void *value)
{
    happens((long)(intptr_t)value);
}

static void leave(void)
{
    T(cleanup_push)(handler, (void *)3);
    T(exit)((void *)42);
    T(cleanup_pop)(0);
}

static void *ends_inside(void *arg)
{
    (void)arg;
    T(setspecific)(end_key, (void *)9);
    T(cleanup_push)(handler, (void *)1);
    T(cleanup_push)(handler, (void *)7);
    T(cleanup_pop)(0);
    T(cleanup_push)(handler, (void *)8);
    T(cleanup_pop)(1);
    T(cleanup_push)(handler, (void *)2);
    leave();
    T(cleanup_pop)(1);
    T(cleanup_pop)(1);
    return NULL;
}

static void ends(void)
{
    if (T(key_create)(&end_key, end_destructor))
        abort();
    happened = 0;
    NOTE_ELSEWHERE("result (number)", ends_inside, NULL);
    posix_note("handlers, then destructors (digits)", happened);
    posix_note("key_delete", T(key_delete)(end_key));
}

/* ---- Cancellation --------------------------------------------------------------------------------------------- */

static void off(void *arg)
{
    int old = -1;
    (void)arg;
    T(setcancelstate)(C(CANCEL_DISABLE), &old);
    happens(old == C(CANCEL_ENABLE) ? 1 : 2);
    T(setcancelstate)(C(CANCEL_ENABLE), &old);
    happens(old == C(CANCEL_DISABLE) ? 3 : 4);
    T(cancel)(T(self)());
    T(testcancel)(); /* the thread is already ending, so this call does nothing */
    happens(5);
}

static void *cancel_self(void *arg)
{
    int old = -1;
    (void)arg;
    T(setcancelstate)(C(CANCEL_DISABLE), &old);
    happens(old == C(CANCEL_ENABLE) ? 1 : 2);
    T(cancel)(T(self)());
    T(testcancel)();
    happens(3);
    T(cleanup_push)(handler, (void *)6);
    T(cleanup_push)(off, NULL);
    T(setcancelstate)(C(CANCEL_ENABLE), NULL);
    happens(7);
    T(testcancel)();
    happens(8);
    T(cleanup_pop)(0);
    T(cleanup_pop)(0);
    return NULL;
}

static void cancel_states(void)
{
    posix_note("setcancelstate 55", T(setcancelstate)(55, NULL));
    happened = 0;
    posix_note("cancelled (1)", elsewhere(cancel_self, NULL) == C(CANCELED));
    posix_note("in this order (digits)", happened);
}

/* Calls in which a thread waits when it is cancelled. */
typedef struct caught {
    enum { IN_JOIN, IN_TIMEDJOIN, IN_COND, IN_TIMED_COND, IN_SEM, IN_TIMED_SEM, IN_SLEEP, PLACES } in;
    lasting_t lasting; /* lasting.thread: the thread to join; all places use lasting.begun */
    T(mutex_t) mutex;
    T(cond_t) cond;
    SEM sem;
    int unlocked;
} caught_t;

static void caught_unlock(void *arg)
{
    caught_t *c = arg;
    c->unlocked = T(mutex_unlock)(&c->mutex); /* succeeds if the thread holds this errorcheck mutex */
}

static void *be_caught(void *arg)
{
    caught_t *c = arg;
    struct timespec far = in_ms(CLOCK_REALTIME, 100000), long_time = {100, 0};
    T(mutex_lock)(&c->mutex);
    T(cleanup_push)(caught_unlock, c);
    S(post, &c->lasting.begun);
    switch (c->in) {
    case IN_JOIN: T(join)(c->lasting.thread, NULL); break;
    case IN_TIMEDJOIN: NP(timedjoin)(c->lasting.thread, NULL, &far); break;
    case IN_COND: T(cond_wait)(&c->cond, &c->mutex); break;
    case IN_TIMED_COND: T(cond_timedwait)(&c->cond, &c->mutex, &far); break;
    case IN_SEM: S(wait, &c->sem); break;
    case IN_TIMED_SEM: S(timedwait, &c->sem, &far); break;
    case IN_SLEEP: SLEEP(&long_time); break;
    case PLACES: break;
    }
    T(cleanup_pop)(1);
    return NULL;
}

/* Cancel a thread in each call, before or while it waits: it ends, and nothing is lost. */
static void cancel_places(void)
{
    for (int in = 0; in < PLACES; in++) {
        caught_t c = {.in = in, .cond = C(COND_INITIALIZER), .unlocked = -1};
        T(t) thread;
        void *result = NULL;
        lasting_start(&c.lasting);
        S(init, &c.sem, 0, 0);
        mutex_init(&c.mutex, C(MUTEX_ERRORCHECK));
        if (T(create)(&thread, NULL, be_caught, &c))
            abort();
        S(wait, &c.lasting.begun);
        posix_note("cancel", T(cancel)(thread));
        posix_note("join", T(join)(thread, &result));
        posix_note("cancelled (1)", result == C(CANCELED));
        posix_note("unlock by its handler", c.unlocked);
        posix_note("the semaphore", S(trywait, &c.sem));
        S(post, &c.lasting.go);
        posix_note("joined by another", T(join)(c.lasting.thread, &result));
        posix_note("its result (1)", result == &c.lasting);
    }
}

/* Make calls that are no cancellation points, with a cancel pending; then one that is, although it need not wait. */
static void *no_points(void *arg)
{
    T(mutex_t) mutex = C(MUTEX_INITIALIZER);
    T(rwlock_t) lock = C(RWLOCK_INITIALIZER);
    T(barrier_t) barrier;
    T(cond_t) cond = C(COND_INITIALIZER);
    SEM *sem = arg;
    T(cancel)(T(self)());
    T(mutex_lock)(&mutex);
    T(mutex_timedlock)(&mutex, &past);
    T(mutex_unlock)(&mutex);
    happens(1);
    T(rwlock_rdlock)(&lock);
    T(rwlock_timedwrlock)(&lock, &past);
    T(rwlock_unlock)(&lock);
    happens(2);
    T(barrier_init)(&barrier, NULL, 1);
    T(barrier_wait)(&barrier);
    happens(3);
    T(cond_signal)(&cond);
    T(cond_broadcast)(&cond);
    happens(4);
    S(trywait, sem);
    S(post, sem);
    S(post, sem);
    happens(5);
    S(wait, sem);
    happens(6);
    return NULL;
}

static void cancel_points(void)
{
    SEM sem;
    S(init, &sem, 0, 0);
    happened = 0;
    posix_note("cancelled (1)", elsewhere(no_points, &sem) == C(CANCELED));
    posix_note("in this order (digits)", happened);
    posix_note("the semaphore is as it was", S(trywait, &sem));
}

/* ---- Keys ----------------------------------------------------------------------------------------------------- */

static T(key_t) keys[3];
static int destroyed[3];

static void set_again(void *value)
{
    destroyed[0]++;
    T(setspecific)(keys[0], value);
}

static void set_other(void *value)
{
    destroyed[1]++;
    if (destroyed[1] == 1)
        T(setspecific)(keys[2], value);
}

static void count_end(void *value)
{
    (void)value;
    destroyed[2] += T(getspecific)(keys[2]) ? 100 : 1;
}

static void *set_keys(void *arg)
{
    intptr_t rc = 0;
    (void)arg;
    for (int i = 0; i < 3; i++)
        rc += T(getspecific)(keys[i]) != NULL;
    rc += T(setspecific)(keys[0], &keys) + T(setspecific)(keys[1], &keys);
    T(setspecific)(keys[2], &keys);
    T(setspecific)(keys[2], NULL); /* the key has no value at the end, unless another destructor sets one */
    return (void *)rc;
}

static void key_destructors(void)
{
    memset(destroyed, 0, sizeof destroyed);
    posix_note("create", T(key_create)(&keys[0], set_again));
    T(key_create)(&keys[1], set_other);
    T(key_create)(&keys[2], count_end);
    T(setspecific)(keys[0], NULL);
    NOTE_ELSEWHERE("in a new thread", set_keys, NULL);
    posix_note("one sets its own again (number)", destroyed[0]);
    posix_note("one sets another's (number)", destroyed[1]);
    posix_note("that is destroyed once (number)", destroyed[2]);
    posix_note("iterations (number)", C(DESTRUCTOR_ITERATIONS));
    for (int i = 0; i < 3; i++)
        posix_note("delete", T(key_delete)(keys[i]));
}

static void *leave_deleted(void *arg)
{
    (void)arg;
    T(setspecific)(keys[2], &keys);
    T(key_delete)(keys[2]);
    return NULL;
}

static void key_errors(void)
{
    static T(key_t) many[10000];
    int n = 0, rc = 0;
    T(key_t) key;
    while (!rc && n < 10000)
        rc = T(key_create)(&many[n], NULL), n += !rc;
    posix_note("create too many", rc);
    posix_note("at least 128, but for some (1)", n >= 120);
    posix_note("delete", T(key_delete)(many[0]));
    posix_note("delete again", T(key_delete)(many[0]));
    posix_note("setspecific, deleted", T(setspecific)(many[0], &key));
    posix_note("setspecific, none", T(setspecific)((T(key_t))123456, &key));
    posix_note("delete, none", T(key_delete)((T(key_t))123456));
    posix_note("setspecific", T(setspecific)(many[1], &key));
    posix_note("getspecific (1)", T(getspecific)(many[1]) == &key);
    T(key_delete)(many[1]);
    posix_note("create again", T(key_create)(&key, NULL));
    posix_note("it is empty (1)", T(getspecific)(key) == NULL);
    T(key_delete)(key);
    for (int i = 2; i < n; i++)
        T(key_delete)(many[i]);
    destroyed[2] = 0;
    T(key_create)(&keys[2], count_end);
    elsewhere(leave_deleted, NULL);
    posix_note("a deleted key's destructor (number)", destroyed[2]);
}

/* ---- Once ----------------------------------------------------------------------------------------------------- */

static T(once_t) once_control = C(ONCE_INIT), inner_control = C(ONCE_INIT);
static atomic_int once_runs, once_begun;

static void run_inner(void)
{
    atomic_fetch_add(&once_runs, 10);
}

static void run_once(void)
{
    if (atomic_fetch_add(&once_begun, 1) < 2) {
        T(cancel)(T(self)());
        T(testcancel)();
    }
    T(once)(&inner_control, run_inner);
    atomic_fetch_add(&once_runs, 1);
}

static void *call_once(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)T(once)(&once_control, run_once);
}

static void once(void)
{
    T(t) threads[6];
    int cancelled = 0, good = 0;
    T(once_t) again = C(ONCE_INIT);
    once_control = inner_control = again;
    atomic_store(&once_runs, 0);
    atomic_store(&once_begun, 0);
    for (int i = 0; i < 6; i++)
        if (T(create)(&threads[i], NULL, call_once, NULL))
            abort();
    for (int i = 0; i < 6; i++) {
        void *result = NULL;
        T(join)(threads[i], &result);
        cancelled += result == C(CANCELED);
        good += !result;
    }
    posix_note("cancelled in it (number)", cancelled);
    posix_note("others (number)", good);
    posix_note("it ran (number)", once_runs);
    posix_note("once again", T(once)(&once_control, run_once));
    posix_note("it ran (number)", once_runs);
}

#endif

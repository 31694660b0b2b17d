/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes, conditions, semaphores, rwlocks, barriers (see posix_names.h). */
#ifndef MARCEL_POSIX_LOCKS_H
#define MARCEL_POSIX_LOCKS_H

#include "posix_names.h"

/* ---- Mutexes -------------------------------------------------------------------------------------------------- */

static void *mutex_try(void *mutex)
{
    int rc = T(mutex_trylock)(mutex);
    if (!rc)
        T(mutex_unlock)(mutex);
    return (void *)(intptr_t)rc;
}

static void *mutex_unlock(void *mutex)
{
    return (void *)(intptr_t)T(mutex_unlock)(mutex);
}

static void *mutex_timed_past(void *mutex)
{
    return (void *)(intptr_t)T(mutex_timedlock)(mutex, &past);
}

static void *mutex_timed_before_all(void *mutex)
{
    return (void *)(intptr_t)T(mutex_timedlock)(mutex, &before_all);
}

static void *mutex_timed_too_many(void *mutex)
{
    return (void *)(intptr_t)T(mutex_timedlock)(mutex, &too_many_ns);
}

static void *mutex_timed_negative(void *mutex)
{
    return (void *)(intptr_t)T(mutex_timedlock)(mutex, &negative_ns);
}

static void *mutex_clock_wrong(void *mutex)
{
    return (void *)(intptr_t)T(mutex_clocklock)(mutex, CLOCK_PROCESS_CPUTIME_ID, &past);
}

static void mutex_init(T(mutex_t) * mutex, int type)
{
    T(mutexattr_t) attr;
    if (T(mutexattr_init)(&attr) || T(mutexattr_settype)(&attr, type) || T(mutex_init)(mutex, &attr) ||
        T(mutexattr_destroy)(&attr))
        abort();
}

static void mutex_of_others(int type)
{
    T(mutex_t) mutex;
    mutex_init(&mutex, type);
    posix_note("lock", T(mutex_lock)(&mutex));
    NOTE_ELSEWHERE("trylock by another", mutex_try, &mutex);
    NOTE_ELSEWHERE("timedlock by another, past", mutex_timed_past, &mutex);
    NOTE_ELSEWHERE("timedlock by another, before all", mutex_timed_before_all, &mutex);
    NOTE_ELSEWHERE("timedlock by another, too many ns", mutex_timed_too_many, &mutex);
    NOTE_ELSEWHERE("timedlock by another, negative ns", mutex_timed_negative, &mutex);
    NOTE_ELSEWHERE("clocklock by another, clock", mutex_clock_wrong, &mutex);
    if (type != C(MUTEX_NORMAL))
        NOTE_ELSEWHERE("unlock by another", mutex_unlock, &mutex);
    posix_note("destroy, locked", T(mutex_destroy)(&mutex));
    posix_note("unlock", T(mutex_unlock)(&mutex));
    if (type != C(MUTEX_NORMAL))
        posix_note("unlock, free", T(mutex_unlock)(&mutex));
    NOTE_ELSEWHERE("trylock by another, free", mutex_try, &mutex);
    posix_note("timedlock, free, too many ns", T(mutex_timedlock)(&mutex, &too_many_ns));
    posix_note("unlock again", T(mutex_unlock)(&mutex));
    posix_note("clocklock, free, clock", T(mutex_clocklock)(&mutex, CLOCK_PROCESS_CPUTIME_ID, &past));
    posix_note("destroy", T(mutex_destroy)(&mutex));
    posix_note("init again", T(mutex_init)(&mutex, NULL));
    posix_note("destroy again", T(mutex_destroy)(&mutex));
}

static void mutex_normal(void)
{
    T(mutex_t) mutex;
    mutex_of_others(C(MUTEX_NORMAL));
    mutex_init(&mutex, C(MUTEX_NORMAL));
    posix_note("lock", T(mutex_lock)(&mutex));
    posix_note("trylock again", T(mutex_trylock)(&mutex));
    posix_note("timedlock again", T(mutex_timedlock)(&mutex, &past));
    posix_note("unlock", T(mutex_unlock)(&mutex));
}

static void mutex_errorcheck(void)
{
    T(mutex_t) mutex;
    mutex_of_others(C(MUTEX_ERRORCHECK));
    mutex_init(&mutex, C(MUTEX_ERRORCHECK));
    posix_note("lock", T(mutex_lock)(&mutex));
    posix_note("lock again", T(mutex_lock)(&mutex));
    posix_note("trylock again", T(mutex_trylock)(&mutex));
    posix_note("timedlock again", T(mutex_timedlock)(&mutex, &past));
    posix_note("timedlock again, too many ns", T(mutex_timedlock)(&mutex, &too_many_ns));
    posix_note("unlock", T(mutex_unlock)(&mutex));
}

static void mutex_recursive(void)
{
    T(mutex_t) mutex;
    mutex_of_others(C(MUTEX_RECURSIVE));
    mutex_init(&mutex, C(MUTEX_RECURSIVE));
    posix_note("lock", T(mutex_lock)(&mutex));
    posix_note("lock again", T(mutex_lock)(&mutex));
    posix_note("trylock again", T(mutex_trylock)(&mutex));
    posix_note("timedlock again, too many ns", T(mutex_timedlock)(&mutex, &too_many_ns));
    for (int i = 0; i < 4; i++) {
        NOTE_ELSEWHERE("trylock by another", mutex_try, &mutex);
        posix_note("unlock", T(mutex_unlock)(&mutex));
    }
    NOTE_ELSEWHERE("trylock by another, free", mutex_try, &mutex);
    posix_note("unlock once more", T(mutex_unlock)(&mutex));
}

static void mutex_attributes(void)
{
    T(mutexattr_t) attr;
    int type = -1;
    T(mutex_t) recursive = TYPED_INITIALIZER(RECURSIVE), errorcheck = TYPED_INITIALIZER(ERRORCHECK);
    posix_note("init", T(mutexattr_init)(&attr));
    posix_note("gettype", T(mutexattr_gettype)(&attr, &type));
    /* NOLINTNEXTLINE(misc-redundant-expression): POSIX may have two names for one type */
    posix_note("the default is normal (1)", type == C(MUTEX_DEFAULT) && type == C(MUTEX_NORMAL));
    posix_note("settype 100", T(mutexattr_settype)(&attr, 100));
    posix_note("settype -1", T(mutexattr_settype)(&attr, -1));
    posix_note("settype", T(mutexattr_settype)(&attr, C(MUTEX_RECURSIVE)));
    T(mutexattr_gettype)(&attr, &type);
    posix_note("it is set (1)", type == C(MUTEX_RECURSIVE));
    posix_note("destroy", T(mutexattr_destroy)(&attr));
    posix_note("init again", T(mutexattr_init)(&attr));
    posix_note("destroy again", T(mutexattr_destroy)(&attr));
    posix_note("recursive", T(mutex_lock)(&recursive) + T(mutex_lock)(&recursive));
    posix_note("errorcheck", T(mutex_lock)(&errorcheck));
    posix_note("errorcheck again", T(mutex_lock)(&errorcheck));
}

/* ---- Conditions ----------------------------------------------------------------------------------------------- */

static void cond_errors(void)
{
    T(mutex_t) mutex;
    T(cond_t) cond = C(COND_INITIALIZER);
    mutex_init(&mutex, C(MUTEX_ERRORCHECK));
    posix_note("wait, not locked", T(cond_wait)(&cond, &mutex));
    posix_note("timedwait, not locked", T(cond_timedwait)(&cond, &mutex, &past));
    T(mutex_lock)(&mutex);
    posix_note("timedwait, past", T(cond_timedwait)(&cond, &mutex, &past));
    posix_note("timedwait, before all", T(cond_timedwait)(&cond, &mutex, &before_all));
    posix_note("timedwait, too many ns", T(cond_timedwait)(&cond, &mutex, &too_many_ns));
    posix_note("timedwait, negative ns", T(cond_timedwait)(&cond, &mutex, &negative_ns));
    posix_note("clockwait, past", T(cond_clockwait)(&cond, &mutex, CLOCK_MONOTONIC, &past));
    posix_note("clockwait, clock", T(cond_clockwait)(&cond, &mutex, CLOCK_PROCESS_CPUTIME_ID, &past));
    posix_note("lock afterwards", T(mutex_lock)(&mutex));
    NOTE_ELSEWHERE("trylock by another", mutex_try, &mutex);
    posix_note("signal, nobody waits", T(cond_signal)(&cond));
    posix_note("broadcast, nobody waits", T(cond_broadcast)(&cond));
    posix_note("timedwait, signalled before", T(cond_timedwait)(&cond, &mutex, &past));
    posix_note("unlock", T(mutex_unlock)(&mutex));
    posix_note("destroy", T(cond_destroy)(&cond));
    posix_note("init again", T(cond_init)(&cond, NULL));
    posix_note("destroy again", T(cond_destroy)(&cond));
}

static void cond_recursive(void)
{
    T(mutex_t) mutex;
    T(cond_t) cond = C(COND_INITIALIZER);
    mutex_init(&mutex, C(MUTEX_RECURSIVE));
    posix_note("wait, not locked", T(cond_wait)(&cond, &mutex));
    T(mutex_lock)(&mutex);
    posix_note("timedwait", T(cond_timedwait)(&cond, &mutex, &past));
    NOTE_ELSEWHERE("trylock by another", mutex_try, &mutex);
    posix_note("unlock", T(mutex_unlock)(&mutex));
    posix_note("unlock once more", T(mutex_unlock)(&mutex));
}

typedef struct crowd {
    T(mutex_t) mutex;
    T(cond_t) cond, come;
    int waits, tokens, woken;
} crowd_t;

static void *in_crowd(void *arg)
{
    crowd_t *crowd = arg;
    T(mutex_lock)(&crowd->mutex);
    crowd->waits++;
    T(cond_signal)(&crowd->come);
    while (!crowd->tokens)
        T(cond_wait)(&crowd->cond, &crowd->mutex);
    crowd->tokens--;
    crowd->woken++;
    T(cond_signal)(&crowd->come);
    T(mutex_unlock)(&crowd->mutex);
    return NULL;
}

/* One thread is signalled, then all, and the condition is destroyed at once. */
static void cond_crowd(void)
{
    crowd_t crowd = {.mutex = C(MUTEX_INITIALIZER), .cond = C(COND_INITIALIZER), .come = C(COND_INITIALIZER)};
    T(t) threads[5];
    for (int i = 0; i < 5; i++)
        if (T(create)(&threads[i], NULL, in_crowd, &crowd))
            abort();
    T(mutex_lock)(&crowd.mutex);
    while (crowd.waits < 5)
        T(cond_wait)(&crowd.come, &crowd.mutex);
    crowd.tokens = 1;
    posix_note("signal", T(cond_signal)(&crowd.cond));
    while (crowd.woken < 1)
        T(cond_wait)(&crowd.come, &crowd.mutex);
    crowd.tokens = 4;
    posix_note("broadcast", T(cond_broadcast)(&crowd.cond));
    posix_note("destroy after broadcast", T(cond_destroy)(&crowd.cond));
    T(mutex_unlock)(&crowd.mutex);
    for (int i = 0; i < 5; i++)
        T(join)(threads[i], NULL);
    posix_note("woken (number)", crowd.woken);
}

/* ---- Semaphores ----------------------------------------------------------------------------------------------- */

static void sem_errors(void)
{
    SEM sem;
    int value = -1;
    posix_note("init, too much", S(init, &sem, 0, SEM_MAX + 1u));
    posix_note("init, the most", S(init, &sem, 0, SEM_MAX));
    posix_note("post beyond", S(post, &sem));
    posix_note("getvalue", S(getvalue, &sem, &value));
    posix_note("it is the most (1)", value == (int)SEM_MAX);
    posix_note("wait", S(wait, &sem));
    posix_note("post", S(post, &sem));
    posix_note("destroy", S(destroy, &sem));
    posix_note("init 0", S(init, &sem, 0, 0));
    posix_note("trywait", S(trywait, &sem));
    posix_note("timedwait, past", S(timedwait, &sem, &past));
    posix_note("timedwait, before all", S(timedwait, &sem, &before_all));
    posix_note("timedwait, too many ns", S(timedwait, &sem, &too_many_ns));
    posix_note("timedwait, negative ns", S(timedwait, &sem, &negative_ns));
    posix_note("clockwait, past", S(clockwait, &sem, CLOCK_MONOTONIC, &past));
    posix_note("clockwait, clock", S(clockwait, &sem, CLOCK_PROCESS_CPUTIME_ID, &past));
    posix_note("post to 1", S(post, &sem));
    posix_note("timedwait, past, 1 is there", S(timedwait, &sem, &past));
    posix_note("post to 1 again", S(post, &sem));
    posix_note("timedwait, too many ns, 1 is there", S(timedwait, &sem, &too_many_ns));
    S(getvalue, &sem, &value);
    posix_note("left (number)", value);
    posix_note("destroy again", S(destroy, &sem));
    posix_note("init, of several processes", S(init, &sem, 1, 0));
}

/* ---- Locks for readers and writers ---------------------------------------------------------------------------- */

static void *rwlock_try_read(void *lock)
{
    int rc = T(rwlock_tryrdlock)(lock);
    if (!rc)
        T(rwlock_unlock)(lock);
    return (void *)(intptr_t)rc;
}

static void *rwlock_try_write(void *lock)
{
    int rc = T(rwlock_trywrlock)(lock);
    if (!rc)
        T(rwlock_unlock)(lock);
    return (void *)(intptr_t)rc;
}

static void *rwlock_read_until(void *lock)
{
    return (void *)(intptr_t)T(rwlock_timedrdlock)(lock, &past);
}

static void *rwlock_write_until(void *lock)
{
    return (void *)(intptr_t)T(rwlock_timedwrlock)(lock, &past);
}

static void *rwlock_read_never(void *lock)
{
    return (void *)(intptr_t)T(rwlock_timedrdlock)(lock, &too_many_ns);
}

static void *rwlock_write_never(void *lock)
{
    return (void *)(intptr_t)T(rwlock_timedwrlock)(lock, &negative_ns);
}

static void *rwlock_clock_wrong(void *lock)
{
    return (void *)(intptr_t)T(rwlock_clockwrlock)(lock, CLOCK_PROCESS_CPUTIME_ID, &past);
}

static void rwlock_read(void)
{
    T(rwlock_t) lock = C(RWLOCK_INITIALIZER);
    posix_note("rdlock", T(rwlock_rdlock)(&lock));
    posix_note("rdlock again", T(rwlock_rdlock)(&lock));
    posix_note("tryrdlock again", T(rwlock_tryrdlock)(&lock));
    posix_note("trywrlock", T(rwlock_trywrlock)(&lock));
    posix_note("timedwrlock, past", T(rwlock_timedwrlock)(&lock, &past));
    NOTE_ELSEWHERE("tryrdlock by another", rwlock_try_read, &lock);
    NOTE_ELSEWHERE("trywrlock by another", rwlock_try_write, &lock);
    NOTE_ELSEWHERE("timedwrlock by another, past", rwlock_write_until, &lock);
    NOTE_ELSEWHERE("timedwrlock by another, negative ns", rwlock_write_never, &lock);
    NOTE_ELSEWHERE("clockwrlock by another, clock", rwlock_clock_wrong, &lock);
    posix_note("timedrdlock, past", T(rwlock_timedrdlock)(&lock, &past));
    for (int i = 0; i < 4; i++) {
        NOTE_ELSEWHERE("trywrlock by another", rwlock_try_write, &lock);
        posix_note("unlock", T(rwlock_unlock)(&lock));
    }
    NOTE_ELSEWHERE("trywrlock by another, free", rwlock_try_write, &lock);
    posix_note("destroy", T(rwlock_destroy)(&lock));
    posix_note("init", T(rwlock_init)(&lock, NULL));
    posix_note("timedrdlock, free, too many ns", T(rwlock_timedrdlock)(&lock, &too_many_ns));
    posix_note("destroy, read", T(rwlock_destroy)(&lock));
}

static void rwlock_write(void)
{
    T(rwlock_t) lock;
    posix_note("init", T(rwlock_init)(&lock, NULL));
    posix_note("wrlock", T(rwlock_wrlock)(&lock));
    posix_note("wrlock again", T(rwlock_wrlock)(&lock));
    posix_note("rdlock", T(rwlock_rdlock)(&lock));
    posix_note("trywrlock", T(rwlock_trywrlock)(&lock));
    posix_note("tryrdlock", T(rwlock_tryrdlock)(&lock));
    posix_note("timedwrlock, past", T(rwlock_timedwrlock)(&lock, &past));
    posix_note("timedrdlock, past", T(rwlock_timedrdlock)(&lock, &past));
    NOTE_ELSEWHERE("tryrdlock by another", rwlock_try_read, &lock);
    NOTE_ELSEWHERE("trywrlock by another", rwlock_try_write, &lock);
    NOTE_ELSEWHERE("timedrdlock by another, past", rwlock_read_until, &lock);
    NOTE_ELSEWHERE("timedwrlock by another, past", rwlock_write_until, &lock);
    NOTE_ELSEWHERE("timedrdlock by another, too many ns", rwlock_read_never, &lock);
    posix_note("unlock", T(rwlock_unlock)(&lock));
    NOTE_ELSEWHERE("trywrlock by another, free", rwlock_try_write, &lock);
    posix_note("destroy", T(rwlock_destroy)(&lock));
}

/* ---- Barriers ------------------------------------------------------------------------------------------------- */

typedef struct meeting {
    T(barrier_t) barrier;
    int rounds;
    atomic_int serial, others, wrong;
} meeting_t;

static void *meet(void *arg)
{
    meeting_t *m = arg;
    for (int i = 0; i < m->rounds; i++) {
        int rc = T(barrier_wait)(&m->barrier);
        atomic_fetch_add(rc == C(BARRIER_SERIAL_THREAD) ? &m->serial : rc == 0 ? &m->others : &m->wrong, 1);
    }
    return NULL;
}

static void barrier(void)
{
    meeting_t m = {.rounds = 50};
    T(t) threads[4];
    posix_note("init 0", T(barrier_init)(&m.barrier, NULL, 0));
    posix_note("init", T(barrier_init)(&m.barrier, NULL, 4));
    for (int i = 0; i < 4; i++)
        if (T(create)(&threads[i], NULL, meet, &m))
            abort();
    for (int i = 0; i < 4; i++)
        T(join)(threads[i], NULL);
    posix_note("serial (number)", m.serial);
    posix_note("others (number)", m.others);
    posix_note("wrong (number)", m.wrong);
    posix_note("destroy", T(barrier_destroy)(&m.barrier));
    posix_note("init again", T(barrier_init)(&m.barrier, NULL, 1));
    /* NOLINTNEXTLINE(bugprone-posix-return): the constant is negative */
    posix_note("alone it is the serial one (1)", T(barrier_wait)(&m.barrier) == C(BARRIER_SERIAL_THREAD));
    posix_note("destroy again", T(barrier_destroy)(&m.barrier));
}

#endif

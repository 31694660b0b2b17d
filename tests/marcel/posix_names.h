/* SPDX-License-Identifier: BSD-3-Clause */
/* One text for two libraries: with POSIX_MARCEL the names below are those of marcel.h, else those of the C library.  A case
 * passes the values that it finds to posix_note, under a name that is the same for both libraries (posix.c compares). */
#ifndef MARCEL_POSIX_NAMES_H
#define MARCEL_POSIX_NAMES_H

#include "posix.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef POSIX_MARCEL
#include <marcel.h>
#define T(name) marcel_##name  /* name of a call or type */
#define NP(name) marcel_##name /* calls whose POSIX name would end in _np */
#define C(name) MARCEL_##name  /* name of a constant */
#define TYPED_INITIALIZER(type) MARCEL_##type##_MUTEX_INITIALIZER
#define SEM marcel_sem_t
#define SEM_MAX MARCEL_SEM_VALUE_MAX
#define S(call, ...) marcel_sem_##call(__VA_ARGS__)
#define SLEEP(time) marcel_nanosleep(time, NULL)
#define CASES posix_marcel_cases
#else
#include <pthread.h>
#include <semaphore.h>
#define T(name) pthread_##name
#define NP(name) pthread_##name##_np
#define C(name) PTHREAD_##name
#ifndef PTHREAD_DESTRUCTOR_ITERATIONS
#define PTHREAD_DESTRUCTOR_ITERATIONS _POSIX_THREAD_DESTRUCTOR_ITERATIONS
#endif
#define TYPED_INITIALIZER(type) PTHREAD_##type##_MUTEX_INITIALIZER_NP
#define SEM sem_t
#define SEM_MAX 0x7fffffffu
#define S(call, ...) (sem_##call(__VA_ARGS__) ? errno : 0)
#define SLEEP(time) (nanosleep(time, NULL) ? errno : 0)
#define CASES posix_pthread_cases
#endif

/* Times on either clock. */
static const struct timespec past = {1, 0}, before_all = {-5, 0}, too_many_ns = {1, 1000000000}, negative_ns = {1, -1};

static inline struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Run the function in a thread of its own; return the function's result. */
static inline void *elsewhere(void *(*run)(void *), void *arg)
{
    T(t) thread;
    void *result = NULL;
    if (T(create)(&thread, NULL, run, arg) || T(join)(thread, &result))
        abort();
    return result;
}

/* Note the error number that a call returns in a thread of its own. */
#define NOTE_ELSEWHERE(what, run, arg) posix_note(what, (long)(intptr_t)elsewhere(run, arg))

#endif

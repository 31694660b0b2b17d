/* SPDX-License-Identifier: BSD-3-Clause */
#include "mutator.h"

#include "base/foreign.h"
#include "fuzz.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PAUSE 3 /* iterations of an empty loop between two changes */

static struct place {
    _Atomic(volatile uint16_t *) at; /* NULL: this place is free */
    atomic_uint values;              /* low half: original value; high half: the other value */
} places[MUTATED_MAX];
/* State of the thread.  AWAKE: the thread was woken, and has not begun.  mutator_stop waits until the thread rests, which
 * happens only between two passes. */
enum { RESTS, AWAKE, RUNS, SHALL_REST };
static atomic_int state;
static sem_t wake;
static uintptr_t ahead; /* distance from a place to the library's mapping of it */

static void pass(bool other)
{
    for (int i = 0; i < MUTATED_MAX; i++) {
        volatile uint16_t *at = atomic_load_explicit(&places[i].at, memory_order_acquire);
        unsigned values = atomic_load_explicit(&places[i].values, memory_order_relaxed);
        if (at)
            *at = (uint16_t)(other ? values >> 16 : values);
    }
    for (volatile int i = 0; i < PAUSE; i++)
        ;
}

static void *mutate(void *arg)
{
    (void)arg;
    for (;;) {
        int was = AWAKE;
        while (sem_wait(&wake))
            ;
        if (!atomic_compare_exchange_strong(&state, &was, RUNS))
            continue; /* the thread was stopped before it began */
        do {
            pass(true);
            pass(false);
        } while (atomic_load(&state) == RUNS);
        atomic_store(&state, RESTS);
    }
    return NULL;
}

static void start(void)
{
    static bool is_there;
    pthread_t thread;
    if (!is_there)
        FUZZ_CHECK(!sem_init(&wake, 0, 0) && !pthread_create(&thread, NULL, mutate, NULL) && !pthread_detach(thread));
    is_there = true;
    if (atomic_load(&state) != RESTS)
        return;
    atomic_store(&state, AWAKE);
    sem_post(&wake);
}

void mutator_set(int place, volatile void *at, uint16_t other)
{
    volatile uint16_t *word = at;
    atomic_store(&places[place].at, NULL);
    if (!at)
        return;
    atomic_store(&places[place].values, *word | (unsigned)other << 16);
    atomic_store_explicit(&places[place].at, word, memory_order_release); /* pairs with the load in pass */
    start();
}

void mutator_mapped(const void *here, const void *there)
{
    ahead = (uintptr_t)there - (uintptr_t)here;
}

void mutator_stop(void)
{
    int awake = AWAKE, runs = RUNS;
    for (int i = 0; i < MUTATED_MAX; i++)
        atomic_store(&places[i].at, NULL);
    if (atomic_compare_exchange_strong(&state, &awake, RESTS) || !atomic_compare_exchange_strong(&state, &runs, SHALL_REST))
        return;
    while (atomic_load(&state) != RESTS)
        sched_yield();
}

/* Change bytes immediately after a read, a moment that a thread would rarely hit. */
#ifdef MADI_FOREIGN_HOOK
void madi_foreign_was_read(const volatile void *at, size_t len)
{
    uintptr_t from = (uintptr_t)at;
    for (int i = 0; i < MUTATED_MAX; i++) {
        volatile uint16_t *word = atomic_load_explicit(&places[i].at, memory_order_relaxed);
        unsigned values = atomic_load_explicit(&places[i].values, memory_order_relaxed);
        uintptr_t there = (uintptr_t)word + ahead;
        if (word && there + 2 > from && there < from + len)
            *word = (uint16_t)(*word == (uint16_t)values ? values >> 16 : values);
    }
}
#endif

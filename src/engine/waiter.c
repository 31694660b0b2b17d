/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/waiter.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/leader.h"
#include "engine/park.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* waiters of one list that are skipped because they are awake; awake waiters will check for the event soon anyway */
#define AWAKE_ENOUGH 1000

MADI_THREAD_LOCAL bool madi_woke_other;

void marceli_waiter_init(marceli_waiter_t *w)
{
    *w = (marceli_waiter_t){.ult = madi_ult_self()};
}

/* ---- Sleep and wake ------------------------------------------------------------------------------------------- */

static bool waiter_fall_asleep(marceli_waiter_t *w)
{
    uint32_t running = MARCELI_RUNNING;
    return atomic_compare_exchange_strong_explicit(&w->word, &running, MARCELI_ASLEEP, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

/* Wake a user-level thread, and count it out of `blocked`: no thread has to poll for it any more.  Called by the thread
 * that has changed the waiter's word from ASLEEP. */
static void ult_count_out_and_wake(madi_ult_t *ult)
{
    atomic_fetch_sub_explicit(&madi_server.blocked, 1, memory_order_relaxed);
    madi_ult_wake(ult);
}

/* Post-switch function, which runs on the stack of the next thread: from now on the switched thread can be woken. */
static void ult_asleep(void *arg)
{
    marceli_waiter_t *w = arg;
    madi_ult_t *ult = w->ult;
    if (!waiter_fall_asleep(w))
        ult_count_out_and_wake(ult);
}

/* Sleep of a plain pthread. */
static void pthread_park(marceli_waiter_t *w, int64_t deadline)
{
    int64_t began;
    if (!waiter_fall_asleep(w))
        return;
    began = madi_sleep_begins();
    while (atomic_load_explicit(&w->word, memory_order_relaxed) == MARCELI_ASLEEP &&
           madi_futex_wait(&w->word, MARCELI_ASLEEP, deadline) != ETIMEDOUT)
        ;
    madi_sleep_ends(began);
}

void madi_park(marceli_waiter_t *w, int64_t deadline)
{
    uint32_t word;
    if (w->ult)
        madi_suspend_until(w->ult, ult_asleep, w, deadline);
    else
        pthread_park(w, deadline);
    word = atomic_exchange_explicit(&w->word, MARCELI_RUNNING, memory_order_seq_cst); /* set before the thread checks */
    if (!w->ult)
        return;
    madi_suspend_end(w->ult, word != MARCELI_ASLEEP);
    if (MADI_UNLIKELY(word == MARCELI_ASLEEP)) /* the deadline has passed */
        atomic_fetch_sub_explicit(&madi_server.blocked, 1, memory_order_relaxed);
}

static void waiter_wake_futex(marceli_waiter_t *w)
{
    madi_futex_wake(&w->word);
    atomic_fetch_add_explicit(&madi_server.wakes, 1, memory_order_relaxed);
}

void marceli_waiter_wake(marceli_waiter_t *w)
{
    madi_ult_t *ult = w->ult; /* read before the wake-up: a woken thread may find its event and free the waiter */
    switch (atomic_exchange_explicit(&w->word, MARCELI_WOKEN, memory_order_seq_cst)) {
    case MARCELI_ASLEEP:
        madi_woke_other |= !ult || ult->worker != madi_worker_self();
        if (ult)
            ult_count_out_and_wake(ult);
        else
            waiter_wake_futex(w);
        break;
    case MARCELI_LEADS_ASLEEP: marceli_leader_wake(); break;
    default: break;
    }
}

void marceli_waiter_occupied(marceli_waiter_t *w)
{
    atomic_exchange_explicit(&w->word, MARCELI_WOKEN, memory_order_seq_cst); /* set before the thread checks once more */
}

/* ---- Lists ---------------------------------------------------------------------------------------------------- */

void marceli_waiters_add(marceli_waiters_t *list, marceli_waiter_t *w)
{
    w->list = list;
    w->next = NULL;
    w->prev = list->last;
    *(w->prev ? &w->prev->next : &list->first) = w;
    list->last = w;
}

void marceli_waiters_del(marceli_waiter_t *w)
{
    *(w->prev ? &w->prev->next : &w->list->first) = w->next;
    *(w->next ? &w->next->prev : &w->list->last) = w->prev;
    w->list = NULL;
}

bool marceli_waiters_wake_one(marceli_waiters_t *list)
{
    marceli_waiter_t *w = list->first;
    int awake = 0;
    if (w)
        /* a thread that was woken before checks for events after it sets its word to RUNNING */
        atomic_thread_fence(memory_order_seq_cst);
    for (; w && marceli_waiter_is_woken(w); w = w->next)
        if (++awake == AWAKE_ENOUGH)
            return true;
    if (w)
        marceli_waiter_wake(w);
    return w != NULL;
}

void marceli_waiters_wake_all(marceli_waiters_t *list)
{
    for (marceli_waiter_t *w = list->first; w; w = w->next)
        marceli_waiter_wake(w);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain pthreads as parties: each has a record, made when first needed, and waits on a futex in it. */
#include "marcel/plain_thread.h"
#include "base/clock.h"
#include "marcel/cancel.h"
#include "marcel/key.h"
#include "marcel/marcel.h"
#include "marcel/sched.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_key_t key;
static int key_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void plain_end(void *arg)
{
    madi_party_t *party = arg;
    if (party->keys) {
        pthread_setspecific(key, party); /* its destructors may call marcel_self */
        madi_keys_end(party);
        pthread_setspecific(key, NULL);
    }
    madi_cancel_forget(party);
    madi_record_put(NULL, party->thread);
    free(party);
}

static void plain_key_make(void)
{
    key_error = pthread_key_create(&key, plain_end);
}

/* Set each field separately: a stale hint (deque.h) may still lead a worker to this record, whose state it reads. */
static void plain_record_init(struct marcel_thread *thread, madi_party_t *party)
{
    thread->run = NULL;
    thread->value = party;
    atomic_store_explicit(&thread->joiner, MADI_JOINER_DETACHED, memory_order_relaxed);
    atomic_store_explicit(&thread->ult, NULL, memory_order_relaxed);
    atomic_store_explicit(&thread->cancel, 0, memory_order_relaxed);
    atomic_store_explicit(&thread->state, MADI_TAKEN, memory_order_relaxed);
}

static MADI_COLD madi_party_t *plain_self(void)
{
    madi_party_t *party;
    pthread_once(&once, plain_key_make);
    if (key_error)
        return NULL;
    party = pthread_getspecific(key);
    if (party)
        return party;
    party = calloc(1, sizeof *party);
    if (!party)
        return NULL;
    party->plain = true;
    party->thread = madi_record_get(NULL);
    if (!party->thread || pthread_setspecific(key, party)) {
        if (party->thread)
            madi_record_put(NULL, party->thread);
        free(party);
        return NULL;
    }
    plain_record_init(party->thread, party);
    return party;
}

madi_party_t *madi_party_self(void)
{
    madi_ult_t *self = madi_ult_self();
    return self ? &self->party : plain_self();
}

/* ---- Sleep and wake -------------------------------------------------------------------------------------------- */

int madi_futex_wait(atomic_uint *word, unsigned value, int64_t deadline)
{
    struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline == MADI_NEVER ? NULL : &until, NULL,
                FUTEX_BITSET_MATCH_ANY) &&
        errno == ETIMEDOUT)
        return ETIMEDOUT;
    return 0;
}

void madi_futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void sleep_until_woken(madi_party_t *party)
{
    while (!atomic_load_explicit(&party->woken, memory_order_acquire)) /* pairs with the release of the waking thread */
        madi_futex_wait(&party->woken, 0, MADI_NEVER);
}

int madi_plain_thread_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline, unsigned kind)
{
    int rc = 0;
    bool over = false;
    atomic_store_explicit(&party->woken, 0, memory_order_relaxed);
    party->queue = queue;
    atomic_store_explicit(&party->wait, kind, memory_order_release); /* pairs with madi_claim */
    if (kind == MADI_WAIT_OPEN && !queue)
        over = madi_cancel_missed(party);
    else if (kind == MADI_WAIT_OPEN && madi_cancel_missed_here(party))
        rc = ECANCELED;
    if (queue)
        madi_unlock(&queue->lock);
    return rc ? rc : over ? madi_wait_end(party) : madi_plain_thread_sleep_until(party, deadline);
}

int madi_plain_thread_sleep_until(madi_party_t *party, int64_t deadline)
{
    while (!atomic_load_explicit(&party->woken, memory_order_acquire)) {
        if (madi_futex_wait(&party->woken, 0, deadline) != ETIMEDOUT)
            continue;
        if (!madi_claim(party, MADI_WAIT_EXPIRED))
            sleep_until_woken(party); /* another thread was faster, and is about to wake the party */
        break;
    }
    return madi_wait_end(party);
}

void madi_plain_thread_wake(madi_party_t *party)
{
    /* The party may be freed as soon as it sees this value; the futex call then wakes no thread. */
    atomic_store_explicit(&party->woken, 1, memory_order_release);
    madi_futex_wake(&party->woken);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/key.h"
#include "marcel/cancel.h"
#include "marcel/marcel.h"
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>
#include <stdlib.h>

#define PER_BLOCK 16
#define BLOCKS (MARCEL_KEYS_MAX / PER_BLOCK)

typedef struct value {
    unsigned long use; /* number of the key's use in which the value was set */
    void *value;
} value_t;

struct madi_keys {
    value_t *block[BLOCKS];
};

/* A key is in use while its number of uses is odd.  So a value of an earlier use is not taken for one of the current use. */
static struct {
    atomic_ulong use;
    void (*_Atomic destructor)(void *);
} keys[MARCEL_KEYS_MAX];

int marcel_key_create(marcel_key_t *key, void (*destructor)(void *))
{
    for (unsigned i = 0; i < MARCEL_KEYS_MAX; i++) {
        unsigned long use = atomic_load_explicit(&keys[i].use, memory_order_relaxed);
        if (!(use & 1) && atomic_compare_exchange_strong_explicit(&keys[i].use, &use, use + 1, memory_order_acq_rel,
                                                                  memory_order_relaxed)) {
            atomic_store_explicit(&keys[i].destructor, destructor, memory_order_release);
            *key = i;
            return 0;
        }
    }
    return EAGAIN;
}

static bool key_in_use(marcel_key_t key, unsigned long *use)
{
    if (key >= MARCEL_KEYS_MAX)
        return false;
    *use = atomic_load_explicit(&keys[key].use, memory_order_acquire);
    return *use & 1;
}

int marcel_key_delete(marcel_key_t key)
{
    unsigned long use;
    if (!key_in_use(key, &use))
        return EINVAL;
    atomic_store_explicit(&keys[key].destructor, NULL, memory_order_relaxed);
    return atomic_compare_exchange_strong_explicit(&keys[key].use, &use, use + 1, memory_order_acq_rel, memory_order_relaxed)
               ? 0
               : EINVAL;
}

static value_t *key_value(madi_party_t *party, marcel_key_t key, bool make)
{
    struct madi_keys *all = party->keys;
    if (!all) {
        all = make ? calloc(1, sizeof *all) : NULL;
        if (!all)
            return NULL;
        party->keys = all;
    }
    value_t **block = &all->block[key / PER_BLOCK];
    if (!*block && make)
        *block = calloc(PER_BLOCK, sizeof **block);
    return *block ? *block + key % PER_BLOCK : NULL;
}

int marcel_setspecific(marcel_key_t key, const void *value)
{
    madi_party_t *party = madi_party_self();
    unsigned long use;
    value_t *at;
    if (!key_in_use(key, &use))
        return EINVAL;
    at = party ? key_value(party, key, true) : NULL;
    if (!at)
        return ENOMEM;
    at->use = use;
    at->value = (void *)(uintptr_t)value;
    return 0;
}

void *marcel_getspecific(marcel_key_t key)
{
    madi_party_t *party = madi_party_self();
    unsigned long use;
    value_t *at;
    if (!party || !party->keys || !key_in_use(key, &use))
        return NULL;
    at = key_value(party, key, false);
    return at && at->use == use ? at->value : NULL;
}

/* Run one round of destructors.  Return true if one was called, which may have set values again. */
static bool keys_destroy_round(madi_party_t *party)
{
    bool called = false;
    for (unsigned key = 0; key < MARCEL_KEYS_MAX; key++) {
        value_t *at = key_value(party, key, false);
        unsigned long use;
        if (!at || !at->value || !key_in_use(key, &use) || at->use != use)
            continue;
        void (*destructor)(void *) = atomic_load_explicit(&keys[key].destructor, memory_order_acquire);
        void *value = at->value;
        at->value = NULL;
        if (destructor) {
            destructor(value);
            called = true;
        }
    }
    return called;
}

void madi_keys_end(madi_party_t *party)
{
    atomic_fetch_or_explicit(&party->thread->cancel, MADI_CANCEL_ENDS, memory_order_relaxed);
    for (int i = 0; i < MARCEL_DESTRUCTOR_ITERATIONS && keys_destroy_round(party); i++)
        ;
    for (int i = 0; i < BLOCKS; i++)
        free(party->keys->block[i]);
    free(party->keys);
    party->keys = NULL;
}

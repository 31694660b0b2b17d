/* SPDX-License-Identifier: BSD-3-Clause */
/* Inboxes, which are read by polling.  Inboxes change under the session's lock, while other threads read them without that
 * lock. */
#include "drivers/shm/shm.h"

#include <stdlib.h>

static shm_cell_t never; /* cell whose head is 0, a value that a poll never expects */

static void inbox_set(shm_inbox_t *inbox, shm_cell_t *next, shm_link_t *link)
{
    atomic_store_explicit(&inbox->number, 1, memory_order_relaxed);
    /* this store pairs with shm_pure_poll, which may read the mapping from now on */
    atomic_store_explicit(&inbox->next, next, memory_order_release);
    inbox->link = link;
}

/* Append one more inbox to the array. */
static shm_inbox_t *inbox_new(shm_adapter_t *a)
{
    int n = atomic_load_explicit(&a->n_inboxes, memory_order_relaxed);
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed), *inbox = NULL;
    if (n == a->cap_inboxes) {
        int cap = n ? n * 2 : 8;
        shm_inbox_t **p = calloc((size_t)cap, sizeof *p);
        void **old = realloc(a->old_arrays, (size_t)(a->n_old + 1) * sizeof *old);
        if (old)
            a->old_arrays = old;
        if (!p || !old) {
            free(p);
            return NULL;
        }
        if (n)
            memcpy(p, inboxes, (size_t)n * sizeof *p);
        old[a->n_old++] = p;
        a->cap_inboxes = cap;
        atomic_store_explicit(&a->inboxes, p, memory_order_release); /* pairs with shm_pure_poll */
        inboxes = p;
    }
    if (posix_memalign((void **)&inbox, MADI_LINE, sizeof *inbox))
        return NULL;
    memset(inbox, 0, sizeof *inbox);
    inbox_set(inbox, &never, NULL);
    inboxes[n] = inbox;
    atomic_store_explicit(&a->n_inboxes, n + 1, memory_order_release); /* pairs with shm_pure_poll */
    return inbox;
}

bool shm_inbox_open(shm_link_t *l)
{
    shm_adapter_t *a = (shm_adapter_t *)l->base.adapter;
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed), *inbox = NULL;
    for (int i = 0; i < atomic_load_explicit(&a->n_inboxes, memory_order_relaxed) && !inbox; i++)
        if (!inboxes[i]->link)
            inbox = inboxes[i];
    if (!inbox && !(inbox = inbox_new(a)))
        return false;
    inbox_set(inbox, l->in->cells, l);
    if (!atomic_load_explicit(&a->hot, memory_order_relaxed))
        atomic_store_explicit(&a->hot, inbox, memory_order_relaxed);
    l->inbox = inbox;
    return true;
}

void shm_inbox_close(shm_link_t *l)
{
    if (l->inbox)
        inbox_set(l->inbox, &never, NULL);
    l->inbox = NULL;
}

void shm_inboxes_free(shm_adapter_t *a)
{
    shm_inbox_t **inboxes = atomic_load_explicit(&a->inboxes, memory_order_relaxed);
    for (int i = 0; i < atomic_load_explicit(&a->n_inboxes, memory_order_relaxed); i++)
        free(inboxes[i]);
    for (int i = 0; i < a->n_old; i++)
        free(a->old_arrays[i]);
    free(a->old_arrays);
}

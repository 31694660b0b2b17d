/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: slots, the registered memory into which messages arrive.  They belong to the adapter, and are posted to its shared
 * receive queue.
 *
 *   posted --(message)--> used --(verbs_slot_spend)--> spent --(verbs_slots_post)--> posted
 *                           \--(lent; verbs_slot_put)--> returned --> free
 *
 * When a slot is lent, a free slot becomes spent in its place.  So the number of posted and spent slots stays the same:
 * VERBS_WINDOW for each link, and VERBS_REPOST slots that may be spent without being posted. */
#include "drivers/verbs/verbs.h"

#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_MAX 256 /* maximum number of chunks of an adapter: 134 MB */

static bool chunk_make(verbs_adapter_t *a, char *reason)
{
    int n = 0;
    for (verbs_chunk_t *c = a->chunks; c; c = c->next)
        n++;
    verbs_chunk_t *chunk = n < CHUNKS_MAX ? aligned_alloc(MADI_LINE, sizeof *chunk) : NULL;
    if (!chunk) {
        snprintf(reason, MADI_REASON_MAX, "no memory for %d slots of %.40s", VERBS_CHUNK, a->base.adapter.name);
        return false;
    }
    chunk->mr = verbs_memory_register(a, chunk->slots, sizeof chunk->slots, IBV_ACCESS_LOCAL_WRITE);
    if (!chunk->mr) {
        snprintf(reason, MADI_REASON_MAX,
                 "%zu bytes cannot be registered with %.40s: %s; raise the limit of locked memory "
                 "(ulimit -l)",
                 sizeof chunk->slots, a->base.adapter.name, strerror(errno));
        free(chunk);
        return false;
    }
    chunk->next = a->chunks;
    a->chunks = chunk;
    for (int i = 0; i < VERBS_CHUNK; i++) {
        chunk->slots[i].lkey = chunk->mr->lkey;
        chunk->slots[i].next = a->free;
        a->free = &chunk->slots[i];
    }
    return true;
}

/* Collect the slots whose loans have ended. */
static void loans_collect(verbs_adapter_t *a)
{
    verbs_slot_t *next;
    if (!atomic_load_explicit(&a->returned, memory_order_relaxed))
        return;
    /* pairs with verbs_slot_put */
    for (verbs_slot_t *s = atomic_exchange_explicit(&a->returned, NULL, memory_order_acquire); s; s = next) {
        next = s->next;
        s->next = a->free;
        a->free = s;
    }
}

/* Return a free slot; NULL with the reason. */
static verbs_slot_t *slot_take(verbs_adapter_t *a, char *reason)
{
    if (!a->free)
        loans_collect(a);
    if (!a->free && !chunk_make(a, reason))
        return NULL;
    verbs_slot_t *s = a->free;
    a->free = s->next;
    return s;
}

void verbs_slot_spend(verbs_adapter_t *a, verbs_slot_t *slot)
{
    if (a->n_spent + a->n_posted >= a->n_wanted) { /* links have ended */
        verbs_slot_keep(a, slot);
        return;
    }
    slot->next = a->spent;
    a->spent = slot;
    if (++a->n_spent >= VERBS_REPOST)
        verbs_slots_post(a);
}

verbs_slot_t *verbs_slot_spare(verbs_adapter_t *a)
{
    char reason[MADI_REASON_MAX];
    return slot_take(a, reason);
}

void verbs_slot_keep(verbs_adapter_t *a, verbs_slot_t *slot)
{
    slot->next = a->free;
    a->free = slot;
}

bool verbs_slots_want(verbs_adapter_t *a, int more, char *reason)
{
    if (a->n_wanted + more > a->srq_max) {
        snprintf(reason, MADI_REASON_MAX, "the receive queue of %.40s has %d entries, which others use",
                 a->base.adapter.name, a->srq_max);
        return false;
    }
    a->n_wanted += more;
    while (a->n_spent + a->n_posted < a->n_wanted) {
        verbs_slot_t *s = slot_take(a, reason);
        if (!s) {
            a->n_wanted -= more;
            return false;
        }
        verbs_slot_spend(a, s);
    }
    verbs_slots_post(a);
    return true;
}

void verbs_slots_post(verbs_adapter_t *a)
{
    struct ibv_recv_wr wr[VERBS_REPOST], *bad = NULL;
    struct ibv_sge sge[VERBS_REPOST];
    while (a->spent && !a->base.broken) {
        int n = 0, rc;
        for (; a->spent && n < VERBS_REPOST; n++) {
            verbs_slot_t *s = a->spent;
            a->spent = s->next;
            sge[n] = (struct ibv_sge){(uintptr_t)s->data, VERBS_MESSAGE_MAX, s->lkey};
            wr[n] = (struct ibv_recv_wr){.wr_id = (uintptr_t)s, .sg_list = &sge[n], .num_sge = 1};
            if (n)
                wr[n - 1].next = &wr[n];
        }
        rc = ibv_post_srq_recv(a->srq, wr, &bad);
        a->n_spent -= n;
        a->n_posted += n;
        if (rc)
            verbs_fail(a, "no receive can be posted", strerror(rc));
    }
}

void verbs_slots_fini(verbs_adapter_t *a)
{
    for (verbs_chunk_t *c; (c = a->chunks);) {
        a->chunks = c->next;
        if (verbs_released(a, a->lib->dereg_mr(c->mr), "memory of messages"))
            free(c);
    }
    a->free = a->spent = NULL;
    a->n_spent = a->n_posted = a->n_wanted = 0;
}

void verbs_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    verbs_adapter_t *a = (verbs_adapter_t *)link->adapter;
    char *body = madi_foreign_pass_on(loan);
    char *data = body - sizeof(madi_wire_hdr_t) - sizeof(verbs_head_t);
    verbs_slot_t *s = (verbs_slot_t *)(void *)(data - offsetof(verbs_slot_t, data));
    s->next = atomic_load_explicit(&a->returned, memory_order_relaxed);
    /* release: the last read of the body; pairs with loans_collect, which takes the whole list */
    while (!atomic_compare_exchange_weak_explicit(&a->returned, &s->next, s, memory_order_release, memory_order_relaxed))
        continue;
}

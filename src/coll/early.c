/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: messages that arrive before their steps.  Each group has several lists of them, by the number of the
 * operation, so that few messages are looked at.  A list has the order of arrival.  Messages of groups that do not exist here
 * are in one list, until the group is created. */
#include "coll/coll.h"

#include <stdlib.h>
#include <string.h>

static madi_coll_early_list_t *list_of(struct mad_group *group, uint32_t seq)
{
    return &group->early[seq % MADI_COLL_EARLY_LISTS];
}

/* Change the number of the group's messages. */
static void early_number_add(struct mad_group *group, int n)
{
    size_t old = atomic_load_explicit(&group->n_early, memory_order_relaxed);
    atomic_store_explicit(&group->n_early, old + (size_t)n, memory_order_relaxed);
}

static void early_append(struct mad_group *group, madi_coll_early_t *early)
{
    madi_coll_early_list_t *list = list_of(group, early->envelope.seq);
    early->next = NULL;
    *list->end = early;
    list->end = &early->next;
    early_number_add(group, 1);
}

/* Unlink the message to which *p points. */
static madi_coll_early_t *early_unlink(struct mad_group *group, madi_coll_early_list_t *list, madi_coll_early_t **p)
{
    madi_coll_early_t *early = *p;
    *p = early->next;
    if (list->end == &early->next)
        list->end = p;
    early_number_add(group, -1);
    return early;
}

void madi_coll_early_init(struct mad_group *group)
{
    for (int i = 0; i < MADI_COLL_EARLY_LISTS; i++)
        group->early[i].end = &group->early[i].first;
}

/* Count an early message.  Return false if there are too many, or if out of memory. */
static bool early_count(struct madi_coll_session *coll, mad_peer_t peer, size_t len)
{
    madi_coll_peer_t *entry = madi_coll_peer(coll, peer);
    if (!entry || entry->n_early >= MADI_COLL_EARLY_MAX || coll->n_early >= 4 * (size_t)MADI_COLL_EARLY_MAX ||
        entry->early_bytes + len > MADI_COLL_EARLY_BYTES || coll->early_bytes + len > 4 * MADI_COLL_EARLY_BYTES)
        return false;
    entry->n_early++;
    entry->early_bytes += len;
    coll->n_early++;
    coll->early_bytes += len;
    return true;
}

void madi_coll_early_uncount(struct madi_coll_session *coll, const madi_coll_early_t *early)
{
    madi_coll_peer_t *entry = &coll->peers[early->peer]; /* made by early_count */
    entry->n_early--;
    entry->early_bytes -= early->len;
    coll->n_early--;
    coll->early_bytes -= early->len;
}

bool madi_coll_early_keep(struct madi_coll_session *coll, struct mad_group *group, const madi_coll_early_t *head,
                          const void *bytes)
{
    madi_coll_early_t *early = malloc(sizeof *early + head->len);
    if (!early || !early_count(coll, head->peer, head->len)) {
        free(early);
        return false;
    }
    *early = *head;
    if (head->len)
        memcpy(early->bytes, bytes, head->len);
    if (group) {
        early_append(group, early);
    } else {
        early->next = coll->strange;
        coll->strange = early;
    }
    return true;
}

madi_coll_early_t *madi_coll_early_take(struct mad_group *group, const madi_coll_op_t *op, const madi_coll_step_t *step)
{
    madi_coll_early_list_t *list = list_of(group, op->envelope.seq);
    for (madi_coll_early_t **p = &list->first; *p; p = &(*p)->next) {
        madi_coll_early_t *early = *p;
        if (early->envelope.seq != op->envelope.seq || early->envelope.tag != step->tag ||
            early->peer != group->peers[step->member])
            continue;
        early_unlink(group, list, p);
        madi_coll_early_uncount(group->coll, early);
        return early;
    }
    return NULL;
}

const madi_coll_early_t *madi_coll_early_differs(const madi_coll_op_t *op)
{
    const madi_coll_early_t *early = list_of(op->group, op->envelope.seq)->first;
    while (early && (early->envelope.seq != op->envelope.seq || early->envelope.kind == MADI_COLL_ABORT ||
                     madi_coll_alike(&op->envelope, &early->envelope)))
        early = early->next;
    return early;
}

madi_coll_early_t *madi_coll_early_cut(struct mad_group *group, uint32_t seq)
{
    madi_coll_early_t *cut = NULL;
    for (int i = 0; i < MADI_COLL_EARLY_LISTS; i++) {
        madi_coll_early_list_t *list = &group->early[i];
        madi_coll_early_t **p = &list->first;
        while (*p) {
            madi_coll_early_t *early = *p;
            if ((int32_t)(early->envelope.seq - seq) < 0) {
                p = &early->next;
                continue;
            }
            early_unlink(group, list, p);
            madi_coll_early_uncount(group->coll, early);
            early->next = cut;
            cut = early;
        }
    }
    return cut;
}

madi_coll_early_t *madi_coll_early_cut_all(struct mad_group *group)
{
    madi_coll_early_t *cut = NULL;
    for (int i = 0; i < MADI_COLL_EARLY_LISTS; i++) {
        madi_coll_early_list_t *list = &group->early[i];
        while (list->first) {
            madi_coll_early_t *early = early_unlink(group, list, &list->first);
            madi_coll_early_uncount(group->coll, early);
            early->next = cut;
            cut = early;
        }
    }
    return cut;
}

void madi_coll_early_free_all(madi_coll_early_t *list)
{
    for (madi_coll_early_t *next; list; list = next) {
        next = list->next;
        madi_coll_early_free(list);
    }
}

void madi_coll_early_free(madi_coll_early_t *early)
{
    if (early->message)
        mad_message_drop(early->message);
    free(early);
}

void madi_coll_early_adopt(struct mad_group *group)
{
    for (madi_coll_early_t **p = &group->coll->strange; *p;) {
        madi_coll_early_t *early = *p;
        if (early->envelope.group != group->number) {
            p = &early->next;
            continue;
        }
        *p = early->next;
        if (early->envelope.kind == MADI_COLL_ABORT && !group->failed) {
            group->failed = MAD_ERR_PEER;
            group->told = true;
        }
        early_append(group, early); /* in any order: messages are found by their envelopes */
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: groups. */
#include "coll/coll.h"
#include "core/link/usable.h"

#include <stdlib.h>

void madi_coll_op_free(madi_coll_op_t *op)
{
    free(op->steps);
    free(op->scratch);
    free(op);
}

void madi_coll_op_keep(madi_coll_op_t *op)
{
    struct mad_group *group = op->group;
    if (MADI_LIKELY(!group->kept)) {
        group->kept = op;
        return;
    }
    madi_lock(&group->coll->lock);
    op->next = group->spare;
    group->spare = op;
    madi_unlock(&group->coll->lock);
}

/* Enter a group into the list.  Return false if its number is in use. */
static bool group_enter(struct mad_group *group)
{
    struct madi_coll_session *coll = group->coll;
    bool used = false;
    madi_lock(&coll->lock);
    for (const struct mad_group *g = coll->groups; g; g = g->next)
        used |= g->number == group->number;
    if (!used) {
        group->next = coll->groups;
        coll->groups = group;
        madi_coll_early_adopt(group);
    }
    madi_unlock(&coll->lock);
    return !used;
}

/* Free a group that is in no list. */
static void group_free(struct mad_group *group)
{
    if (group->kept)
        madi_coll_op_free(group->kept);
    for (madi_coll_op_t *op; (op = group->spare);) {
        group->spare = op->next;
        madi_coll_op_free(op);
    }
    madi_coll_places_free(group);
    free(group);
}

mad_status_t mad_group_new(mad_session_t *session, const mad_peer_t *members, int n, int index, uint64_t number,
                           mad_group_t **group)
{
    struct madi_coll_session *coll;
    struct mad_group *g;
    mad_status_t status;
    if (!members || n <= 0 || index < 0 || index >= n)
        return MAD_ERR_INVAL;
    status = madi_coll_start(session, &coll);
    if (status)
        return status;
    g = calloc(1, sizeof *g + (size_t)n * sizeof *g->peers);
    if (!g)
        return MAD_ERR_NOMEM;
    g->coll = coll;
    g->number = number;
    g->n = n;
    g->index = index;
    g->ops_tail = &g->ops;
    madi_coll_early_init(g);
    for (int i = 0; i < n; i++)
        g->peers[i] = members[i];
    status = madi_coll_places_find(g);
    if (!status && !group_enter(g))
        status = MAD_ERR_INVAL;
    if (status)
        group_free(g);
    else
        *group = g;
    return status;
}

mad_status_t mad_group_free(mad_group_t *group)
{
    struct madi_coll_session *coll;
    madi_coll_early_t *cut = NULL;
    struct mad_group **p;
    bool busy;
    if (!group)
        return MAD_OK;
    coll = group->coll;
    if (madi_session_usable(coll->session))
        return MAD_ERR_FORKED;
    madi_lock(&coll->lock);
    busy = group->ops != NULL;
    if (!busy) {
        for (p = &coll->groups; *p != group; p = &(*p)->next)
            ;
        *p = group->next;
        cut = madi_coll_early_cut_all(group);
    }
    madi_unlock(&coll->lock);
    madi_coll_early_free_all(cut);
    if (!busy)
        group_free(group);
    return busy ? MAD_ERR_BUSY : MAD_OK;
}

void mad_group_idle_set(mad_group_t *group, void (*idle)(void *arg), void *arg)
{
    group->idle = idle;
    group->idle_arg = arg;
}

int mad_group_size(const mad_group_t *group)
{
    return group->n;
}

int mad_group_index(const mad_group_t *group)
{
    return group->index;
}

void madi_coll_session_free(mad_session_t *session)
{
    struct madi_coll_session *coll = session->coll;
    session->coll = NULL;
    session->coll_free = NULL;
    marceli_progress_count_serving(-(int)coll->handled);
    for (struct mad_group *group; (group = coll->groups);) {
        coll->groups = group->next;
        for (madi_coll_op_t *op; (op = group->ops);) { /* not complete: what it waited for never came */
            group->ops = op->next;
            madi_coll_op_free(op);
        }
        madi_coll_early_free_all(madi_coll_early_cut_all(group));
        group_free(group);
    }
    for (madi_coll_early_t *early; (early = coll->strange);) {
        coll->strange = early->next;
        madi_coll_early_free(early);
    }
    for (madi_coll_partial_t *partial; (partial = coll->partial);) {
        coll->partial = partial->next;
        mad_message_drop(partial->message);
        free(partial);
    }
    free(coll->peers);
    free(coll);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: members that are lost.
 *
 * An operation that waits long (op->watches) has posted a receive on the channel `watch` for each peer that it waits for.  No
 * message comes there: the receive ends when the peer is lost, or when no connection can be made. */
#include "coll/coll.h"

#include <stdlib.h>
#include <string.h>

#define WATCHED_AT_ONCE 16
#define DRAIN_ROUNDS 64 /* polls for messages that arrived before the loss */

/* A posted receive on the channel `watch`. */
typedef struct watch_record {
    struct madi_coll_session *coll;
    mad_peer_t peer;
} watch_record_t;

madi_coll_peer_t *madi_coll_peer(struct madi_coll_session *coll, mad_peer_t peer)
{
    uint32_t n = coll->n_peers ? coll->n_peers : 16;
    madi_coll_peer_t *peers;
    if ((uint32_t)peer < coll->n_peers)
        return &coll->peers[peer];
    while (n <= (uint32_t)peer)
        n *= 2;
    peers = realloc(coll->peers, n * sizeof *peers);
    if (!peers)
        return NULL;
    memset(peers + coll->n_peers, 0, (n - coll->n_peers) * sizeof *peers);
    coll->peers = peers;
    coll->n_peers = n;
    return &peers[peer];
}

/* Fail the operations that wait for a message of a lost peer. */
static void coll_peer_lost(struct madi_coll_session *coll, mad_peer_t peer, mad_status_t status)
{
    madi_coll_peer_t *entry;
    for (int i = 0; i < DRAIN_ROUNDS && !atomic_load_explicit(&coll->session->closing, memory_order_relaxed); i++)
        if (!madi_coll_poll(coll))
            break;
    madi_lock(&coll->lock);
    entry = madi_coll_peer(coll, peer);
    if (entry)
        entry->lost = status;
    coll->any_lost = true;
    for (struct mad_group *group = coll->groups; group; group = group->next)
        for (madi_coll_op_t *op = group->ops; op; op = op->next)
            for (uint32_t at = op->posted; at; at = op->steps[at - 1].next)
                if (group->peers[op->steps[at - 1].member] == peer) {
                    madi_coll_op_fail(op, status);
                    break;
                }
    madi_unlock(&coll->lock);
    madi_coll_run_failed(coll);
}

static void watch_ended(void *arg, mad_status_t status)
{
    watch_record_t record = *(watch_record_t *)arg;
    free(arg);
    coll_peer_lost(record.coll, record.peer, status ? status : MAD_ERR_PROTOCOL);
}

static void watch_begin(struct madi_coll_session *coll, mad_peer_t peer)
{
    static char sink[1];
    mad_block_t block = {sink, sizeof sink, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS};
    watch_record_t *record = malloc(sizeof *record);
    mad_request_t *request;
    mad_status_t status = record ? mad_message_receive(coll->watch, peer, &block, 1, &request) : MAD_ERR_NOMEM;
    if (status) {
        free(record);
        coll_peer_lost(coll, peer, status);
        return;
    }
    *record = (watch_record_t){coll, peer};
    mad_request_detach(request, watch_ended, record);
}

/* Collect peers that the operation waits for and that are not watched.  Return their number.  Under coll->lock. */
static int unwatched_collect(madi_coll_op_t *op, mad_peer_t peers[WATCHED_AT_ONCE])
{
    struct madi_coll_session *coll = op->group->coll;
    int n = 0;
    for (uint32_t at = op->posted; at && n < WATCHED_AT_ONCE; at = op->steps[at - 1].next) {
        mad_peer_t peer = op->group->peers[op->steps[at - 1].member];
        madi_coll_peer_t *entry = madi_coll_peer(coll, peer);
        if (entry && !entry->watched) {
            entry->watched = true;
            peers[n++] = peer;
        }
    }
    return n;
}

void madi_coll_watch(struct madi_coll_session *coll, uint64_t group_number, uint32_t seq)
{
    mad_peer_t peers[WATCHED_AT_ONCE];
    const struct mad_group *group;
    madi_coll_op_t *op;
    int n;
    do {
        madi_lock(&coll->lock);
        group = madi_coll_group_find(coll, group_number);
        op = group ? madi_coll_op_find(group, seq) : NULL;
        n = op ? unwatched_collect(op, peers) : 0;
        if (op)
            op->watches = true;
        madi_unlock(&coll->lock);
        for (int i = 0; i < n; i++)
            watch_begin(coll, peers[i]);
    } while (n == WATCHED_AT_ONCE);
}

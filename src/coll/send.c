/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: messages that leave. */
#include "coll/coll.h"
#include "core/object/request.h"

#include <string.h>

/* bytes: longest message that is one block if it cannot leave at once; the block then arrives with its message */
#define STAGED (MAD_PREFIX_MAX - sizeof(madi_coll_envelope_t))
/* bytes: longest message that the library copies if it cannot leave at once, so that the sender gets ahead.  The operations by
 * which it may get ahead are limited (MADI_COLL_AHEAD) */
#define COPIED 8192

/* Send an envelope and its bytes as one block.  They are copied. */
static mad_status_t block_send_copied(mad_channel_t *channel, mad_peer_t peer, const madi_coll_envelope_t *envelope,
                                      const void *bytes, size_t len, mad_request_t **request)
{
    unsigned char stage[sizeof *envelope + STAGED];
    mad_block_t block = {stage, sizeof *envelope + len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    memcpy(stage, envelope, sizeof *envelope);
    if (len)
        memcpy(stage + sizeof *envelope, bytes, len);
    return mad_message_send(channel, peer, &block, 1, request);
}

mad_status_t madi_coll_message_send(madi_coll_op_t *op, const madi_coll_step_t *step, mad_request_t **request)
{
    mad_channel_t *channel = op->group->coll->channel;
    mad_peer_t peer = op->group->peers[step->member];
    madi_coll_envelope_t envelope = op->envelope;
    struct iovec pieces[2] = {{&envelope, sizeof envelope}, {step->from, (size_t)step->len}};
    mad_block_t blocks[2] = {{&envelope, sizeof envelope, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {step->from, (size_t)step->len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    bool is_copied = step->len <= COPIED;
    mad_status_t status;

    *request = NULL;
    envelope.tag = step->tag;
    if (MADI_LIKELY(step->len <= MADI_COLL_EAGER)) {
        status = mad_message_send_now(channel, peer, pieces, step->len ? 2 : 1);
        if (MADI_LIKELY(status != MAD_ERR_AGAIN))
            return status;
    }
    if (step->len <= STAGED) {
        status = block_send_copied(channel, peer, &envelope, step->from, (size_t)step->len, request);
    } else {
        envelope.form |= MADI_COLL_FOLLOWS;
        if (is_copied)
            blocks[1].send_mode = MAD_SEND_SAFER;
        status = mad_message_send(channel, peer, blocks, 2, request);
    }
    if (status || madi_request_is_instant(*request)) {
        *request = NULL;
    } else if (is_copied) {
        mad_request_detach(*request, NULL, NULL);
        *request = NULL;
    }
    return status;
}

void madi_coll_abort_send(struct mad_group *group, uint32_t seq, mad_status_t status)
{
    madi_coll_envelope_t envelope = {.group = group->number, .seq = seq, .kind = MADI_COLL_ABORT, .check = (uint32_t)status};
    for (int i = 0; i < group->n; i++) {
        mad_request_t *request;
        if (i != group->index && !block_send_copied(group->coll->channel, group->peers[i], &envelope, NULL, 0, &request))
            mad_request_detach(request, NULL, NULL);
    }
}

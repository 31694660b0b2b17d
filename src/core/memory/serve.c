/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: the handler of the channel, for operations of peers on blocks of this process, and for answers.
 *
 * Short operations are done under memory->lock, so mad_memory_unregister finds each of them either done or not begun.  Long
 * operations are counted in block->users until their messages have ended.
 *
 * A peer may announce a long put and not send its bytes, or not take the bytes of a get.  When the block's registration
 * ends, the peer has a while for the rest (served_limit); then its connection ends, which severs the peer from the memory.
 * There is no milder way: a driver may be in the middle of a packet whose bytes it places in the block. */
#include "base/knob.h"
#include "core/conn/request.h"
#include "core/connect/gate.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/link/notify.h"
#include "core/memory/memory.h"
#include "core/object/channel.h"
#include "core/object/gate.h"
#include "core/object/rx.h"

#include <stdlib.h>
#include <string.h>

#define SLOWEST_NS 1000 /* ns for each byte of a long operation whose block is being unregistered: 1 MB/s */

/* ---- Answers that leave ----------------------------------------------------------------------------------------- */

static void peer_served_add(madi_memory_peer_t *peer, int n)
{
    struct madi_memory_session *memory = peer->session->memory;
    madi_lock(&memory->lock);
    peer->served += n;
    madi_memory_peer_check(peer);
    madi_unlock(&memory->lock);
}

static void answer_left(void *arg, mad_status_t status)
{
    (void)status;
    peer_served_add(arg, -1);
}

/* End the connection to a peer. */
static void peer_hang_up(madi_memory_peer_t *peer, mad_status_t status, const char *text)
{
    mad_session_t *session = peer->session;
    mad_channel_t *channel = atomic_load_explicit(&session->memory->channel, memory_order_acquire);
    madi_gate_t *gate;
    madi_lock(&session->lock);
    gate = madi_peer_gate_find(session, peer->peer, channel->lane);
    if (gate)
        madi_gate_down(gate, status, text);
    madi_unlock(&session->lock);
}

/* Send an answer, with the bytes of a short get.  If there is no memory for the answer, end the connection, so that the peer
 * does not wait for ever. */
static void answer_send(madi_memory_peer_t *peer, uint32_t number, mad_status_t status, uint64_t before,
                        const unsigned char *bytes, uint64_t len)
{
    mad_session_t *session = peer->session;
    mad_channel_t *channel = atomic_load_explicit(&session->memory->channel, memory_order_acquire);
    madi_memory_envelope_t e = {
        .kind = MADI_MEMORY_ANSWER, .status = (uint16_t)status, .number = number, .len = len, .operand = {before}};
    mad_block_t blocks[2] = {{&e, sizeof e, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {(void *)bytes, (size_t)len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS}};
    mad_request_t *request;
    mad_status_t sent = mad_message_send(channel, peer->peer, blocks, len ? 2 : 1, &request);
    if (sent == MAD_ERR_NOMEM)
        peer_hang_up(peer, MAD_ERR_NOMEM, "no memory for the answer to an operation on memory");
    if (sent || madi_request_is_instant(request))
        return;
    peer_served_add(peer, 1);
    mad_request_detach(request, answer_left, peer);
}

static void answer_status(madi_memory_peer_t *peer, const madi_memory_envelope_t *e, mad_status_t status)
{
    answer_send(peer, e->number, status, 0, NULL, 0);
}

/* ---- Long operations -------------------------------------------------------------------------------------------- */

/* Make the record of a long operation, which is counted in block->users.  If out of memory, release the block and return
 * NULL. */
static madi_memory_served_t *served_new(madi_memory_peer_t *peer, struct mad_memory *block, const madi_memory_envelope_t *e)
{
    struct madi_memory_session *memory = peer->session->memory;
    madi_memory_served_t *served = malloc(sizeof *served);
    if (!served) {
        madi_memory_release(block);
        return NULL;
    }
    *served = (madi_memory_served_t){.peer = peer, .block = block, .envelope = *e};
    madi_lock(&memory->lock);
    peer->served++;
    served->next = block->served;
    if (served->next)
        served->next->prev = served;
    block->served = served;
    madi_unlock(&memory->lock);
    return served;
}

/* Release the block, and free the record.  The peer counts the operation until peer_served_add. */
static void served_free(madi_memory_served_t *served)
{
    struct mad_memory *block = served->block;
    struct madi_memory_session *memory = block->session->memory;
    madi_lock(&memory->lock);
    *(served->prev ? &served->prev->next : &block->served) = served->next;
    if (served->next)
        served->next->prev = served->prev;
    madi_unlock(&memory->lock);
    madi_memory_release(block);
    free(served);
}

static void served_end(madi_memory_served_t *served)
{
    madi_memory_peer_t *peer = served->peer;
    served_free(served);
    peer_served_add(peer, -1);
}

/* Return the time in ns at which an operation on a closed block takes too long. */
static int64_t served_limit(const madi_memory_served_t *served)
{
    return served->block->closed + madi_knob_int(MADI_KNOB_PEER_TIMEOUT) + (int64_t)served->envelope.len * SLOWEST_NS;
}

/* Find an operation that takes too long and was not cut, and count a use of its peer.  Return the peer, or NULL with the
 * time of the next look in *next (ns; INT64_MAX: none is needed).  Under memory->lock. */
static madi_memory_peer_t *served_cut_one(struct mad_memory *block, int64_t now, int64_t *next)
{
    *next = INT64_MAX;
    for (madi_memory_served_t *served = block->served; served; served = served->next) {
        int64_t limit = served_limit(served);
        if (served->cut)
            continue;
        if (limit <= now) {
            served->cut = true;
            served->peer->uses++;
            return served->peer;
        }
        *next = limit < *next ? limit : *next;
    }
    return NULL;
}

int64_t madi_memory_served_cut(struct mad_memory *block, int64_t now)
{
    struct madi_memory_session *memory = block->session->memory;
    madi_memory_peer_t *peer;
    int64_t next;
    for (;;) {
        madi_lock(&memory->lock);
        peer = served_cut_one(block, now, &next);
        madi_unlock(&memory->lock);
        if (!peer)
            return next;
        peer_hang_up(peer, MAD_ERR_PROTOCOL,
                     "memory is unregistered, and the peer's operation on it does not end (MAD_PEER_TIMEOUT)");
        madi_memory_peer_end(peer);
    }
}

static void put_arrived(void *arg, mad_status_t status)
{
    madi_memory_served_t *served = arg;
    madi_memory_peer_t *peer = served->peer;
    madi_memory_envelope_t e = served->envelope;
    bool notifies = !status && e.kind == MADI_MEMORY_PUT_NOTIFY;
    if (notifies)
        madi_memory_notify(served->block);
    served_free(served);
    if (notifies)
        madi_watchers_wake(peer->session);
    answer_status(peer, &e, status);
    peer_served_add(peer, -1); /* last, since it may free the entry */
}

/* Receive the bytes of a long put, which is counted in block->users.  The completion of the request ends the message. */
static mad_handled_t put_long(madi_memory_peer_t *peer, struct mad_memory *block, const madi_memory_envelope_t *e,
                              mad_message_t *message)
{
    madi_memory_served_t *served = served_new(peer, block, e);
    mad_request_t *request;
    mad_status_t status;
    if (!served) {
        answer_status(peer, e, MAD_ERR_NOMEM);
        return MAD_CONSUMED;
    }
    mad_unpack(message, block->base + e->offset, (size_t)e->len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking_request(message, &request);
    if (status)
        put_arrived(served, status);
    else
        mad_request_detach(request, put_arrived, served);
    return MAD_PARKED;
}

static void get_left(void *arg, mad_status_t status)
{
    (void)status;
    served_end(arg);
}

/* Send the bytes of a long get, which is counted in block->users. */
static void get_long(madi_memory_peer_t *peer, struct mad_memory *block, const madi_memory_envelope_t *e)
{
    mad_channel_t *channel = atomic_load_explicit(&peer->session->memory->channel, memory_order_acquire);
    madi_memory_envelope_t answer = {.kind = MADI_MEMORY_ANSWER, .number = e->number, .len = e->len};
    mad_block_t blocks[2] = {{&answer, sizeof answer, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {block->base + e->offset, (size_t)e->len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    madi_memory_served_t *served = served_new(peer, block, e);
    mad_request_t *request;
    mad_status_t status = served ? mad_message_send(channel, peer->peer, blocks, 2, &request) : MAD_ERR_NOMEM;
    if (!status) {
        mad_request_detach(request, get_left, served);
        return;
    }
    if (served)
        served_end(served);
    answer_status(peer, e, status);
}

/* ---- Operations of peers ---------------------------------------------------------------------------------------- */

/* End the connection to a peer that has broken the rules of this channel. */
static mad_handled_t peer_refuse(mad_message_t *message, mad_status_t status, const char *text)
{
    madi_gate_t *gate = ((madi_rx_msg_t *)message)->conn->gate;
    madi_lock(&message->session->lock);
    madi_gate_down(gate, status == MAD_ERR_NOMEM ? status : MAD_ERR_PROTOCOL, text);
    madi_unlock(&message->session->lock);
    return MAD_CONSUMED;
}

/* Carry out a short operation under memory->lock; count a long one in the block's users, and set *block.  bytes: the data of
 * a short put, or room for the data of a short get.  MAD_ERR_BUSY if the peer has more operations served than it may. */
static mad_status_t operation_do(const madi_memory_peer_t *peer, const madi_memory_envelope_t *e, unsigned char *bytes,
                                 uint64_t *before, struct mad_memory **block)
{
    struct madi_memory_session *memory = peer->session->memory;
    mad_status_t status;
    void *at;
    madi_lock(&memory->lock);
    status = peer->served < MADI_MEMORY_SERVED ? madi_memory_find(memory, e, block) : MAD_ERR_BUSY;
    at = status || !(*block)->base ? NULL : (*block)->base + e->offset;
    if (status) {
        *block = NULL;
    } else if (e->kind == MADI_MEMORY_FETCH_ADD || e->kind == MADI_MEMORY_COMPARE_SWAP) {
        *before = madi_memory_change(e, at);
    } else if (e->len > MADI_MEMORY_SHORT) {
        (*block)->users++;
    } else if (e->kind == MADI_MEMORY_GET) {
        madi_memory_load(bytes, at, e->len);
    } else {
        madi_memory_store(at, bytes, e->len);
        if (e->kind == MADI_MEMORY_PUT_NOTIFY)
            madi_memory_notify(*block);
    }
    madi_unlock(&memory->lock);
    return status;
}

static mad_handled_t operation_arrived(madi_memory_peer_t *peer, const madi_memory_envelope_t *e, mad_message_t *message)
{
    unsigned char bytes[MADI_MEMORY_SHORT];
    bool puts = e->kind == MADI_MEMORY_PUT || e->kind == MADI_MEMORY_PUT_NOTIFY, is_long = e->len > MADI_MEMORY_SHORT;
    struct mad_memory *block = NULL;
    uint64_t before = 0;
    mad_status_t status = MAD_OK;

    if (puts && e->len && !is_long)
        status = mad_unpack_try(message, bytes, (size_t)e->len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    if (status)
        return peer_refuse(message, status, "a put without its bytes");
    status = operation_do(peer, e, bytes, &before, &block);
    if (status == MAD_ERR_BUSY)
        return peer_refuse(message, status, "more operations on memory than one process may begin");
    if (!status && is_long && puts)
        return put_long(peer, block, e, message);
    if (!status && is_long && e->kind == MADI_MEMORY_GET) {
        get_long(peer, block, e);
        return MAD_CONSUMED;
    }
    if (!status && e->kind == MADI_MEMORY_PUT_NOTIFY)
        madi_watchers_wake(peer->session);
    answer_send(peer, e->number, status, before, bytes, !status && e->kind == MADI_MEMORY_GET ? e->len : 0);
    return MAD_CONSUMED;
}

/* ---- Answers that arrive ---------------------------------------------------------------------------------------- */

static void get_arrived(void *arg, mad_status_t status)
{
    madi_memory_op_answered(arg, status);
}

/* Receive the bytes that answer a get. */
static mad_handled_t get_answered(madi_memory_op_t *op, mad_message_t *message)
{
    size_t len = (size_t)op->envelope.len;
    mad_request_t *request;
    mad_status_t status;
    if (len <= MADI_MEMORY_SHORT) {
        status = mad_unpack_try(message, op->buf, len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        madi_memory_op_answered(op, status == MAD_ERR_AGAIN ? MAD_ERR_PROTOCOL : status);
        return MAD_CONSUMED;
    }
    mad_unpack(message, op->buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking_request(message, &request);
    if (status)
        madi_memory_op_answered(op, status);
    else
        mad_request_detach(request, get_arrived, op);
    return MAD_PARKED;
}

/* Return the status in an answer, if an owner may answer it.  Another status could mean something else to the program: after
 * MAD_ERR_AGAIN it would expect that the request is still there. */
static mad_status_t answer_status_of(const madi_memory_envelope_t *e)
{
    switch (e->status) {
    case MAD_OK:
    case MAD_ERR_KEY:
    case MAD_ERR_RANGE:
    case MAD_ERR_RIGHTS:
    case MAD_ERR_NOMEM: return (mad_status_t)e->status;
    default: return MAD_ERR_PROTOCOL;
    }
}

static mad_handled_t answer_arrived(madi_memory_peer_t *peer, const madi_memory_envelope_t *e, mad_message_t *message)
{
    madi_memory_op_t *op = madi_memory_op_take(peer, e->number);
    mad_status_t status = answer_status_of(e);
    if (!op)
        return MAD_CONSUMED;
    if (!status && op->envelope.kind == MADI_MEMORY_GET && op->envelope.len) {
        if (e->len == op->envelope.len)
            return get_answered(op, message);
        status = MAD_ERR_PROTOCOL;
    }
    if (!status && op->before)
        *op->before = e->operand[0];
    madi_memory_op_answered(op, status);
    return MAD_CONSUMED;
}

mad_handled_t madi_memory_arrived(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    mad_session_t *session = message->session;
    madi_memory_envelope_t e;
    madi_memory_peer_t *peer;
    mad_handled_t handled;
    mad_status_t status = mad_unpack_try(message, &e, sizeof e, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    (void)channel, (void)arg;

    if (status || !e.kind || e.kind >= MADI_MEMORY_KINDS)
        return peer_refuse(message, status, "a message about memory that is none");
    status = madi_memory_peer(session, mad_message_peer(message), &peer);
    if (status)
        return peer_refuse(message, status, "no entry for the peer of an operation on memory");
    handled = e.kind == MADI_MEMORY_ANSWER ? answer_arrived(peer, &e, message) : operation_arrived(peer, &e, message);
    madi_memory_peer_end(peer);
    return handled;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: operations on blocks of peers, from the call to the answer.
 *
 * Each peer has a list of its operations that have not completed, in the order in which they began:
 *
 *   first -> sent - sent - flush - sent - unsent - flush - unsent <- last
 *            \_______ in_flight ________/    \__ peer->unsent
 *
 * An operation leaves the list when its message has left and its answer has arrived, in any order; a flush when it is the
 * first. */
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/conn/request.h"
#include "core/connect/gate.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/memory/memory.h"
#include "core/wire/handle.h"

#include <stdlib.h>
#include <string.h>

/* ---- The list of a peer; under memory->lock --------------------------------------------------------------------- */

static struct madi_memory_session *memory_of(const madi_memory_peer_t *peer)
{
    return peer->session->memory;
}

static void op_append(madi_memory_op_t *op)
{
    madi_memory_peer_t *peer = op->peer;
    op->prev = peer->last;
    *(op->prev ? &op->prev->next : &peer->first) = op;
    peer->last = op;
}

static void op_unlink(madi_memory_op_t *op, madi_memory_todo_t *todo)
{
    madi_memory_peer_t *peer = op->peer;
    *(op->prev ? &op->prev->next : &peer->first) = op->next;
    *(op->next ? &op->next->prev : &peer->last) = op->prev;
    op->todo = todo->done;
    todo->done = op;
}

/* Move the next unsent operation to the list of operations to be sent. */
static void unsent_take(madi_memory_peer_t *peer, madi_memory_todo_t *todo)
{
    madi_memory_op_t *op = peer->unsent, *next = op->next;
    while (next && next->flush)
        next = next->next;
    peer->unsent = next;
    op->sent = true;
    peer->in_flight++;
    op->todo = NULL;
    *(todo->send ? todo->send_tail : &todo->send) = op;
    todo->send_tail = &op->todo;
}

/* Take a finished operation out of the list, then the flushes that it has delayed; then send operations that wait for
 * room. */
static void op_finish(madi_memory_op_t *op, madi_memory_todo_t *todo)
{
    madi_memory_peer_t *peer = op->peer;
    peer->in_flight -= op->sent;
    if (op->status && !op->awaited && !peer->failed)
        peer->failed = op->status;
    op_unlink(op, todo);
    while (peer->first && peer->first->flush) {
        peer->first->status = peer->failed;
        peer->failed = MAD_OK;
        op_unlink(peer->first, todo);
    }
    while (peer->unsent && peer->in_flight < MADI_MEMORY_WINDOW)
        unsent_take(peer, todo);
    madi_memory_peer_check(peer);
}

/* Delete the operation's handle, so that later answers find no operation. */
static void op_forget_handle(madi_memory_op_t *op)
{
    madi_handle_del(memory_of(op->peer)->ops, op->handle);
    op->handle = 0;
}

/* Record that one of the awaited events has come: the message has left, or the answer has arrived.  A message that has failed
 * gets no answer. */
static void op_event(madi_memory_op_t *op, mad_status_t status, madi_memory_todo_t *todo)
{
    if (status && !op->status)
        op->status = status;
    if (status && op->handle) {
        op_forget_handle(op);
        op->waits--;
    }
    if (!--op->waits)
        op_finish(op, todo);
}

/* ---- Messages; no lock ------------------------------------------------------------------------------------------ */

static void op_left(void *arg, mad_status_t status);

static bool sends_bytes(const madi_memory_envelope_t *e)
{
    return (e->kind == MADI_MEMORY_PUT || e->kind == MADI_MEMORY_PUT_NOTIFY) && e->len;
}

/* Send an operation's message.  Return true, with *status, if the message has left or failed; else op_left is called. */
static bool op_send(madi_memory_op_t *op, mad_status_t *status)
{
    madi_memory_envelope_t e = op->envelope;
    madi_memory_peer_t *peer = op->peer;
    mad_channel_t *channel = atomic_load_explicit(&memory_of(peer)->channel, memory_order_acquire);
    bool is_short = e.len <= MADI_MEMORY_SHORT;
    mad_block_t blocks[2] = {{&e, sizeof e, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {op->buf, (size_t)e.len, is_short ? MAD_SEND_SAFER : MAD_SEND_CHEAPER,
                              is_short ? MAD_RECEIVE_EXPRESS : MAD_RECEIVE_CHEAPER}};
    mad_request_t *request;

    *status = mad_message_send(channel, peer->peer, blocks, sends_bytes(&e) ? 2 : 1, &request);
    if (*status || madi_request_is_instant(request))
        return true;
    mad_request_detach(request, op_left, op);
    return false;
}

static void op_complete(madi_memory_op_t *op)
{
    mad_request_t *request = op->request;
    mad_status_t status = op->status;
    free(op);
    madi_request_complete(request, status);
}

static void todo_run(struct madi_memory_session *memory, madi_memory_todo_t *todo)
{
    madi_memory_op_t *op;
    mad_status_t status;
    while (todo->done || todo->send) {
        while ((op = todo->done)) {
            todo->done = op->todo;
            op_complete(op);
        }
        if (!(op = todo->send))
            break;
        todo->send = op->todo;
        if (!op_send(op, &status))
            continue;
        madi_lock(&memory->lock);
        op_event(op, status, todo);
        madi_unlock(&memory->lock);
    }
}

static void op_event_run(madi_memory_op_t *op, mad_status_t status)
{
    struct madi_memory_session *memory = memory_of(op->peer);
    madi_memory_todo_t todo = {0};
    madi_lock(&memory->lock);
    op_event(op, status, &todo);
    madi_unlock(&memory->lock);
    todo_run(memory, &todo);
}

static void op_left(void *arg, mad_status_t status)
{
    op_event_run(arg, status);
}

void madi_memory_op_answered(madi_memory_op_t *op, mad_status_t status)
{
    op_event_run(op, status);
}

madi_memory_op_t *madi_memory_op_take(const madi_memory_peer_t *peer, uint32_t number)
{
    struct madi_memory_session *memory = memory_of(peer);
    madi_memory_op_t *op;
    madi_lock(&memory->lock);
    op = madi_handle_get(memory->ops, number);
    if (op && op->peer == peer && op->sent)
        op_forget_handle(op);
    else
        op = NULL;
    madi_unlock(&memory->lock);
    return op;
}

/* ---- Lost peers ----------------------------------------------------------------------------------------------- */

/* Find an operation that waits for an answer, or for room to be sent. */
static madi_memory_op_t *op_unanswered(const madi_memory_peer_t *peer)
{
    madi_memory_op_t *op = peer->first;
    while (op && (op->flush || !op->handle))
        op = op->next;
    return op;
}

void madi_memory_fail(madi_memory_peer_t *peer, mad_status_t status)
{
    struct madi_memory_session *memory = memory_of(peer);
    madi_memory_todo_t todo = {0};
    madi_memory_op_t *op;
    madi_lock(&memory->lock);
    while ((op = op_unanswered(peer)) && op->sent) {
        op_forget_handle(op);
        op->status = op->status ? op->status : status;
        if (!--op->waits)
            op_finish(op, &todo); /* operations that now get room fail when they are sent */
    }
    madi_unlock(&memory->lock);
    todo_run(memory, &todo);
}

/* ---- Calls of the program ------------------------------------------------------------------------------------- */

static madi_memory_op_t *op_new(mad_session_t *session)
{
    madi_memory_op_t *op = calloc(1, sizeof *op);
    mad_request_t *request = op ? madi_request_new(session, false) : NULL;
    if (!request) {
        free(op);
        return NULL;
    }
    op->request = request;
    return op;
}

static void op_free(madi_memory_op_t *op)
{
    madi_request_free(op->request);
    free(op);
}

/* Find a peer: set *entry to its entry, and *to to its connection.  The caller ends the use of the entry. */
static mad_status_t peer_of(mad_session_t *session, mad_peer_t number, madi_memory_peer_t **entry, madi_conn_t **to)
{
    mad_channel_t *channel;
    madi_conn_t *conn;
    mad_status_t status = madi_memory_start(session, &channel);
    if (status)
        return status;
    conn = number >= 0 ? madi_conn_peek(channel, number) : NULL;
    if (!conn && !(conn = madi_conn_get(channel, number, &status)))
        return status;
    *to = conn;
    return madi_memory_peer(session, conn->peer, entry);
}

/* Enter an operation into its peer's list, and send it if there is room.  uid: the identity in the key.  Ends the caller's
 * use of the peer's entry. */
static mad_status_t op_begin(madi_memory_op_t *op, const uint8_t *uid, mad_request_t **request)
{
    struct madi_memory_session *memory = memory_of(op->peer);
    madi_memory_peer_t *peer = op->peer;
    mad_request_t *r = op->request;
    madi_memory_todo_t todo = {0};
    mad_status_t status = MAD_OK;

    madi_lock(&memory->lock);
    peer->uses--;
    if (peer->uid_known && memcmp(uid, peer->uid, sizeof peer->uid) != 0)
        status = MAD_ERR_INVAL;
    else if (!(op->handle = madi_handle_add(memory->ops, op)))
        status = MAD_ERR_NOMEM;
    if (status) {
        madi_memory_peer_check(peer);
        madi_unlock(&memory->lock);
        op_free(op);
        return status;
    }
    op->envelope.number = op->handle;
    op->waits = 2;
    op_append(op);
    if (!peer->unsent)
        peer->unsent = op;
    if (peer->in_flight < MADI_MEMORY_WINDOW)
        unsent_take(peer, &todo);
    madi_unlock(&memory->lock);
    todo_run(memory, &todo);
    if (!request)
        return mad_request_wait(&r, MAD_FOREVER);
    *request = r;
    return MAD_OK;
}

/* Have the next flush of a peer report a failure.  number: the peer's number. */
static void failure_record(struct madi_memory_session *memory, mad_peer_t number, mad_status_t status)
{
    madi_memory_peer_t *peer;
    madi_lock(&memory->lock);
    peer = madi_memory_peer_find(memory, number);
    if (peer && !peer->failed)
        peer->failed = status;
    madi_unlock(&memory->lock);
}

/* Finish a call whose operation is done already: return the status as the call's result, or in a completed request. */
static mad_status_t operation_done(mad_session_t *session, mad_peer_t number, mad_status_t status, mad_request_t **request)
{
    if (!request)
        return status;
    if (status)
        failure_record(session->memory, number, status);
    if (!status && madi_request_may_be_instant(session)) {
        *request = madi_request_instant(session);
        return MAD_OK;
    }
    *request = madi_request_new(session, false);
    if (!*request)
        return status ? status : MAD_ERR_NOMEM;
    madi_request_complete(*request, status);
    return MAD_OK;
}

/* Make and begin an operation.  envelope: kind, offset, len and operands are set. */
static mad_status_t operation_start(mad_session_t *session, mad_peer_t number, const mad_memory_key_t *key,
                                    const madi_memory_envelope_t *envelope, void *buf, uint64_t *before,
                                    mad_request_t **request)
{
    madi_memory_peer_t *peer;
    madi_conn_t *conn;
    madi_memory_key_t k;
    madi_memory_op_t *op;
    mad_status_t status;

    if (!key || (!buf && envelope->len))
        return MAD_ERR_INVAL;
    memcpy(&k, key, sizeof k);
    if (k.version != MADI_MEMORY_KEY_VERSION)
        return MAD_ERR_INVAL;
    status = madi_session_usable(session);
    if (!status && madi_memory_mapped(session, number, &k, envelope, buf, before, &status))
        return operation_done(session, number, status, request);
    if (!status)
        status = peer_of(session, number, &peer, &conn);
    if (status)
        return status;
    if (madi_memory_mapped_first(peer, conn, &k, envelope, buf, before, &status)) {
        number = peer->peer;
        madi_memory_peer_end(peer);
        return operation_done(session, number, status, request);
    }
    op = op_new(session);
    if (!op) {
        madi_memory_peer_end(peer);
        return MAD_ERR_NOMEM;
    }
    op->peer = peer;
    op->envelope = *envelope;
    op->envelope.block = k.block;
    memcpy(op->envelope.secret, k.secret, sizeof k.secret);
    op->awaited = !request;
    op->buf = buf;
    op->before = before;
    return op_begin(op, k.uid, request);
}

mad_status_t mad_memory_put(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                            const void *buf, size_t len, mad_request_t **request)
{
    madi_memory_envelope_t e = {.kind = MADI_MEMORY_PUT, .offset = offset, .len = len};
    return operation_start(session, peer, key, &e, (void *)buf, NULL, request);
}

mad_status_t mad_memory_put_notify(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                                   const void *buf, size_t len, mad_request_t **request)
{
    madi_memory_envelope_t e = {.kind = MADI_MEMORY_PUT_NOTIFY, .offset = offset, .len = len};
    return operation_start(session, peer, key, &e, (void *)buf, NULL, request);
}

mad_status_t mad_memory_get(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset, void *buf,
                            size_t len, mad_request_t **request)
{
    madi_memory_envelope_t e = {.kind = MADI_MEMORY_GET, .offset = offset, .len = len};
    return operation_start(session, peer, key, &e, buf, NULL, request);
}

mad_status_t mad_memory_fetch_add(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                                  uint64_t number, uint64_t *before, mad_request_t **request)
{
    madi_memory_envelope_t e = {.kind = MADI_MEMORY_FETCH_ADD, .offset = offset, .operand = {number}};
    return operation_start(session, peer, key, &e, NULL, before, request);
}

mad_status_t mad_memory_compare_swap(mad_session_t *session, mad_peer_t peer, const mad_memory_key_t *key, uint64_t offset,
                                     uint64_t expected, uint64_t desired, uint64_t *before, mad_request_t **request)
{
    madi_memory_envelope_t e = {.kind = MADI_MEMORY_COMPARE_SWAP, .offset = offset, .operand = {expected, desired}};
    return operation_start(session, peer, key, &e, NULL, before, request);
}

/* Append a flush to its peer's list, and end the caller's use of the peer's entry.  Return false if no operation has to be
 * waited for; op->status is then the flush's status. */
static bool flush_append(madi_memory_op_t *op)
{
    struct madi_memory_session *memory = memory_of(op->peer);
    madi_memory_peer_t *peer = op->peer;
    bool waits;
    madi_lock(&memory->lock);
    peer->uses--;
    waits = peer->first != NULL;
    if (waits) {
        op_append(op);
    } else {
        op->status = peer->failed;
        peer->failed = MAD_OK;
        madi_memory_peer_check(peer);
    }
    madi_unlock(&memory->lock);
    return waits;
}

mad_status_t mad_memory_flush(mad_session_t *session, mad_peer_t number, mad_request_t **request)
{
    madi_memory_peer_t *peer;
    madi_conn_t *conn;
    madi_memory_op_t *op;
    mad_request_t *r;
    mad_status_t status = peer_of(session, number, &peer, &conn);
    if (status)
        return status;
    op = op_new(session);
    if (!op) {
        madi_memory_peer_end(peer);
        return MAD_ERR_NOMEM;
    }
    r = op->request;
    op->peer = peer;
    op->flush = true;
    if (!flush_append(op))
        op_complete(op);
    if (!request)
        return mad_request_wait(&r, MAD_FOREVER);
    *request = r;
    return MAD_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the files of the program's calls share.
 *
 *   pack.c      packing of blocks                 open.c        opening of messages
 *   pack_end.c  end of packing, whole messages    unpack.c      unpacking of blocks
 *   send_now.c  messages that leave at once       unpack_end.c  end of unpacking
 *   request.c   tests, waits, cancels             callbacks.c   the program's handlers and callbacks
 *   post.c      posted receives                   borrow.c      reading of blocks in place
 *   channel.c   channels opened and closed */
#ifndef MADI_API_H
#define MADI_API_H

#include "core/object/rx.h"
#include "core/object/session.h"
#include "core/object/tx.h"

/* pack.c */
/* Return the pieces of a strided block, in allocated memory.  NULL if out of memory; the message has then failed.  For
 * sender and receiver. */
struct iovec *madi_strided(mad_message_t *message, void *base, size_t len, size_t stride, size_t count);
mad_status_t madi_tx_add(madi_tx_t *tx, const void *buf, size_t len, mad_send_mode_t smode, mad_receive_mode_t rmode);
mad_status_t madi_tx_close_run(madi_tx_t *tx); /* make a piece of the bytes staged since the last piece */
void madi_tx_lock(madi_tx_t *tx);              /* take tx_lock if the message was flushed */
void madi_tx_unlock(madi_tx_t *tx);
mad_status_t madi_tx_settle(madi_tx_t *tx); /* at a message's end: copy the values of LATER blocks where a copy is needed */

/* send_now.c */
/* Send a message of small blocks if it can leave at once.  Otherwise do nothing, and return false, also if a block is too
 * long, or has invalid arguments. */
bool madi_blocks_send_now(madi_conn_t *conn, const mad_block_t *blocks, int n);

/* pack_end.c */
void madi_packing_release(madi_conn_t *conn); /* end the packing of a message, so that the next one can be packed; under
                                               * gate->tx_lock */

/* unpack.c */
/* Wait until test(arg) is true, and make progress meanwhile. */
void madi_message_wait(madi_rx_msg_t *msg, bool (*test)(void *arg), void *arg);
void madi_cont_poll(madi_rx_msg_t *msg); /* poll for a limited time, until the block is complete */

/* callbacks.c */
void madi_calls_run(mad_session_t *session); /* run queued callbacks and handlers; called without locks */
/* Run a callback with MAD_OK now, after those that are queued.  Return false if a thread, perhaps this one, already runs
 * callbacks. */
bool madi_call_run(mad_session_t *session, void (*fn)(void *arg, mad_status_t status), void *arg);

/* True if callbacks are queued and no thread runs them; a thread that runs some goes on until the queue is empty. */
static inline bool madi_calls_wait(const mad_session_t *session)
{
    return atomic_load_explicit(&session->has_calls, memory_order_acquire) && /* pairs with the adding thread's store */
           !atomic_load_explicit(&session->api.runs_calls, memory_order_relaxed);
}

/* True if a call may return an instant request.  While callbacks run, further ones are queued by their request's structure:
 * so callbacks do not nest, and a lack of memory is reported before anything is sent. */
static inline bool madi_request_may_be_instant(const mad_session_t *session)
{
    return MADI_LIKELY(!atomic_load_explicit(&((mad_session_t *)session)->api.runs_calls, memory_order_relaxed));
}

#endif

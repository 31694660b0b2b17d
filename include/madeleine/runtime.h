/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls for language runtimes and communication layers: they poll by themselves, send short messages in one call, and read
 * messages in place.  Most programs need only <madeleine.h>, whose conventions hold here too. */
#ifndef MADELEINE_RUNTIME_H
#define MADELEINE_RUNTIME_H

#include <madeleine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sending -------------------------------------------------------------------------------------------------- */

/* Send at once a message of one EXPRESS block, made of n pieces in order.  On MAD_OK the message has left, and the
 * pieces may be changed.  On MAD_ERR_AGAIN nothing is sent: there is no connection yet, earlier messages are queued,
 * credits are missing, or the message is too long for one packet.  Another form can then send it.  The array is not
 * kept.  Any thread; never waits.  Errors: MAD_ERR_AGAIN, MAD_ERR_INVAL (no such peer, n below 0, or a piece without
 * memory). */
mad_status_t mad_message_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n);

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

/* Open a message that has already arrived, from source or from MAD_ANY_SOURCE.  Checks only the networks where a check
 * costs next to nothing.  For polling loops, which also call mad_begin_unpacking_within with 0, or mad_progress, now and
 * then so that all networks are polled.  *message is set only on success; the caller ends it with mad_end_unpacking.  Any
 * thread; never waits.  Errors: MAD_ERR_AGAIN (no message), MAD_ERR_PEER, MAD_ERR_CLOSED, MAD_ERR_INVAL. */
mad_status_t mad_begin_unpacking_poll(mad_channel_t *channel, mad_peer_t source, mad_message_t **message);

/* Return the next block in place, whatever its length and receive mode: *len bytes at *base, valid until the next call
 * for this message.  For runtimes whose messages describe themselves.  The sender may share this memory: a hostile one
 * can change the bytes at any time, but not *len, so copy before checking.  Never waits.  A block that waits for a grant,
 * or that comes in several packets, is received into the library's memory: at most 64 MiB at a time from a peer.
 * Errors: MAD_ERR_AGAIN (the block has not arrived), MAD_ERR_MISMATCH (no further block), MAD_ERR_PEER, MAD_ERR_NOMEM (or
 * such a block is longer than 64 MiB). */
mad_status_t mad_unpack_borrow(mad_message_t *message, const void **base, size_t *len);

/* An opened message with its first block in place, as from mad_unpack_borrow.  If base is NULL, call mad_unpack_borrow for
 * the block.  A short message of one block has already ended: message is NULL, and the block lies inside this structure, so
 * a copy of the structure must set base anew. */
typedef struct mad_arrival {
#ifdef MAD_NO_OLD_NAMES
    mad_message_t *message; /* owned, ended with mad_end_unpacking; NULL if the message has ended */
#else
    union {
        mad_message_t *message;
        mad_message_t *cnx; /* its name in 0.1 */
    };
#endif
    mad_peer_t peer;    /* the sender */
    const void *base;   /* the block, borrowed until the next call for the message; NULL if it is not in place */
    size_t len;         /* its length in bytes */
    uint64_t inside[7]; /* private to the library */
} mad_arrival_t;

/* Open messages that have already arrived on the channel, from any source, in the order in which they would be opened
 * one by one.  Opens at most max, and at most 16.  Return their number, 0 if none.  Polls like mad_begin_unpacking_poll.
 * The caller owns the messages.  Any thread; never waits. */
int mad_channel_poll(mad_channel_t *channel, mad_arrival_t *arrivals, int max);

/* ---- The progress thread -------------------------------------------------------------------------------------- */

/* Enable (1) or disable (0) the progress thread for the whole process from now on, overriding MAD_PROGRESS_THREAD.
 * Meant for runtimes that poll by themselves, or rely on the thread, and must not change an environment that other
 * threads may be reading.  Call it before the first session, or while no operation is pending.  Any thread; never
 * waits. */
void mad_progress_thread_set(int enabled);

/* Hand progress over to the progress thread at once: the program is about to sleep outside the library (poll, a
 * condition variable) until a handler or callback wakes it.  Without this call, a program that has polled with
 * mad_progress or a test is expected to poll again, and the thread takes over only after some milliseconds.  No effect
 * without a progress thread (MAD_PROGRESS_THREAD).  Any thread; never waits. */
void mad_progress_hand_over(void);

#ifdef __cplusplus
}
#endif
#endif

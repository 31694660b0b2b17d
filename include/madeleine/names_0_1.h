/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of 0.1 that have changed.  <madeleine.h> includes this file, so programs written for 0.1 compile unchanged; they
 * also run unchanged, since the library exports the old calls.  A program that defines MAD_NO_OLD_NAMES before it includes
 * <madeleine.h> sees the new names only.  madeleine-legacy(7) has the table. */
#ifndef MADELEINE_NAMES_0_1_H
#define MADELEINE_NAMES_0_1_H

#include <madeleine.h>
#include <madeleine/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mad_arrival; /* declared here, for <madeleine/runtime.h> includes this file */

#define mad_connection mad_message
typedef mad_message_t mad_connection_t;

/* A time-out that only mad_begin_unpacking_timed accepts: the call then acts like mad_begin_unpacking_poll. */
#define MAD_GLANCE (-2)

/* Each call does what the call named in the comment above it does. */

/* mad_message_flush */
mad_status_t mad_flush_packing(mad_message_t *message);
/* mad_message_drop */
void mad_drop_unpacking(mad_message_t *message);
/* mad_unpack_try */
mad_status_t mad_try_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send_mode,
                            mad_receive_mode_t receive_mode);
/* mad_unpack_borrow */
mad_status_t mad_borrow(mad_message_t *message, const void **base, size_t *len);
/* mad_begin_unpacking_within */
mad_status_t mad_begin_unpacking_timed(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                       mad_message_t **message);
/* mad_channel_poll */
int mad_glance(mad_channel_t *channel, struct mad_arrival *arrivals, int max);
/* mad_message_send */
mad_status_t mad_send_blocks(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                             mad_request_t **request);
/* mad_message_send_now */
mad_status_t mad_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n);
/* mad_message_receive */
mad_status_t mad_post_unpacking(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
                                mad_request_t **request);
/* mad_channel_handler_set */
mad_status_t mad_channel_set_handler(mad_channel_t *channel, mad_handler_t handler, void *arg);
/* mad_request_detach */
void mad_request_callback(mad_request_t *request, void (*fn)(void *arg, mad_status_t status), void *arg);
/* mad_progress_thread_set */
void mad_progress_thread(int enabled);
/* mad_progress_hand_over */
void mad_hand_over(void);

#ifdef __cplusplus
}
#endif
#endif

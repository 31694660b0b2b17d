/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls under their names of release 0.1, for programs that were compiled with those names. */
#include <madeleine.h>
#include <madeleine/names_0_1.h>

mad_status_t mad_flush_packing(mad_message_t *message)
{
    return mad_message_flush(message);
}

void mad_drop_unpacking(mad_message_t *message)
{
    mad_message_drop(message);
}

mad_status_t mad_try_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send_mode,
                            mad_receive_mode_t receive_mode)
{
    return mad_unpack_try(message, buf, len, send_mode, receive_mode);
}

mad_status_t mad_borrow(mad_message_t *message, const void **base, size_t *len)
{
    return mad_unpack_borrow(message, base, len);
}

mad_status_t mad_begin_unpacking_timed(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                       mad_message_t **message)
{
    return timeout_ns == MAD_GLANCE ? mad_begin_unpacking_poll(channel, source, message)
                                    : mad_begin_unpacking_within(channel, source, timeout_ns, message);
}

int mad_glance(mad_channel_t *channel, mad_arrival_t *arrivals, int max)
{
    return mad_channel_poll(channel, arrivals, max);
}

mad_status_t mad_send_blocks(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                             mad_request_t **request)
{
    return mad_message_send(channel, peer, blocks, n, request);
}

mad_status_t mad_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n)
{
    return mad_message_send_now(channel, peer, pieces, n);
}

mad_status_t mad_post_unpacking(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
                                mad_request_t **request)
{
    return mad_message_receive(channel, source, blocks, n, request);
}

mad_status_t mad_channel_set_handler(mad_channel_t *channel, mad_handler_t handler, void *arg)
{
    return mad_channel_handler_set(channel, handler, arg);
}

void mad_request_callback(mad_request_t *request, void (*fn)(void *arg, mad_status_t status), void *arg)
{
    mad_request_detach(request, fn, arg);
}

void mad_progress_thread(int enabled)
{
    mad_progress_thread_set(enabled);
}

void mad_hand_over(void)
{
    mad_progress_hand_over();
}

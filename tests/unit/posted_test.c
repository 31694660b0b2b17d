/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/recv/posted.c, posted_pool.c and ready.c: windows of short messages, posted and unexpected. */
#include "unit.h"

#include "core/conn/channel.h"
#include "core/core.h"
#include "core/progress/progress.h"
#include "core/recv/posted.h"
#include "core/recv/short.h"
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define LAST UINT64_C(1000)

static mad_session_t *session;
static mad_channel_t *channel;

static void session_open(void)
{
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "window", &channel), MAD_OK);
}

static void number_send(mad_channel_t *to, uint64_t number)
{
    mad_request_t *request;
    mad_block_t block = {&number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER};
    ck_assert_int_eq(mad_message_send(to, 0, &block, 1, &request), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_OK);
}

static void number_post(uint64_t *number, mad_request_t **request)
{
    mad_block_t block = {number, sizeof *number, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER};
    ck_assert_int_eq(mad_message_receive(channel, 0, &block, 1, request), MAD_OK);
}

static void number_receive(mad_channel_t *from, uint64_t expected)
{
    uint64_t number = 0;
    mad_message_t *message = mad_begin_unpacking(from);
    mad_unpack(message, &number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    ck_assert_int_eq(mad_end_unpacking(message), MAD_OK);
    ck_assert_uint_eq(number, expected);
}

static int rx_structures(void)
{
    int n = 0;
    madi_rx_msg_t *m = session->rx_ring;
    do
        n++;
    while ((m = m->ring) != session->rx_ring);
    return n;
}

/* After the first window, posted receives allocate nothing. */
START_TEST(posted_receives_allocate_once)
{
    uint64_t numbers[WINDOW];
    mad_request_t *requests[WINDOW];
    session_open();
    for (uint64_t window = 0; window < 5; window++) {
        for (int i = 0; i < WINDOW; i++) {
            number_post(&numbers[i], &requests[i]);
            ck_assert(requests[i]->pooled);
        }
        ck_assert_int_eq(session->recv.n_posted_ring, WINDOW);
        for (uint64_t i = 0; i < WINDOW; i++)
            number_send(channel, window + i);
        for (uint64_t i = 0; i < WINDOW; i++) {
            ck_assert_int_eq(mad_request_wait(&requests[i], MAD_FOREVER), MAD_OK);
            ck_assert_uint_eq(numbers[i], window + i);
        }
    }
    mad_exit(session);
}
END_TEST

/* After some windows, unexpected messages allocate nothing. */
START_TEST(unexpected_messages_allocate_once)
{
    mad_channel_t *behind;
    int first = 0;
    session_open();
    ck_assert_int_eq(mad_channel_open(session, "behind", &behind), MAD_OK);
    for (uint64_t window = 0; window < 100; window++) {
        for (uint64_t i = 0; i < WINDOW; i++)
            number_send(channel, window + i);
        number_send(behind, LAST);
        number_receive(behind, LAST);
        for (uint64_t i = 0; i < WINDOW; i++)
            number_receive(channel, window + i);
        if (window < 5)
            first = rx_structures();
        ck_assert_int_eq(rx_structures(), first);
    }
    ck_assert_int_le(first, WINDOW + 10);
    mad_exit(session);
}
END_TEST

/* More receives than the pool has are all served. */
START_TEST(posted_receives_beyond_the_pool_are_served)
{
    enum { MANY = MADI_POSTED_POOLED + 20 };
    static uint64_t numbers[MANY];
    static mad_request_t *requests[MANY];
    session_open();
    for (int i = 0; i < MANY; i++)
        number_post(&numbers[i], &requests[i]);
    ck_assert(!requests[MANY - 1]->pooled);
    for (uint64_t i = 0; i < MANY; i++)
        number_send(channel, i);
    for (uint64_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(mad_request_wait(&requests[i], MAD_FOREVER), MAD_OK);
        ck_assert_uint_eq(numbers[i], i);
    }
    mad_exit(session);
}
END_TEST

static int called;

static void received(void *arg, mad_status_t status)
{
    ck_assert_int_eq(status, MAD_OK);
    ck_assert_uint_eq(*(uint64_t *)arg, (uint64_t)called++);
}

/* A receive that has a callback, or whose owner has waited in vain, completes like any other. */
START_TEST(posted_receive_completes_in_each_state)
{
    uint64_t numbers[4];
    mad_request_t *requests[4];
    session_open();
    for (int i = 0; i < 4; i++)
        number_post(&numbers[i], &requests[i]);
    called = 0;
    for (int i = 0; i < 2; i++)
        mad_request_detach(requests[i], received, &numbers[i]);
    ck_assert_int_eq(mad_request_wait(&requests[2], 1000000), MAD_ERR_TIMEOUT);
    for (uint64_t i = 0; i < 4; i++)
        number_send(channel, i);
    for (int i = 2; i < 4; i++)
        ck_assert_int_eq(mad_request_wait(&requests[i], MAD_FOREVER), MAD_OK);
    while (called < 2)
        mad_progress(session);
    ck_assert_uint_eq(numbers[3], 3);
    mad_exit(session);
}
END_TEST

/* ---- Several packets at once ------------------------------------------------------------------------------------ */

static madi_short_t batch[8];
static int n_batch;
static madi_link_t *batch_link;

static int batch_take(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link)
{
    (void)adapter;
    ck_assert_uint_eq(stride, sizeof *batch);
    ck_assert_int_ge(max, n_batch);
    memcpy(packets, batch, (size_t)n_batch * sizeof *batch);
    *link = batch_link;
    return n_batch;
}

static int batch_poll(madi_adapter_t *adapter, int budget)
{
    (void)adapter;
    (void)budget;
    return 0;
}

static void batch_add(const mad_channel_t *to, uint64_t number, size_t len)
{
    const madi_conn_t *conn = madi_conn_peek((mad_channel_t *)to, 0);
    madi_short_t *p = &batch[n_batch++];
    p->words[0] = madi_short_header(conn) | (MADI_WIRE_DESC_SIZE + len) << 32;
    p->words[1] = (uint64_t)MADI_SHORT_COST << 32;
    p->words[2] = madi_wire_desc(len, MADI_WIRE_INLINE, MAD_RECEIVE_CHEAPER, MAD_SEND_SAFER);
    p->words[3] = number;
    batch_link = conn->gate->link;
}

/* One batch contains packets for posted receives, a packet that differs from its receive, and unexpected packets of two
 * channels. */
START_TEST(mixed_packets_of_a_batch_reach_their_receivers)
{
    static const madi_driver_t driver = {.name = "batch", .poll = batch_poll, .fast.take_short = batch_take};
    madi_adapter_t adapter = {.driver = &driver};
    mad_channel_t *other;
    uint64_t numbers[3];
    mad_request_t *requests[3];
    session_open();
    ck_assert_int_eq(mad_channel_open(session, "other", &other), MAD_OK);
    number_send(channel, LAST); /* these messages announce the channels' numbers */
    number_receive(channel, LAST);
    number_send(other, LAST);
    number_receive(other, LAST);
    for (int i = 0; i < 3; i++)
        number_post(&numbers[i], &requests[i]);
    batch_add(channel, 0, 8);
    batch_add(other, 10, 8);
    batch_add(channel, 1, 4); /* its receive expects 8 bytes */
    batch_add(channel, 2, 8);
    batch_add(channel, 3, 8);
    batch_add(other, 11, 8);
    madi_lock(&session->lock);
    ck_assert_int_eq(madi_poll_hit_adapter(session, &adapter, 16), n_batch);
    madi_unlock(&session->lock);
    ck_assert_int_eq(mad_request_wait(&requests[0], 0), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&requests[1], 0), MAD_ERR_MISMATCH);
    ck_assert_int_eq(mad_request_wait(&requests[2], 0), MAD_OK);
    ck_assert_uint_eq(numbers[0], 0);
    ck_assert_uint_eq(numbers[2], 2);
    number_receive(channel, 3);
    number_receive(other, 10);
    number_receive(other, 11);
    mad_exit(session);
}
END_TEST

/* Packets beyond the credits of the connection end it, also in a batch. */
START_TEST(packet_beyond_the_credits_is_refused)
{
    madi_conn_t *conn;
    uint64_t number;
    mad_request_t *request;
    session_open();
    number_send(channel, LAST);
    number_receive(channel, LAST);
    number_post(&number, &request);
    conn = madi_conn_peek(channel, 0);
    n_batch = 0;
    batch_add(channel, 1, 8);
    madi_lock(&session->lock);
    conn->rx_held += (uint64_t)madi_short_credits(conn) - MADI_SHORT_COST + 1;
    ck_assert_int_eq(madi_short_take(conn, batch, 1), 0);
    conn->rx_held--;
    ck_assert_int_eq(madi_short_take(conn, batch, 1), 1);
    conn->rx_held = 0;
    madi_unlock(&session->lock);
    ck_assert_int_eq(mad_request_wait(&request, 0), MAD_OK);
    mad_exit(session);
}
END_TEST

Suite *posted_suite(void)
{
    const TTest *tests[] = {
        posted_receives_allocate_once,
        unexpected_messages_allocate_once,
        posted_receives_beyond_the_pool_are_served,
        posted_receive_completes_in_each_state,
        mixed_packets_of_a_batch_reach_their_receivers,
        packet_beyond_the_credits_is_refused,
    };
    return SUITE_OF("posted", tests);
}

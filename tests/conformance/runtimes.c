/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for language runtimes: mad_message_send_now, mad_unpack_borrow, and mad_channel_poll. */
#include "conform.h"

#include <madeleine/runtime.h>
#include <string.h>

#define MANY 3000

static size_t len_of(uint32_t i)
{
    static const size_t lens[] = {0, 1, 8, 31, 32, 33, 200, 500, 700, 4000};
    return lens[i % COUNT(lens)];
}

/* Open the next message by polling.  cheap: poll mostly those networks where a check costs next to nothing; else all
 * networks. */
static mad_message_t *next_message(env_t *e, bool cheap)
{
    mad_message_t *message = NULL;
    mad_status_t status;
    unsigned tries = 0;
    do {
        status = cheap && ++tries % 8 ? mad_begin_unpacking_poll(e->ch[0], MAD_ANY_SOURCE, &message)
                                      : mad_begin_unpacking_within(e->ch[0], MAD_ANY_SOURCE, 0, &message);
    } while (status == MAD_ERR_AGAIN);
    CHECK_OK(status);
    return message;
}

/* ---- One block, of three pieces and an empty one ---------------------------------------------------------------- */

static void now_send(env_t *e)
{
    unsigned char *body = get(5000);
    uint32_t at_once = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        struct iovec pieces[4] = {
            {&i, sizeof i}, {body, len_of(i) / 2}, {NULL, 0}, {body + len_of(i) / 2, len_of(i) - len_of(i) / 2}};
        mad_status_t status;
        fill(body, len_of(i), i);
        status = mad_message_send_now(e->ch[0], e->peer, pieces, 4);
        at_once += status == MAD_OK;
        if (status == MAD_OK) {
            memset(body, 0, len_of(i)); /* the message has been sent, so the buffer may be reused */
            continue;
        }
        CHECK_STATUS(status, MAD_ERR_AGAIN);
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        CHECK_OK(mad_pack_gather(message, pieces, 4, CHEAPER, EXPRESS));
        CHECK_STATUS(mad_message_send_now(e->ch[0], e->peer, pieces, 4),
                     MAD_ERR_AGAIN); /* the message that is being packed comes first */
        CHECK_OK(mad_end_packing(message));
    }
    CHECK(at_once > 0);
    CHECK_STATUS(mad_message_send_now(e->ch[0], e->peer, NULL, -1), MAD_ERR_INVAL);
    CHECK_STATUS(mad_message_send_now(e->ch[0], e->peer, NULL, 1), MAD_ERR_INVAL);
    {
        struct iovec long_one = {get(1 << 20), 1 << 20};
        struct iovec wraps[2] = {{long_one.iov_base, SIZE_MAX}, {long_one.iov_base, 9}}, nowhere = {NULL, 4};
        CHECK_STATUS(mad_message_send_now(e->ch[0], e->peer, &long_one, 1), MAD_ERR_AGAIN);
        CHECK_STATUS(mad_message_send_now(e->ch[0], e->peer, wraps, 2), MAD_ERR_AGAIN);
        CHECK_STATUS(mad_message_send_now(e->ch[0], e->peer, &nowhere, 1), MAD_ERR_INVAL);
        CHECK_STATUS(mad_message_send_now(e->ch[0], -1, NULL, 0), MAD_ERR_INVAL);
        free(long_one.iov_base);
    }
    await_peer(e);
    free(body);
}

static void now_check(mad_message_t *message, const unsigned char *at, size_t len, uint32_t i)
{
    mad_status_t status = MAD_OK;
    uint32_t number = ~0u;
    while (!at && (status = mad_unpack_borrow(message, (const void **)&at, &len)) == MAD_ERR_AGAIN)
        ;
    CHECK_OK(status);
    CHECK_EQ(len, sizeof i + len_of(i));
    memcpy(&number, at, sizeof number);
    CHECK_EQ(number, i); /* the messages arrive in order, however they were sent */
    HOLDS(at + sizeof i, len_of(i), i);
}

static void now_receive(env_t *e)
{
    for (uint32_t i = 0; i < MANY; i++) {
        mad_message_t *message = next_message(e, true);
        now_check(message, NULL, 0, i);
        CHECK_OK(mad_end_unpacking(message));
    }
    signal_peer(e);
}

/* ---- Many at once ----------------------------------------------------------------------------------------------- */

static void glance_receive(env_t *e)
{
    mad_arrival_t arrivals[20];
    unsigned tries = 0;
    CHECK_EQ(mad_channel_poll(e->ch[0], arrivals, 0), 0);
    for (uint32_t i = 0; i < MANY;) {
        int max = 1 + (int)(i % COUNT(arrivals)), n = mad_channel_poll(e->ch[0], arrivals, max);
        CHECK(n >= 0 && n <= max);
        for (int k = 0; k < n; k++) {
            CHECK_EQ(arrivals[k].peer, e->peer);
            now_check(arrivals[k].message, arrivals[k].base, arrivals[k].len, i + (uint32_t)k);
        }
        for (int k = 0; k < n; k++) /* in a different order than that of arrival */
            if (arrivals[(k + n / 2) % n].message)
                CHECK_OK(mad_end_unpacking(arrivals[(k + n / 2) % n].message));
        i += (uint32_t)n;
        if (!n && ++tries % 8 == 0)
            mad_progress(e->session);
        if (!n && tries % 64 == 0 && i < MANY) { /* some messages are received by the other function */
            mad_message_t *message = next_message(e, false);
            now_check(message, NULL, 0, i++);
            CHECK_OK(mad_end_unpacking(message));
        }
    }
    signal_peer(e);
}

/* ---- Blocks of all lengths and modes, some of them borrowed ----------------------------------------------------- */

static const size_t block_lens[] = {0, 5, 300, 20000, 40000, 100000, 1 << 20, 64};

static void borrow_send(env_t *e)
{
    for (uint32_t round = 0; round < 8; round++) {
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        unsigned char *bodies[COUNT(block_lens)];
        for (uint32_t i = 0; i < COUNT(block_lens); i++) {
            bodies[i] = get(block_lens[i]);
            fill(bodies[i], block_lens[i], round * 100 + i);
            CHECK_OK(mad_pack(message, bodies[i], block_lens[i], CHEAPER, (round + i) % 3 ? EXPRESS : LAZY));
        }
        CHECK_OK(mad_end_packing(message));
        for (uint32_t i = 0; i < COUNT(block_lens); i++)
            free(bodies[i]);
    }
    await_peer(e);
}

static void borrow_receive(env_t *e)
{
    unsigned char *copy = get(1 << 20);
    for (uint32_t round = 0; round < 8; round++) {
        mad_message_t *message = next_message(e, false);
        const void *at = NULL;
        size_t len = 0;
        mad_status_t status;
        for (uint32_t i = 0; i < COUNT(block_lens); i++) {
            if ((round >> i % 3) & 1) { /* some blocks are borrowed, and the others unpacked */
                CHECK_OK(mad_unpack(message, copy, block_lens[i], CHEAPER, (round + i) % 3 ? EXPRESS : LAZY));
                continue;
            }
            while ((status = mad_unpack_borrow(message, &at, &len)) == MAD_ERR_AGAIN)
                ;
            CHECK_OK(status);
            CHECK_EQ(len, block_lens[i]);
            HOLDS(at, len, round * 100 + i);
        }
        CHECK_OK(mad_end_unpacking(message));
    }
    signal_peer(e);
    free(copy);
}

/* ---- There is no further block ---------------------------------------------------------------------------------- */

static void none_send(env_t *e)
{
    int number = 4;
    int64_t deadline = now_ns() + 3 * SECOND;
    mad_event_t event = {0};
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
    CHECK_OK(mad_pack(message, &number, sizeof number, CHEAPER, EXPRESS));
    CHECK_OK(mad_end_packing(message));
    await_peer(e);
    while (mad_event_next(e->session, &event) == MAD_ERR_AGAIN && now_ns() < deadline)
        mad_progress(e->session);
    CHECK_STATUS(event.status, MAD_ERR_MISMATCH); /* takes the event, so that later tests do not find it */
}

static void none_receive(env_t *e)
{
    mad_message_t *message = next_message(e, false);
    const void *at = NULL;
    size_t len = 0;
    CHECK_OK(mad_unpack_borrow(message, &at, &len));
    CHECK_EQ(len, sizeof(int));
    CHECK_STATUS(mad_unpack_borrow(message, &at, &len), MAD_ERR_MISMATCH);
    CHECK_STATUS(mad_end_unpacking(message), MAD_ERR_MISMATCH);
    signal_peer(e);
}

const test_t runtime_tests[] = {{.name = "runtimes_now", .procs = 2, .send = now_send, .receive = now_receive},
                                {.name = "runtimes_glance", .procs = 2, .send = now_send, .receive = glance_receive},
                                {.name = "runtimes_borrow", .procs = 2, .send = borrow_send, .receive = borrow_receive},
                                {.name = "runtimes_none", .procs = 2, .send = none_send, .receive = none_receive},
                                {.name = NULL}};

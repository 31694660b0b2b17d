/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives posted before and after their messages arrive. */
#include "conform.h"

#define POSTS 20

static size_t post_len(int i)
{
    static const size_t lens[] = {0, 5, 200, 3000, 12400, 150000};
    return lens[(size_t)i % COUNT(lens)];
}

static void send_all(env_t *e, mad_channel_t *ch)
{
    for (int i = 0; i < POSTS; i++)
        send_numbered(e, ch, (uint32_t)i, post_len(i));
}

static void before_send(env_t *e)
{
    await_peer(e);
    send_all(e, e->ch[0]);
}

static void post(env_t *e, int i, uint32_t *number, void **body, mad_request_t **r)
{
    *body = get(post_len(i));
    *number = ~0u;
    CHECK_OK(mad_message_receive(
        e->ch[0], e->peer, (mad_block_t[]){{number, sizeof *number, CHEAPER, EXPRESS}, {*body, post_len(i), CHEAPER, LAZY}},
        2, r));
}

static void before_receive(env_t *e)
{
    mad_request_t *r[POSTS];
    uint32_t numbers[POSTS];
    void *bodies[POSTS];
    for (int i = 0; i < POSTS; i++)
        post(e, i, &numbers[i], &bodies[i], &r[i]);
    CHECK_STATUS(mad_request_test(&r[0]), MAD_ERR_AGAIN);
    CHECK_STATUS(mad_request_wait(&r[0], 10 * MS), MAD_ERR_TIMEOUT);
    signal_peer(e);
    for (int i = 0; i < POSTS; i++) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        CHECK_EQ(numbers[i], i);
        HOLDS(bodies[i], post_len(i), (uint32_t)i);
        free(bodies[i]);
    }
}

/* The messages arrive first: the big ones wait for the receives. */
static void after_send(env_t *e)
{
    mad_request_t *r[POSTS];
    uint32_t numbers[POSTS];
    void *bodies[POSTS];
    for (int i = 0; i < POSTS; i++) {
        numbers[i] = (uint32_t)i;
        bodies[i] = get(post_len(i));
        fill(bodies[i], post_len(i), (uint32_t)i);
        CHECK_OK(mad_message_send(
            e->ch[0], e->peer,
            (mad_block_t[]){{&numbers[i], sizeof numbers[i], CHEAPER, EXPRESS}, {bodies[i], post_len(i), CHEAPER, LAZY}}, 2,
            &r[i]));
    }
    signal_peer(e);
    for (int i = 0; i < POSTS; i++) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        free(bodies[i]);
    }
}

static void after_receive(env_t *e)
{
    mad_request_t *r[POSTS];
    uint32_t numbers[POSTS];
    void *bodies[POSTS];
    await_peer(e);
    for (int i = 0; i < POSTS; i++)
        post(e, i, &numbers[i], &bodies[i], &r[i]);
    for (int i = POSTS - 1; i >= 0; i--) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        CHECK_EQ(numbers[i], i);
        HOLDS(bodies[i], post_len(i), (uint32_t)i);
        free(bodies[i]);
    }
}

/* Posted receives precede mad_begin_unpacking on the same channel. */
static void mixed_send(env_t *e)
{
    await_peer(e);
    send_all(e, e->ch[0]);
}

static void mixed_receive(env_t *e)
{
    mad_request_t *r[POSTS / 2];
    uint32_t numbers[POSTS / 2];
    void *bodies[POSTS / 2];
    for (int i = 0; i < POSTS / 2; i++)
        post(e, i, &numbers[i], &bodies[i], &r[i]);
    signal_peer(e);
    for (int i = POSTS / 2; i < POSTS; i++)
        receive_numbered(e, e->ch[0], (uint32_t)i, post_len(i));
    for (int i = 0; i < POSTS / 2; i++) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        CHECK_EQ(numbers[i], i);
        HOLDS(bodies[i], post_len(i), (uint32_t)i);
        free(bodies[i]);
    }
}

/* A posted receive without a message can be cancelled; the message then goes to the next receive. */
static void cancel_send(env_t *e)
{
    await_peer(e);
    for (uint32_t i = 0; i < 3; i++)
        send_numbered(e, e->ch[0], i, post_len((int)i + 3));
}

static void cancel_receive(env_t *e)
{
    mad_request_t *r[4];
    uint32_t numbers[4];
    void *bodies[4];
    static const int as[4] = {3, 3, 4, 4}; /* receives 0 and 3 are cancelled */
    for (int i = 0; i < 4; i++)
        post(e, as[i], &numbers[i], &bodies[i], &r[i]);
    CHECK_OK(mad_request_cancel(r[0]));
    CHECK_OK(mad_request_cancel(r[3]));
    CHECK_STATUS(mad_request_wait(&r[0], MAD_FOREVER), MAD_ERR_CANCELLED);
    CHECK_STATUS(mad_request_test(&r[3]), MAD_ERR_CANCELLED);
    signal_peer(e);
    receive_numbered(e, e->ch[0], 2, post_len(5));
    CHECK_STATUS(mad_request_cancel(r[1]), MAD_ERR_TOO_LATE);
    for (int i = 1; i < 3; i++) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        CHECK_EQ(numbers[i], i - 1);
        HOLDS(bodies[i], post_len(i + 2), (uint32_t)i - 1);
    }
    for (int i = 0; i < 4; i++)
        free(bodies[i]);
}

const test_t posted_tests[] = {{.name = "posted_before", .procs = 2, .send = before_send, .receive = before_receive},
                               {.name = "posted_after", .procs = 2, .send = after_send, .receive = after_receive},
                               {.name = "posted_mixed", .procs = 2, .send = mixed_send, .receive = mixed_receive},
                               {.name = "posted_cancel", .procs = 2, .send = cancel_send, .receive = cancel_receive},
                               {.name = NULL}};

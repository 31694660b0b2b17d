/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels: they are independent, and receive from any source.  Invalid peers and arguments. */
#include "conform.h"

/* ---- An ignored channel ----------------------------------------------------------------------------------------- */

#define IGNORED 10000
#define IGNORED_LEN 200

static void ignored_send(env_t *e)
{
    mad_request_t **r = get(IGNORED * sizeof *r);
    unsigned char *buf = get(IGNORED_LEN);
    int pending = 0;
    for (uint32_t i = 0; i < IGNORED; i++) {
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        fill(buf, IGNORED_LEN, i);
        mad_pack(message, &i, sizeof i, SAFER, EXPRESS);
        mad_pack(message, buf, IGNORED_LEN, SAFER, LAZY);
        CHECK_OK(mad_end_packing_request(message, &r[i]));
    }
    for (uint32_t i = 0; i < 300; i++) { /* other channels work meanwhile, with small and big messages in both directions */
        size_t len = i % 50 == 49 ? 200000 : i;
        send_numbered(e, e->ch[1], i, len);
        receive_numbered(e, e->ch[2], i, len);
    }
    for (int i = 0; i < IGNORED; i++)
        pending += mad_request_test(&r[i]) == MAD_ERR_AGAIN;
    CHECK_MSG(pending > 0, "%d messages, %d bytes, were accepted from a receiver that ignores them (budget 256K)", IGNORED,
              IGNORED * IGNORED_LEN);
    signal_peer(e);
    for (int i = 0; i < IGNORED; i++)
        if (r[i])
            CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
    free(buf);
    free(r);
}

static void ignored_receive(env_t *e)
{
    for (uint32_t i = 0; i < 300; i++) {
        size_t len = i % 50 == 49 ? 200000 : i;
        receive_numbered(e, e->ch[1], i, len);
        send_numbered(e, e->ch[2], i, len);
    }
    await_peer(e);
    for (uint32_t i = 0; i < IGNORED; i++) {
        unsigned char buf[IGNORED_LEN];
        uint32_t number = ~0u;
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        CHECK_OK(mad_unpack(message, &number, sizeof number, SAFER, EXPRESS));
        CHECK_EQ(number, i);
        CHECK_OK(mad_unpack(message, buf, IGNORED_LEN, SAFER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
        HOLDS(buf, IGNORED_LEN, i);
    }
}

/* A big message that is not received, and a half-packed message, do not block another channel. */
static void halves_send(env_t *e)
{
    size_t len = 2 << 20;
    void *buf = get(len);
    mad_request_t *r = NULL;
    mad_message_t *half;
    fill(buf, len, 1);
    CHECK_OK(mad_message_send(e->ch[0], e->peer, &(mad_block_t){buf, len, CHEAPER, LAZY}, 1, &r));
    half = mad_begin_packing(e->ch[1], e->peer);
    mad_pack(half, buf, 100, SAFER, EXPRESS);
    mad_message_flush(half);
    for (uint32_t i = 0; i < 100; i++)
        send_numbered(e, e->ch[2], i, i * 500);
    signal_peer(e);
    mad_pack(half, buf, 50000, CHEAPER, LAZY);
    CHECK_OK(mad_end_packing(half));
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    free(buf);
}

static void halves_receive(env_t *e)
{
    size_t len = 2 << 20;
    void *buf = get(len), *head = get(100);
    mad_message_t *half = mad_begin_unpacking(e->ch[1]), *message;
    CHECK_OK(mad_unpack(half, head, 100, SAFER, EXPRESS));
    HOLDS(head, 100, 1);
    for (uint32_t i = 0; i < 100; i++)
        receive_numbered(e, e->ch[2], i, i * 500);
    await_peer(e);
    CHECK_OK(mad_unpack(half, buf, 50000, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(half));
    HOLDS(buf, 50000, 1);
    message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, buf, len, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    HOLDS(buf, len, 1);
    free(buf);
    free(head);
}

/* ---- Any source ------------------------------------------------------------------------------------------------- */

#define FROM_EACH 400

static void numbers_to(env_t *e, mad_channel_t *ch, mad_peer_t peer, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t len = i % 100 == 99 ? 50000 : i % 30;
        void *buf = get(len);
        mad_message_t *message = mad_begin_packing(ch, peer);
        fill(buf, len, i + (uint32_t)e->rank * 1000);
        mad_pack(message, &i, sizeof i, CHEAPER, EXPRESS);
        mad_pack(message, buf, len, CHEAPER, LAZY);
        CHECK_OK(mad_end_packing(message));
        free(buf);
    }
}

static mad_peer_t number_from_any(mad_channel_t *ch, uint32_t next[3])
{
    mad_message_t *message = mad_begin_unpacking(ch);
    mad_peer_t peer = mad_message_peer(message);
    uint32_t number = ~0u;
    size_t len;
    void *buf;
    if (!CHECK_MSG(peer == 1 || peer == 2, "source %d", peer))
        return 0;
    CHECK_OK(mad_unpack(message, &number, sizeof number, CHEAPER, EXPRESS));
    CHECK_EQ(number, next[peer]);
    len = number % 100 == 99 ? 50000 : number % 30;
    buf = get(len);
    CHECK_OK(mad_unpack(message, buf, len, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    HOLDS(buf, len, number + (uint32_t)peer * 1000);
    free(buf);
    next[peer]++;
    return peer;
}

static void any_source(env_t *e)
{
    uint32_t next[3] = {0}, fair[3] = {0};
    int first[3] = {0};
    char c = 0;
    if (e->rank) {
        mad_message_t *message;
        numbers_to(e, e->ch[0], 0, FROM_EACH);
        numbers_to(e, e->ch[1], 0, 50); /* rank 0 does not receive these yet */
        numbers_to(e, e->ch[2], 0, 1);
        message = mad_begin_unpacking(e->ch[3]); /* rank 0 has received all messages */
        CHECK_OK(mad_unpack(message, &c, 1, CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
        return;
    }
    for (int i = 0; i < 2 * FROM_EACH; i++)
        number_from_any(e->ch[0], next);
    CHECK_EQ(next[1], FROM_EACH);
    CHECK_EQ(next[2], FROM_EACH);
    for (mad_peer_t peer = 2; peer > 0; peer--) { /* named sources, in reverse order; both have sent all messages on
                                                   * channel 0 */
        uint32_t number = 1;
        mad_message_t *message = mad_begin_unpacking_from(e->ch[2], peer);
        CHECK_EQ(mad_message_peer(message), peer);
        CHECK_OK(mad_unpack(message, &number, sizeof number, CHEAPER, EXPRESS));
        CHECK_EQ(number, 0);
        CHECK_OK(mad_unpack(message, NULL, 0, CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
    }
    for (int i = 0; i < 100; i++) {
        mad_peer_t peer = number_from_any(e->ch[1], fair);
        first[peer] += i < 20;
    }
    CHECK_MSG(first[1] >= 5 && first[2] >= 5, "of the first 20 with both ready, %d from 1 and %d from 2", first[1],
              first[2]);
    for (mad_peer_t peer = 1; peer < 3; peer++)
        CHECK_OK(mad_message_send(e->ch[3], peer, &(mad_block_t){&c, 1, CHEAPER, LAZY}, 1, NULL));
}

/* ---- Invalid arguments ------------------------------------------------------------------------------------------ */

static void invalid_send(env_t *e)
{
    const mad_peer_t bad[] = {99999, -5, MAD_ANY_SOURCE, e->size < 2 ? 2 : e->size};
    mad_message_t *message = NULL;
    mad_channel_t *again = NULL;
    mad_request_t *r = NULL;
    char buf[64] = {0};
    char long_name[2 * MAD_CHANNEL_NAME_MAX];
    for (size_t i = 0; i < COUNT(bad); i++) {
        message = mad_begin_packing(e->ch[0], bad[i]);
        if (!CHECK(message != NULL))
            return;
        CHECK_STATUS(mad_pack(message, buf, 8, CHEAPER, LAZY), MAD_ERR_INVAL);
        CHECK_STATUS(mad_message_status(message), MAD_ERR_INVAL);
        CHECK_STATUS(mad_message_flush(message), MAD_ERR_INVAL);
        CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
        message = mad_begin_packing(e->ch[0], bad[i]);
        mad_pack(message, buf, 64, LATER, EXPRESS);
        CHECK_OK(mad_end_packing_request(message, &r));
        CHECK_STATUS(mad_request_wait(&r, MAD_FOREVER), MAD_ERR_INVAL);
        r = NULL;
        CHECK_STATUS(mad_message_send(e->ch[0], bad[i], &(mad_block_t){buf, 8, CHEAPER, LAZY}, 1, &r), MAD_ERR_INVAL);
        CHECK_STATUS(mad_message_receive(e->ch[0], bad[i], &(mad_block_t){buf, 8, CHEAPER, LAZY}, 1, &r), MAD_ERR_INVAL);
        CHECK(r == NULL);
        if (bad[i] != MAD_ANY_SOURCE) {
            CHECK_STATUS(mad_begin_unpacking_within(e->ch[0], bad[i], SECOND, &message), MAD_ERR_INVAL);
            message = mad_begin_unpacking_from(e->ch[0], bad[i]);
            CHECK_STATUS(mad_unpack(message, buf, 8, CHEAPER, LAZY), MAD_ERR_INVAL);
            CHECK_STATUS(mad_end_unpacking(message), MAD_ERR_INVAL);
        }
    }
    message = mad_begin_packing(e->ch[0], e->peer); /* an invalid argument fails the message, but not the connection */
    CHECK_OK(mad_pack(message, buf, 8, CHEAPER, LAZY));
    CHECK_STATUS(mad_pack(message, NULL, 8, CHEAPER, LAZY), MAD_ERR_INVAL);
    CHECK_STATUS(mad_pack(message, buf, 8, CHEAPER, LAZY), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
    send_numbered(e, e->ch[0], 5, 100); /* the connection continues to work */
    CHECK_STATUS(mad_channel_open(e->session, mad_channel_name(e->ch[0]), &again), MAD_ERR_BUSY);
    CHECK_STATUS(mad_channel_open(e->session, "", &again), MAD_ERR_INVAL);
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    CHECK_STATUS(mad_channel_open(e->session, long_name, &again), MAD_ERR_INVAL);
}

static void invalid_receive(env_t *e)
{
    receive_numbered(e, e->ch[0], 5, 100);
}

const test_t channel_tests[] = {{.name = "channels_ignored",
                                 .procs = 2,
                                 .send = ignored_send,
                                 .receive = ignored_receive,
                                 .knob = "MAD_CREDIT_BUDGET=256K"},
                                {.name = "channels_halves", .procs = 2, .send = halves_send, .receive = halves_receive},
                                {.name = "channels_any_source", .procs = 3, .all = any_source},
                                {.name = "channels_invalid", .procs = 2, .send = invalid_send, .receive = invalid_receive},
                                {.name = NULL}};

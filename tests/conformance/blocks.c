/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks: many of them, empty ones, in pieces, of a length known late, and flushed. */
#include "conform.h"

/* ---- Many blocks ------------------------------------------------------------------------------------------------ */

#define MANY 1000

static size_t many_len(int i, bool mixed)
{
    if (!mixed)
        return 4;
    return i % 100 == 99 ? 40000 : i % 10 == 3 ? 2000 : (size_t)(i * 7919) % 300;
}

static void many_send(env_t *e)
{
    for (int mixed = 0; mixed < 2; mixed++) {
        void *bufs[MANY];
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        for (int i = 0; i < MANY; i++) {
            size_t len = many_len(i, mixed);
            bufs[i] = get(len);
            fill(bufs[i], len, (uint32_t)i);
            CHECK_OK(mad_pack(message, bufs[i], len, mixed ? (mad_send_mode_t)(i % 3) : CHEAPER,
                              mixed ? (mad_receive_mode_t)(i / 3 % 2) : LAZY));
        }
        CHECK_OK(mad_end_packing(message));
        for (int i = 0; i < MANY; i++)
            free(bufs[i]);
    }
}

static void many_receive(env_t *e)
{
    for (int mixed = 0; mixed < 2; mixed++) {
        void *bufs[MANY];
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        for (int i = 0; i < MANY; i++) {
            size_t len = many_len(i, mixed);
            mad_receive_mode_t rm = mixed ? (mad_receive_mode_t)(i / 3 % 2) : LAZY;
            bufs[i] = get(len);
            CHECK_OK(mad_unpack(message, bufs[i], len, mixed ? (mad_send_mode_t)(i % 3) : CHEAPER, rm));
            if (rm == EXPRESS)
                HOLDS(bufs[i], len, (uint32_t)i);
        }
        CHECK_OK(mad_end_unpacking(message));
        for (int i = 0; i < MANY; i++) {
            HOLDS(bufs[i], many_len(i, mixed), (uint32_t)i);
            free(bufs[i]);
        }
    }
}

/* ---- A length, and then a block of this length ------------------------------------------------------------------ */

static const size_t strings[] = {0, 1, 10, 200, 5000, 12200, 100000, 1 << 20};

static void string_send(env_t *e)
{
    for (size_t i = 0; i < COUNT(strings); i++) {
        size_t len = strings[i];
        void *text = get(len);
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        fill(text, len, (uint32_t)i);
        mad_pack(message, &len, sizeof len, CHEAPER, EXPRESS);
        mad_pack(message, text, len, CHEAPER, LAZY);
        CHECK_OK(mad_end_packing(message));
        free(text);
    }
}

static void string_receive(env_t *e)
{
    for (size_t i = 0; i < COUNT(strings); i++) {
        size_t len = 0;
        void *text;
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        CHECK_OK(mad_unpack(message, &len, sizeof len, CHEAPER, EXPRESS));
        CHECK_EQ(len, strings[i]);
        text = get(len);
        CHECK_OK(mad_unpack(message, text, len, CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
        HOLDS(text, len, (uint32_t)i);
        free(text);
    }
}

/* ---- Empty blocks and messages ---------------------------------------------------------------------------------- */

static void empty_send(env_t *e)
{
    int value = 42;
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer); /* this message has no blocks */
    CHECK_OK(mad_end_packing(message));
    message = mad_begin_packing(e->ch[0], e->peer);
    for (int pair = 0; pair < 6; pair++) {
        CHECK_OK(mad_pack(message, NULL, 0, (mad_send_mode_t)(pair / 2), (mad_receive_mode_t)(pair % 2)));
        CHECK_OK(mad_pack(message, &value, 0, (mad_send_mode_t)(pair / 2), (mad_receive_mode_t)(pair % 2)));
    }
    CHECK_OK(mad_pack(message, &value, sizeof value, CHEAPER, EXPRESS));
    CHECK_OK(mad_pack_gather(message, NULL, 0, CHEAPER, LAZY));
    CHECK_OK(mad_pack_strided(message, NULL, 0, 8, 0, CHEAPER, LAZY));
    CHECK_OK(mad_pack(message, NULL, 0, CHEAPER, EXPRESS));
    CHECK_OK(mad_end_packing(message));
    CHECK_OK(mad_message_send(e->ch[0], e->peer, NULL, 0, NULL));
    message = mad_begin_packing(e->ch[0], e->peer); /* flushed twice, with no block afterwards */
    CHECK_OK(mad_message_flush(message));
    CHECK_OK(mad_pack(message, &value, sizeof value, CHEAPER, LAZY));
    CHECK_OK(mad_message_flush(message));
    CHECK_OK(mad_message_flush(message));
    CHECK_OK(mad_end_packing(message));
}

static void empty_receive(env_t *e)
{
    int value = 0;
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_end_unpacking(message));
    message = mad_begin_unpacking(e->ch[0]);
    for (int pair = 0; pair < 6; pair++) {
        CHECK_OK(mad_unpack(message, NULL, 0, (mad_send_mode_t)(pair / 2), (mad_receive_mode_t)(pair % 2)));
        CHECK_OK(
            mad_unpack(message, pair % 2 ? &value : NULL, 0, (mad_send_mode_t)(pair / 2), (mad_receive_mode_t)(pair % 2)));
    }
    CHECK_OK(mad_unpack(message, &value, sizeof value, CHEAPER, EXPRESS));
    CHECK_EQ(value, 42);
    CHECK_OK(mad_unpack_scatter(message, NULL, 0, CHEAPER, LAZY));
    CHECK_OK(mad_unpack_strided(message, NULL, 0, 8, 0, CHEAPER, LAZY));
    CHECK_OK(mad_unpack(message, NULL, 0, CHEAPER, EXPRESS));
    CHECK_OK(mad_end_unpacking(message));
    message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_end_unpacking(message));
    value = 0;
    message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, &value, sizeof value, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    CHECK_EQ(value, 42);
}

/* ---- Pieces ----------------------------------------------------------------------------------------------------- */

static const size_t totals[] = {12, 180, 600, 12000, 60000, 1200000};

/* Cut a buffer of total bytes into n pieces of uneven lengths. */
static void cut(struct iovec *pieces, int n, char *buf, size_t total)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t len = i == n - 1 ? total - at : i == 1 ? 0 : (total - at) / (size_t)(n - i + 1);
        pieces[i].iov_base = buf + at;
        pieces[i].iov_len = len;
        at += len;
    }
}

/* how: bits 0-1 are the sender's shape, bits 2-3 the receiver's (plain, a few pieces, many pieces, strided).  Bit 4:
 * EXPRESS. */
static void pieces_send(env_t *e)
{
    for (size_t t = 0; t < COUNT(totals); t++)
        for (int how = 0; how < 32; how++) {
            size_t len = totals[t];
            mad_send_mode_t sm = (mad_send_mode_t)(how % 3);
            mad_receive_mode_t rm = how & 16 ? EXPRESS : LAZY;
            char *buf = get(len), *spread = get(2 * len);
            struct iovec pieces[30];
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            fill(buf, len, (uint32_t)how);
            for (size_t i = 0; i < 4; i++)
                memcpy(spread + i * (len / 2), buf + i * (len / 4), len / 4);
            switch (how & 3) {
            case 0: mad_pack(message, buf, len, sm, rm); break;
            case 1:
                cut(pieces, 3, buf, len);
                mad_pack_gather(message, pieces, 3, sm, rm);
                break;
            case 2:
                cut(pieces, 30, buf, len);
                mad_pack_gather(message, pieces, 30, sm, rm);
                break;
            case 3: mad_pack_strided(message, spread, len / 4, len / 2, 4, sm, rm); break;
            }
            CHECK_OK(mad_pack(message, &how, sizeof how, SAFER, LAZY));
            CHECK_OK(mad_end_packing(message));
            free(buf);
            free(spread);
        }
}

static void pieces_receive(env_t *e)
{
    for (size_t t = 0; t < COUNT(totals); t++)
        for (int how = 0; how < 32; how++) {
            size_t len = totals[t], third = len / 3;
            mad_send_mode_t sm = (mad_send_mode_t)(how % 3);
            mad_receive_mode_t rm = how & 16 ? EXPRESS : LAZY;
            char *buf = get(len), *spread = get(3 * len);
            int tail = -1, bad = 0;
            struct iovec pieces[17];
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            switch (how >> 2 & 3) {
            case 0: CHECK_OK(mad_unpack(message, buf, len, sm, rm)); break;
            case 1:
                cut(pieces, 2, buf, len);
                CHECK_OK(mad_unpack_scatter(message, pieces, 2, sm, rm));
                break;
            case 2:
                cut(pieces, 17, buf, len);
                CHECK_OK(mad_unpack_scatter(message, pieces, 17, sm, rm));
                break;
            case 3: CHECK_OK(mad_unpack_strided(message, spread, third, 2 * third, 3, sm, rm)); break;
            }
            if (rm == EXPRESS && (how >> 2 & 3) != 3)
                HOLDS(buf, len, (uint32_t)how);
            CHECK_OK(mad_unpack(message, &tail, sizeof tail, SAFER, LAZY));
            CHECK_OK(mad_end_unpacking(message));
            CHECK_EQ(tail, how);
            if ((how >> 2 & 3) == 3) {
                for (size_t i = 0; i < 3; i++)
                    memcpy(buf + i * third, spread + 2 * i * third, third);
                for (size_t i = third; i < 2 * third; i++)
                    bad += spread[i] != 0x5a || spread[i + 2 * third] != 0x5a;
                CHECK_EQ(bad, 0);
            }
            if (!HOLDS(buf, len, (uint32_t)how))
                CHECK_MSG(false, "of size %zu, how %d", len, how);
            free(buf);
            free(spread);
        }
}

/* ---- Flush ------------------------------------------------------------------------------------------------------ */

static const size_t flushed[] = {1, 8, 192, 600, 5000, 100000, 1 << 20};

static void flush_send(env_t *e)
{
    for (size_t i = 0; i < COUNT(flushed); i++) {
        size_t len = flushed[i];
        void *a = get(len), *b = get(30000);
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        fill(a, len, 1);
        fill(b, 30000, 2);
        mad_pack(message, a, len, CHEAPER, EXPRESS);
        CHECK_OK(mad_message_flush(message));
        await_peer(e); /* the receiver has the block */
        mad_pack(message, b, 100, CHEAPER, LAZY);
        CHECK_OK(mad_message_flush(message));
        mad_pack(message, b, 30000, LATER, LAZY);
        mad_pack(message, b, 9, SAFER, EXPRESS);
        CHECK_OK(mad_end_packing(message));
        free(a);
        free(b);
    }
}

static void flush_receive(env_t *e)
{
    for (size_t i = 0; i < COUNT(flushed); i++) {
        size_t len = flushed[i];
        void *a = get(len), *b = get(100), *c = get(30000), *d = get(9);
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        CHECK_OK(mad_unpack(message, a, len, CHEAPER, EXPRESS));
        HOLDS(a, len, 1);
        signal_peer(e);
        CHECK_OK(mad_unpack(message, b, 100, CHEAPER, LAZY));
        CHECK_OK(mad_unpack(message, c, 30000, LATER, LAZY));
        CHECK_OK(mad_unpack(message, d, 9, SAFER, EXPRESS));
        HOLDS(d, 9, 2);
        CHECK_OK(mad_end_unpacking(message));
        HOLDS(b, 100, 2);
        HOLDS(c, 30000, 2);
        free(a);
        free(b);
        free(c);
        free(d);
    }
}

/* A block with LATER and CHEAPER delays only itself: a block packed after it can be flushed before it is sent. */
static void flush_past_send(env_t *e)
{
    uint32_t late = 1, now = 5;
    bool arrived;
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
    mad_pack(message, &late, sizeof late, LATER, LAZY);
    mad_pack(message, &now, sizeof now, SAFER, EXPRESS);
    CHECK_OK(mad_message_flush(message));
    arrived = await_peer_within(e, 3 * SECOND) == MAD_OK;
    CHECK_MSG(arrived, "an EXPRESS block flushed after a LATER+CHEAPER one did not arrive before mad_end_packing");
    late = 2;
    CHECK_OK(mad_end_packing(message));
    if (!arrived)
        await_peer(e);
}

static void flush_past_receive(env_t *e)
{
    uint32_t late = 0, now = 0;
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, &late, sizeof late, LATER, LAZY));
    CHECK_OK(mad_unpack(message, &now, sizeof now, SAFER, EXPRESS));
    CHECK_EQ(now, 5);
    signal_peer(e);
    CHECK_OK(mad_end_unpacking(message));
    CHECK_EQ(late, 2);
}

const test_t block_tests[] = {
    {.name = "blocks_many", .procs = 2, .send = many_send, .receive = many_receive},
    {.name = "blocks_string", .procs = 2, .send = string_send, .receive = string_receive},
    {.name = "blocks_empty", .procs = 2, .send = empty_send, .receive = empty_receive},
    {.name = "blocks_pieces", .procs = 2, .send = pieces_send, .receive = pieces_receive},
    {.name = "blocks_flush", .procs = 2, .send = flush_send, .receive = flush_receive},
    {.name = "blocks_flush_past_later", .procs = 2, .send = flush_past_send, .receive = flush_past_receive},
    {.name = NULL}};

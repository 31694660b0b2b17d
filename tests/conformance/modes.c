/* SPDX-License-Identifier: BSD-3-Clause */
/* The six pairs of modes over all sizes, and buffers that change between mad_pack and mad_end_packing. */
#include "conform.h"

#define K 1024
static const size_t sizes[] = {0,          1,          7,          8,          191,         192,        193,
                               511,        512,        K,          4 * K,      11 * K - 1,  11 * K,     11 * K + 1,
                               12 * K - 1, 12 * K,     12 * K + 1, 13 * K - 1, 13 * K,      13 * K + 1, 16 * K - 32,
                               16 * K,     16 * K + 1, 64 * K,     1024 * K,   5 * 1024 * K};

static mad_send_mode_t smode(int pair)
{
    return (mad_send_mode_t)(pair / 2);
}

static mad_receive_mode_t rmode(int pair)
{
    return (mad_receive_mode_t)(pair % 2);
}

static void alone_send(env_t *e)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int pair = 0; pair < 6; pair++) {
            void *buf = get(sizes[s]);
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            fill(buf, sizes[s], (uint32_t)(s * 8) + (uint32_t)pair);
            CHECK_OK(mad_pack(message, buf, sizes[s], smode(pair), rmode(pair)));
            CHECK_OK(mad_end_packing(message));
            memset(buf, 0, sizes[s]); /* the message is complete, so the buffer may be reused */
            free(buf);
        }
}

static void alone_receive(env_t *e)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int pair = 0; pair < 6; pair++) {
            size_t len = sizes[s];
            uint32_t seed = (uint32_t)(s * 8) + (uint32_t)pair;
            unsigned char *buf = get(len + 64);
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            CHECK_EQ(mad_message_peer(message), e->peer);
            CHECK_OK(mad_unpack(message, buf, len, smode(pair), rmode(pair)));
            if (rmode(pair) == EXPRESS)
                HOLDS(buf, len, seed);
            CHECK_OK(mad_end_unpacking(message));
            if (!HOLDS(buf, len, seed))
                CHECK_MSG(false, "of size %zu, modes %d %d", len, smode(pair), rmode(pair));
            for (int i = 0; i < 64; i++)
                CHECK_EQ(buf[len + (size_t)i], 0x5a);
            free(buf);
        }
}

/* All sizes in each pair of modes between small blocks, two of them in one message. */
static void between_send(env_t *e)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int pair = 0; pair < 6; pair++) {
            size_t len = sizes[s];
            uint32_t head = (uint32_t)(s * 8) + (uint32_t)pair, tail = ~head;
            void *a = get(len), *b = get(len);
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            fill(a, len, head);
            fill(b, len, head + 1);
            mad_pack(message, &head, sizeof head, SAFER, EXPRESS);
            mad_pack(message, a, len, smode(pair), rmode(pair));
            mad_pack(message, &tail, sizeof tail, SAFER, EXPRESS);
            mad_pack(message, b, len, smode(5 - pair), rmode(5 - pair));
            mad_pack(message, &tail, sizeof tail, CHEAPER, LAZY);
            CHECK_OK(mad_end_packing(message));
            free(a);
            free(b);
        }
}

static void between_receive(env_t *e)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int pair = 0; pair < 6; pair++) {
            size_t len = sizes[s];
            uint32_t head = 0, tail = 0, tail2 = 0, seed = (uint32_t)(s * 8) + (uint32_t)pair;
            void *a = get(len), *b = get(len);
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            CHECK_OK(mad_unpack(message, &head, sizeof head, SAFER, EXPRESS));
            CHECK_EQ(head, seed);
            CHECK_OK(mad_unpack(message, a, len, smode(pair), rmode(pair)));
            if (rmode(pair) == EXPRESS)
                HOLDS(a, len, seed);
            CHECK_OK(mad_unpack(message, &tail, sizeof tail, SAFER, EXPRESS));
            CHECK_EQ(tail, ~seed);
            CHECK_OK(mad_unpack(message, b, len, smode(5 - pair), rmode(5 - pair)));
            if (rmode(5 - pair) == EXPRESS)
                HOLDS(b, len, seed + 1);
            CHECK_OK(mad_unpack(message, &tail2, sizeof tail2, CHEAPER, LAZY));
            CHECK_OK(mad_end_unpacking(message));
            HOLDS(a, len, seed);
            HOLDS(b, len, seed + 1);
            CHECK_EQ(tail2, ~seed);
            free(a);
            free(b);
        }
}

/* SAFER sends the value at mad_pack, and LATER the value at mad_end_packing.  Bit 0 of how: by request. */
static void changed_send(env_t *e)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int how = 0; how < 8; how++) {
            size_t len = sizes[s];
            mad_send_mode_t mode = how & 2 ? LATER : SAFER;
            mad_receive_mode_t rm = how & 4 ? EXPRESS : LAZY;
            void *buf = get(len);
            mad_request_t *r = NULL;
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            fill(buf, len, 1);
            CHECK_OK(mad_pack(message, buf, len, mode, rm));
            fill(buf, len, 2);
            if (how & 1) {
                CHECK_OK(mad_end_packing_request(message, &r));
                if (mode == SAFER)
                    memset(buf, 0, len);
                CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
            } else {
                CHECK_OK(mad_end_packing(message));
            }
            free(buf);
        }
}

static void changed_receive(env_t *e)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int how = 0; how < 8; how++) {
            size_t len = sizes[s];
            mad_send_mode_t mode = how & 2 ? LATER : SAFER;
            void *buf = get(len);
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            CHECK_OK(mad_unpack(message, buf, len, mode, how & 4 ? EXPRESS : LAZY));
            CHECK_OK(mad_end_unpacking(message));
            if (!HOLDS(buf, len, how & 2 ? 2 : 1))
                CHECK_MSG(false, "of size %zu, how %d", len, how);
            free(buf);
        }
}

/* Like modes_changed, for blocks in pieces. */
static const size_t piece_lens[] = {8, 100, 300, 9000, 200000};

static void changed_pieces_send(env_t *e)
{
    for (size_t s = 0; s < COUNT(piece_lens); s++)
        for (int how = 0; how < 4; how++) {
            size_t len = piece_lens[s];
            char *buf = get(2 * len);
            struct iovec pieces[2] = {{buf, len}, {buf + len, len}};
            mad_send_mode_t mode = how & 1 ? LATER : SAFER;
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            fill(buf, 2 * len, 1);
            if (how & 2)
                CHECK_OK(mad_pack_strided(message, buf, len / 2, len, 2, mode, LAZY));
            else
                CHECK_OK(mad_pack_gather(message, pieces, 2, mode, LAZY));
            fill(buf, 2 * len, 2);
            CHECK_OK(mad_end_packing(message));
            free(buf);
        }
}

static void changed_pieces_receive(env_t *e)
{
    for (size_t s = 0; s < COUNT(piece_lens); s++)
        for (int how = 0; how < 4; how++) {
            size_t len = piece_lens[s];
            char *buf = get(2 * len), *expected = get(2 * len);
            mad_send_mode_t mode = how & 1 ? LATER : SAFER;
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            fill(expected, 2 * len, how & 1 ? 2 : 1);
            if (how & 2)
                memmove(expected + len / 2, expected + len, len / 2);
            CHECK_OK(mad_unpack(message, buf, how & 2 ? len : 2 * len, mode, LAZY));
            CHECK_OK(mad_end_unpacking(message));
            CHECK_MSG(!memcmp(buf, expected, how & 2 ? len : 2 * len), "%s, %s, pieces of %zu: wrong payload",
                      how & 1 ? "LATER" : "SAFER", how & 2 ? "strided" : "gather", len);
            free(buf);
            free(expected);
        }
}

/* A block with LATER and EXPRESS is sent only at the end, also when it is flushed. */
static void later_express_send(env_t *e)
{
    uint32_t value = 1, after = 7;
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
    mad_pack(message, &value, sizeof value, LATER, EXPRESS);
    mad_pack(message, &after, sizeof after, SAFER, EXPRESS);
    CHECK_OK(mad_message_flush(message));
    value = 2;
    CHECK_OK(mad_end_packing(message));
}

static void later_express_receive(env_t *e)
{
    uint32_t value = 0, after = 0;
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, &value, sizeof value, LATER, EXPRESS));
    CHECK_EQ(value, 2);
    CHECK_OK(mad_unpack(message, &after, sizeof after, SAFER, EXPRESS));
    CHECK_EQ(after, 7);
    CHECK_OK(mad_end_unpacking(message));
}

const test_t mode_tests[] = {
    {.name = "modes_alone", .procs = 2, .send = alone_send, .receive = alone_receive},
    {.name = "modes_between", .procs = 2, .send = between_send, .receive = between_receive},
    {.name = "modes_changed", .procs = 2, .send = changed_send, .receive = changed_receive},
    {.name = "modes_changed_pieces", .procs = 2, .send = changed_pieces_send, .receive = changed_pieces_receive},
    {.name = "modes_later_express", .procs = 2, .send = later_express_send, .receive = later_express_receive},
    {.name = NULL}};

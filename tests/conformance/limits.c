/* SPDX-License-Identifier: BSD-3-Clause */
/* Thousands of requests or blocks at once, and all lengths around the sizes at which the method of transfer changes. */
#include "conform.h"

#include <stdlib.h>
#include <sys/uio.h>

#define THOUSANDS 10000
#define BY_ANY 100 /* number of requests that mad_request_wait_any waits for, which examines all of them each time */

/* ---- Requests --------------------------------------------------------------------------------------------------- */

static size_t request_len(int i)
{
    return i % 500 == 7 ? 40000 : i % 50 == 3 ? 2500 : (size_t)(i * 7919) % 150;
}

typedef struct thousands {
    mad_request_t *requests[THOUSANDS];
    void *bodies[THOUSANDS];
    int numbers[THOUSANDS];
} thousands_t;

static void request_start(env_t *e, thousands_t *t, int i, bool sends)
{
    mad_block_t blocks[2] = {{&t->numbers[i], sizeof t->numbers[i], CHEAPER, EXPRESS},
                             {NULL, request_len(i), CHEAPER, LAZY}};
    blocks[1].base = t->bodies[i] = get(request_len(i));
    t->numbers[i] = sends ? i : -1;
    if (sends)
        fill(t->bodies[i], request_len(i), (uint32_t)i);
    CHECK_OK(sends ? mad_message_send(e->ch[0], e->peer, blocks, 2, &t->requests[i])
                   : mad_message_receive(e->ch[0], e->peer, blocks, 2, &t->requests[i]));
}

static void request_over(thousands_t *t, int i, bool sends)
{
    if (!sends) {
        CHECK_EQ(t->numbers[i], i);
        HOLDS(t->bodies[i], request_len(i), (uint32_t)i);
    }
    free(t->bodies[i]);
}

/* All requests are pending before the first is waited for.  In round 0 the sender begins, in round 1 the receiver. */
static void requests(env_t *e, bool sends)
{
    thousands_t *t = get(sizeof *t);
    for (int round = 0; round < 2; round++) {
        if (sends == (round == 1))
            await_peer(e);
        for (int i = 0; i < THOUSANDS; i++)
            request_start(e, t, i, sends);
        if (sends == (round == 0))
            signal_peer(e);
        for (int i = 0; i < BY_ANY; i++) {
            int index = -1;
            if (!CHECK_OK(mad_request_wait_any(t->requests, THOUSANDS, MAD_FOREVER, &index)))
                return;
            CHECK_MSG(index >= 0 && index < THOUSANDS && !t->requests[index], "index %d", index);
            request_over(t, index, sends);
        }
        for (int i = THOUSANDS - 1; i >= 0; i--) {
            if (t->requests[i]) {
                CHECK_OK(mad_request_wait(&t->requests[i], MAD_FOREVER));
                request_over(t, i, sends);
            }
        }
    }
    free(t);
}

static void requests_send(env_t *e)
{
    requests(e, true);
}

static void requests_receive(env_t *e)
{
    requests(e, false);
}

/* ---- Blocks and pieces of one message --------------------------------------------------------------------------- */

static size_t block_len(int i)
{
    return i % 1000 == 5 ? 30000 : (size_t)(i * 7919) % 97;
}

/* Equal bytes in three forms: an area, THOUSANDS blocks, and pieces of a block.  The two sides cut the pieces
 * differently. */
typedef struct area {
    unsigned char *all;
    size_t len;
    mad_block_t *blocks;
    struct iovec *pieces;
} area_t;

static area_t area_new(bool sends)
{
    area_t a = {.blocks = get(THOUSANDS * sizeof *a.blocks), .pieces = get(THOUSANDS * sizeof *a.pieces)};
    size_t at = 0;
    for (int i = 0; i < THOUSANDS; i++)
        a.len += block_len(i);
    a.all = get(a.len);
    if (sends)
        fill(a.all, a.len, 77);
    for (int i = 0; i < THOUSANDS; i++) {
        size_t len = block_len(sends ? i : THOUSANDS - 1 - i);
        a.pieces[i] = (struct iovec){a.all + at, len};
        at += len;
    }
    at = 0;
    for (int i = 0; i < THOUSANDS; i++) {
        a.blocks[i] = (mad_block_t){a.all + at, block_len(i), (mad_send_mode_t)(i % 3), (mad_receive_mode_t)(i / 3 % 2)};
        at += block_len(i);
    }
    return a;
}

static void area_free(area_t *a)
{
    free(a->all);
    free(a->blocks);
    free(a->pieces);
}

static void area_seen(area_t *a)
{
    HOLDS(a->all, a->len, 77);
    memset(a->all, 0, a->len);
}

static void blocks_send(env_t *e)
{
    area_t a = area_new(true);
    mad_message_t *message;
    CHECK_OK(mad_message_send(e->ch[0], e->peer, a.blocks, THOUSANDS, NULL));
    await_peer(e); /* the receiver has posted the next receive */
    CHECK_OK(mad_message_send(e->ch[0], e->peer, a.blocks, THOUSANDS, NULL));
    message = mad_begin_packing(e->ch[0], e->peer);
    CHECK_OK(mad_pack_gather(message, a.pieces, THOUSANDS, CHEAPER, LAZY));
    CHECK_OK(mad_pack_gather(message, a.pieces, THOUSANDS, SAFER, EXPRESS));
    CHECK_OK(mad_end_packing(message));
    area_free(&a);
}

static void blocks_receive(env_t *e)
{
    area_t a = area_new(false), b = area_new(false);
    mad_request_t *r = NULL;
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    for (int i = 0; i < THOUSANDS; i++)
        CHECK_OK(mad_unpack(message, a.blocks[i].base, a.blocks[i].len, a.blocks[i].send_mode, a.blocks[i].receive_mode));
    CHECK_OK(mad_end_unpacking(message));
    area_seen(&a);
    CHECK_OK(mad_message_receive(e->ch[0], e->peer, a.blocks, THOUSANDS, &r));
    signal_peer(e);
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    area_seen(&a);
    message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack_scatter(message, a.pieces, THOUSANDS, CHEAPER, LAZY));
    CHECK_OK(mad_unpack_scatter(message, b.pieces, THOUSANDS, SAFER, EXPRESS));
    area_seen(&b);
    CHECK_OK(mad_end_unpacking(message));
    area_seen(&a);
    area_free(&a);
    area_free(&b);
}

/* ---- Lengths ---------------------------------------------------------------------------------------------------- */

/* Lengths in bytes around which the core or a driver sends a block differently: copied, gathered, granted, or cut.  The
 * sizes that the adapter reports are added.  Headers take up to BEFORE bytes, so all lengths from BEFORE bytes below such a
 * length to two bytes above are tested. */
static const size_t switches[] = {0,    40,      56,      64,      192,      256,      448,     512,
                                  1024, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10};
#define BEFORE 72
/* Longer lengths of this kind, around which only some lengths are tested. */
static const size_t far_switches[] = {128 << 10, 256 << 10, 512 << 10, 1 << 20};
static const int far_steps[] = {-49, -48, -47, -25, -24, -23, -1, 0, 1};
#define LENGTHS_MAX 4096

static int lengths_of_adapter(env_t *e, size_t reported[2])
{
    mad_adapter_info_t info;
    int index;
    if (!CHECK_OK(mad_peer_adapter(e->session, e->peer, &index)) || !CHECK_OK(mad_adapter_get(e->session, index, &info)))
        return 0;
    reported[0] = info.packet_max;
    reported[1] = info.chunk_max;
    return 2;
}

static int near(size_t at, size_t *lengths, int n)
{
    for (size_t len = at > BEFORE ? at - BEFORE : 0; len <= at + 2 && n < LENGTHS_MAX; len++)
        lengths[n++] = len;
    return n;
}

static int far(size_t at, size_t *lengths, int n)
{
    for (size_t i = 0; i < COUNT(far_steps) && n < LENGTHS_MAX; i++)
        lengths[n++] = at + (size_t)far_steps[i];
    return n;
}

/* Both sides use the same driver, and so compute the same lengths from its adapter. */
static int lengths_all(env_t *e, size_t *lengths)
{
    size_t reported[2];
    int n = 0, n_reported = lengths_of_adapter(e, reported);
    for (size_t i = 0; i < COUNT(switches); i++)
        n = near(switches[i], lengths, n);
    for (size_t i = 0; i < COUNT(far_switches); i++)
        n = far(far_switches[i], lengths, n);
    for (int i = 0; i < n_reported; i++)
        n = reported[i] <= 64 << 10 ? near(reported[i], lengths, n) : far(reported[i], lengths, n);
    CHECK(n < LENGTHS_MAX);
    return n;
}

/* Way 0: alone, CHEAPER.  Way 1: alone, EXPRESS.  Way 2: after another block.  Way 3: before another block.  Lengths
 * over 1 MiB are tested in way 0 only, because they are slow under a sanitizer. */
static int ways_of(size_t len)
{
    return len > 1 << 20 ? 1 : 4;
}

static void way_blocks(mad_block_t blocks[2], int way, uint32_t *number, void *body, size_t len)
{
    mad_block_t small = {number, sizeof *number, CHEAPER, EXPRESS};
    mad_block_t big = {body, len, CHEAPER, way == 1 ? EXPRESS : LAZY};
    blocks[0] = way == 2 ? small : big;
    blocks[1] = way == 2 ? big : small;
}

static void length_send(env_t *e, size_t len, int way, int i)
{
    uint32_t number = (uint32_t)i;
    void *body = get(len);
    mad_block_t blocks[2];
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
    fill(body, len, number);
    way_blocks(blocks, way, &number, body, len);
    for (int b = 0; b < (way < 2 ? 1 : 2); b++)
        CHECK_OK(mad_pack(message, blocks[b].base, blocks[b].len, blocks[b].send_mode, blocks[b].receive_mode));
    CHECK_OK(mad_end_packing(message));
    free(body);
}

static void length_receive(env_t *e, size_t len, int way, int i)
{
    uint32_t number = (uint32_t)i;
    void *body = get(len);
    mad_block_t blocks[2];
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    way_blocks(blocks, way, &number, body, len);
    for (int b = 0; b < (way < 2 ? 1 : 2); b++)
        CHECK_OK(mad_unpack(message, blocks[b].base, blocks[b].len, blocks[b].send_mode, blocks[b].receive_mode));
    CHECK_OK(mad_end_unpacking(message));
    CHECK_MSG(HOLDS(body, len, (uint32_t)i) && number == (uint32_t)i, "length %zu, way %d, number %u of %d", len, way,
              number, i);
    free(body);
}

/* Run this function for all lengths in all ways. */
static void lengths_each(env_t *e, void (*run)(env_t *e, size_t len, int way, int i))
{
    size_t *lengths = get(LENGTHS_MAX * sizeof *lengths);
    int n = lengths_all(e, lengths);
    for (int i = 0; i < n; i++)
        for (int way = 0; way < ways_of(lengths[i]); way++)
            run(e, lengths[i], way, i);
    free(lengths);
}

static void lengths_send(env_t *e)
{
    await_peer(e);
    lengths_each(e, length_send);
}

static void lengths_receive(env_t *e)
{
    signal_peer(e);
    lengths_each(e, length_receive);
}

const test_t limit_tests[] = {{.name = "limits_requests", .procs = 2, .send = requests_send, .receive = requests_receive},
                              {.name = "limits_blocks", .procs = 2, .send = blocks_send, .receive = blocks_receive},
                              {.name = "limits_lengths", .procs = 2, .send = lengths_send, .receive = lengths_receive},
                              {.name = NULL}};

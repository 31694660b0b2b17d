/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers: they consume or park messages, start operations, and read the leading EXPRESS blocks. */
#include "conform.h"

typedef struct state {
    env_t *e;
    _Atomic(int) count, bad, ended;
    _Atomic(int) short_by[40];
    unsigned char bodies[400][64];
    mad_message_t *parked[40];
    size_t lens[8];
    int values[400];
} state_t;

static void until(env_t *e, _Atomic(int) *count, int n)
{
    while (*count < n)
        mad_progress(e->session);
}

/* Set the handler of the first channel, and return the test's state. */
static state_t *handle(env_t *e, mad_handler_t handler)
{
    state_t *s = get(sizeof *s);
    memset(s, 0, sizeof *s);
    s->e = e;
    CHECK_OK(mad_channel_handler_set(e->ch[0], handler, s));
    signal_peer(e);
    return s;
}

static void handle_no_more(state_t *s)
{
    CHECK_OK(mad_channel_handler_set(s->e->ch[0], NULL, NULL));
    CHECK_EQ(s->bad, 0);
}

/* ---- Consume ---------------------------------------------------------------------------------------------------- */

#define CONSUMED 400

static void consume_send(env_t *e)
{
    await_peer(e);
    for (uint32_t i = 0; i < CONSUMED; i++)
        send_numbered(e, e->ch[0], i, 64);
    await_peer(e); /* the receiver has removed its handler */
    send_numbered(e, e->ch[0], 7, 64);
}

static mad_handled_t consume(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    state_t *s = arg;
    uint32_t number = ~0u;
    s->bad += channel != s->e->ch[0] || mad_message_peer(message) != s->e->peer;
    s->bad += mad_unpack_try(message, &number, sizeof number, CHEAPER, EXPRESS) != MAD_OK;
    s->bad += number != (uint32_t)s->count;
    s->bad += mad_unpack_try(message, s->bodies[s->count], 64, CHEAPER, LAZY) != MAD_OK;
    s->count++;
    return MAD_CONSUMED;
}

static void consume_receive(env_t *e)
{
    state_t *s = handle(e, consume);
    mad_message_t *message = NULL;
    until(e, &s->count, CONSUMED);
    CHECK_STATUS(mad_begin_unpacking_within(e->ch[0], MAD_ANY_SOURCE, 0, &message), MAD_ERR_AGAIN);
    handle_no_more(s);
    signal_peer(e);
    receive_numbered(e, e->ch[0], 7, 64);
    for (uint32_t i = 0; i < CONSUMED; i++)
        HOLDS(s->bodies[i], 64, i);
    free(s);
}

/* ---- Leave the rest --------------------------------------------------------------------------------------------- */

/* The blocks that a handler does not unpack are dropped without an error, whether they have arrived, arrive later, or
 * are big. */
#define LEFT 60

static void leave_send(env_t *e)
{
    static const size_t lens[] = {0, 100, 3000, 100000};
    char *body = get(100000);
    mad_event_t event;
    memset(body, 0, 100000);
    await_peer(e);
    for (int i = 0; i < LEFT; i++) {
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        mad_pack(message, &i, sizeof i, SAFER, EXPRESS);
        if (i % 2)
            mad_message_flush(message);
        mad_pack(message, body, lens[i % 4], CHEAPER, LAZY);
        if (i % 3)
            mad_message_flush(message);
        mad_pack(message, body, lens[i / 4 % 4], i % 5 ? CHEAPER : LATER, i % 7 ? LAZY : EXPRESS);
        CHECK_OK(mad_end_packing(message));
    }
    await_peer(e);
    while (mad_event_next(e->session, &event) == MAD_OK)
        CHECK_MSG(false, "the sender gets the error: %s", event.text);
    free(body);
}

static mad_handled_t leave(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    state_t *s = arg;
    int number = -1;
    (void)channel;
    s->bad += mad_unpack_try(message, &number, sizeof number, SAFER, EXPRESS) != MAD_OK || number != s->count;
    s->count++;
    return MAD_CONSUMED;
}

static void leave_receive(env_t *e)
{
    state_t *s = handle(e, leave);
    until(e, &s->count, LEFT);
    signal_peer(e);
    handle_no_more(s);
    free(s);
}

/* Like handlers_leave, but with mad_message_drop.  The last messages are kept open for a while before the drop. */
static void drop_receive(env_t *e)
{
    mad_message_t *kept[4];
    signal_peer(e);
    for (int i = 0; i < LEFT; i++) {
        int number = -1;
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        CHECK_OK(mad_unpack(message, &number, sizeof number, SAFER, EXPRESS));
        CHECK_EQ(number, i);
        mad_message_drop(message);
    }
    signal_peer(e);
    for (int i = 0; i < (int)COUNT(kept); i++)
        kept[i] = mad_begin_unpacking(e->ch[0]);
    for (int i = 0; i < (int)COUNT(kept); i++)
        mad_message_drop(kept[(i + 2) % (int)COUNT(kept)]);
    signal_peer(e);
}

static void drop_send(env_t *e)
{
    mad_request_t *r[4];
    mad_event_t event;
    char *body = get(100000);
    memset(body, 0, 100000);
    leave_send(e);
    for (int i = 0; i < (int)COUNT(r); i++) {
        mad_block_t blocks[2] = {{&i, sizeof i, SAFER, EXPRESS}, {body, i % 2 ? 100000 : 100, CHEAPER, LAZY}};
        CHECK_OK(mad_message_send(e->ch[0], e->peer, blocks, 2, &r[i]));
    }
    for (int i = 0; i < (int)COUNT(r); i++) /* the sends complete, though the receiver unpacks no block */
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
    await_peer(e);
    while (mad_event_next(e->session, &event) == MAD_OK)
        CHECK_MSG(false, "the sender gets the error: %s", event.text);
    free(body);
}

/* ---- Park ------------------------------------------------------------------------------------------------------- */

static const size_t parked_lens[] = {10, 1000, 100000, 1 << 20, 0, 13000};

static void park_send(env_t *e)
{
    mad_request_t *r[COUNT(parked_lens)];
    void *bufs[COUNT(parked_lens)];
    await_peer(e);
    for (size_t i = 0; i < COUNT(parked_lens); i++) {
        size_t len = parked_lens[i];
        mad_block_t blocks[2] = {{&len, sizeof len, SAFER, EXPRESS}, {NULL, len, CHEAPER, LAZY}};
        blocks[1].base = bufs[i] = get(len);
        fill(bufs[i], len, (uint32_t)i);
        CHECK_OK(mad_message_send(e->ch[0], e->peer, blocks, 2, &r[i]));
    }
    for (size_t i = 0; i < COUNT(parked_lens); i++) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        free(bufs[i]);
    }
}

static mad_handled_t park(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    state_t *s = arg;
    size_t len = ~(size_t)0;
    s->bad += channel != s->e->ch[0];
    s->bad += mad_unpack_try(message, &len, sizeof len, SAFER, EXPRESS) != MAD_OK;
    s->lens[s->count] = len;
    s->parked[s->count] = message;
    s->count++;
    return MAD_PARKED;
}

static void park_receive(env_t *e)
{
    state_t *s = handle(e, park);
    until(e, &s->count, (int)COUNT(parked_lens)); /* bodies that are not unpacked yet do not hold back the next messages */
    for (int i = (int)COUNT(parked_lens) - 1; i >= 0; i--) {
        void *buf = get(s->lens[i]);
        CHECK_EQ(s->lens[i], parked_lens[i]);
        CHECK_OK(mad_unpack(s->parked[i], buf, parked_lens[i], CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(s->parked[i]));
        HOLDS(buf, parked_lens[i], (uint32_t)i);
        free(buf);
    }
    handle_no_more(s);
    free(s);
}

/* ---- Start operations ------------------------------------------------------------------------------------------- */

#define REPLIES 200

static void reply_send(env_t *e)
{
    await_peer(e);
    for (int i = 0; i < REPLIES; i++) {
        int value = -1;
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        mad_pack(message, &i, sizeof i, SAFER, EXPRESS);
        CHECK_OK(mad_end_packing(message));
        message = mad_begin_unpacking(e->ch[1]);
        CHECK_OK(mad_unpack(message, &value, sizeof value, CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
        CHECK_EQ(value, i + 1);
    }
}

static void replied(void *arg, mad_status_t status)
{
    state_t *s = arg;
    s->bad += status != MAD_OK;
    s->ended++;
}

static mad_handled_t reply(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    state_t *s = arg;
    mad_request_t *r = NULL;
    int i = s->count;
    (void)channel;
    s->bad += mad_unpack_try(message, &s->values[i], sizeof(int), SAFER, EXPRESS) != MAD_OK;
    s->values[i]++;
    if (mad_message_send(s->e->ch[1], s->e->peer, &(mad_block_t){&s->values[i], sizeof(int), CHEAPER, LAZY}, 1, &r))
        s->bad++;
    else
        mad_request_detach(r, replied, s);
    s->count++;
    return MAD_CONSUMED;
}

static void reply_receive(env_t *e)
{
    state_t *s = handle(e, reply);
    until(e, &s->ended, REPLIES);
    handle_no_more(s);
    free(s);
}

/* ---- The prefix ------------------------------------------------------------------------------------------------- */

/* 32 EXPRESS blocks of 8 bytes in all send modes, and then a body.  All 32 have arrived when the handler is called. */
#define PREFIX_BLOCKS (MAD_PREFIX_MAX / 8)

static void prefix_send(env_t *e)
{
    uint64_t values[PREFIX_BLOCKS];
    void *body = get(100000);
    await_peer(e);
    for (int round = 0; round < 40; round++) {
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        for (uint64_t i = 0; i < PREFIX_BLOCKS; i++) {
            values[i] = i + 1000 * (uint64_t)round;
            mad_pack(message, &values[i], 8, (mad_send_mode_t)(round % 4 == 3 ? i % 3 : (uint64_t)round % 4), EXPRESS);
        }
        mad_pack(message, body, round % 2 ? 100000 : 100, CHEAPER, LAZY);
        mad_end_packing(message); /* fails if the handler found fewer blocks, which the handler has reported */
    }
    free(body);
}

static mad_handled_t prefix(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    state_t *s = arg;
    int round = s->count;
    (void)channel;
    for (uint64_t i = 0; i < PREFIX_BLOCKS; i++) {
        uint64_t value = 0;
        mad_status_t status =
            mad_unpack_try(message, &value, 8, (mad_send_mode_t)(round % 4 == 3 ? i % 3 : (uint64_t)round % 4), EXPRESS);
        if (!CHECK_MSG(status == MAD_OK, "message %d (send mode %d), EXPRESS block %d of a prefix of %d bytes: %s", round,
                       round % 4, (int)i, MAD_PREFIX_MAX, mad_status_name(status))) {
            s->short_by[round]++;
            break;
        }
        CHECK_EQ(value, i + 1000 * (uint64_t)round);
    }
    s->parked[round] = message;
    s->count++;
    return MAD_PARKED;
}

static void prefix_receive(env_t *e)
{
    state_t *s = handle(e, prefix);
    void *body = get(100000);
    for (int round = 0; round < 40; round++) {
        until(e, &s->count, round + 1);
        if (!s->short_by[round])
            CHECK_OK(mad_unpack(s->parked[round], body, round % 2 ? 100000 : 100, CHEAPER, LAZY));
        if (!s->short_by[round])
            CHECK_OK(mad_end_unpacking(s->parked[round]));
        else
            mad_end_unpacking(s->parked[round]); /* fails, because a part of the prefix was not unpacked */
    }
    handle_no_more(s);
    free(body);
    free(s);
}

const test_t handler_tests[] = {{.name = "handlers_consume", .procs = 2, .send = consume_send, .receive = consume_receive},
                                {.name = "handlers_leave", .procs = 2, .send = leave_send, .receive = leave_receive},
                                {.name = "handlers_drop", .procs = 2, .send = drop_send, .receive = drop_receive},
                                {.name = "handlers_park", .procs = 2, .send = park_send, .receive = park_receive},
                                {.name = "handlers_reply", .procs = 2, .send = reply_send, .receive = reply_receive},
                                {.name = "handlers_prefix", .procs = 2, .send = prefix_send, .receive = prefix_receive},
                                {.name = NULL}};

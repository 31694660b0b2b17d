/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: test, wait, wait-any, timeout, cancel, callback, the order of messages of all kinds, and the try functions. */
#include "conform.h"

static const size_t lens[] = {0, 8, 200, 1000, 12500, 100000, 1 << 20};

/* ---- Many pending requests at both sides ------------------------------------------------------------------------ */

#define UNDER_WAY 60

static void many_send(env_t *e)
{
    mad_request_t *requests[UNDER_WAY];
    void *bufs[UNDER_WAY];
    int left = UNDER_WAY, index;
    for (int i = 0; i < UNDER_WAY; i++) {
        size_t len = lens[(size_t)i % COUNT(lens)];
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        bufs[i] = get(len);
        fill(bufs[i], len, (uint32_t)i);
        mad_pack(message, &i, sizeof i, SAFER, EXPRESS);
        mad_pack(message, bufs[i], len, CHEAPER, LAZY);
        CHECK_OK(mad_end_packing_request(message, &requests[i]));
    }
    signal_peer(e);
    for (; left; left--) {
        index = -1;
        if (!CHECK_OK(mad_request_wait_any(requests, UNDER_WAY, MAD_FOREVER, &index)))
            break;
        CHECK_MSG(index >= 0 && index < UNDER_WAY && !requests[index], "index %d", index);
        free(bufs[index]);
    }
    CHECK_STATUS(mad_request_wait_any(requests, UNDER_WAY, MAD_FOREVER, &index), MAD_ERR_INVAL);
}

static void many_receive(env_t *e)
{
    mad_request_t *requests[4];
    mad_message_t *open[4];
    void *bufs[4];
    await_peer(e);
    for (int i = 0; i < UNDER_WAY; i += 4) { /* four messages are open at once, and end in reverse order */
        for (int j = 0; j < 4; j++) {
            int number = -1;
            size_t len = lens[(size_t)(i + j) % COUNT(lens)];
            bufs[j] = get(len);
            open[j] = mad_begin_unpacking(e->ch[0]);
            CHECK_OK(mad_unpack(open[j], &number, sizeof number, SAFER, EXPRESS));
            CHECK_EQ(number, i + j);
            CHECK_OK(mad_unpack(open[j], bufs[j], len, CHEAPER, LAZY));
        }
        for (int j = 3; j >= 0; j--)
            CHECK_OK(mad_end_unpacking_request(open[j], &requests[j]));
        for (int j = 0; j < 4; j++) {
            int index = -1;
            if (!CHECK_OK(mad_request_wait_any(requests, 4, MAD_FOREVER, &index)))
                return;
            HOLDS(bufs[index], lens[(size_t)(i + index) % COUNT(lens)], (uint32_t)(i + index));
            free(bufs[index]);
        }
    }
}

/* ---- Announced blocks that wait -------------------------------------------------------------------------------- */

#define STANDING 100
#define STANDING_LEN 200000 /* bytes; together the blocks exceed the longest credit window, 1 MiB */

/* Messages whose blocks the receiver does not take yet do not hold back the messages behind them. */
static void standing_send(env_t *e)
{
    mad_request_t *requests[STANDING];
    void *buf = get(STANDING_LEN);
    mad_message_t *message;
    int last = STANDING;
    fill(buf, STANDING_LEN, 7);
    for (int i = 0; i < STANDING; i++) {
        message = mad_begin_packing(e->ch[0], e->peer);
        mad_pack(message, &i, sizeof i, SAFER, EXPRESS);
        mad_pack(message, buf, STANDING_LEN, CHEAPER, LAZY);
        CHECK_OK(mad_end_packing_request(message, &requests[i]));
    }
    message = mad_begin_packing(e->ch[0], e->peer);
    mad_pack(message, &last, sizeof last, SAFER, EXPRESS);
    CHECK_OK(mad_end_packing(message));
    for (int i = 0; i < STANDING; i++)
        CHECK_OK(mad_request_wait(&requests[i], MAD_FOREVER));
    free(buf);
}

static mad_message_t *standing_open(env_t *e, int want)
{
    int number = -1;
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, &number, sizeof number, SAFER, EXPRESS));
    CHECK_EQ(number, want);
    return message;
}

static void standing_receive(env_t *e)
{
    mad_message_t *open[STANDING];
    void *buf = get(STANDING_LEN);
    for (int i = 0; i < STANDING; i++)
        open[i] = standing_open(e, i);
    CHECK_OK(mad_end_unpacking(standing_open(e, STANDING)));
    for (int i = STANDING - 1; i >= 0; i--) {
        memset(buf, 0, STANDING_LEN);
        CHECK_OK(mad_unpack(open[i], buf, STANDING_LEN, CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(open[i]));
        HOLDS(buf, STANDING_LEN, 7);
    }
    free(buf);
}

/* ---- Timeout, test ---------------------------------------------------------------------------------------------- */

static void timeout_send(env_t *e)
{
    size_t len = 1 << 20;
    void *buf = get(len);
    mad_request_t *r = NULL;
    int index = -1;
    int64_t start;
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
    mad_status_t status;
    fill(buf, len, 3);
    mad_pack(message, buf, len, CHEAPER, LAZY);
    CHECK_OK(mad_end_packing_request(message, &r));
    start = now_ns();
    CHECK_STATUS(mad_request_wait(&r, 30 * MS), MAD_ERR_TIMEOUT);
    CHECK_MSG(now_ns() - start >= 30 * MS, "a time-out of 30 ms took %lld ns", (long long)(now_ns() - start));
    CHECK_MSG(now_ns() - start < 10 * SECOND, "a time-out of 30 ms took %lld ns", (long long)(now_ns() - start));
    CHECK_STATUS(mad_request_wait_any(&r, 1, 30 * MS, &index), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_request_wait(&r, 0), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_request_test(&r), MAD_ERR_AGAIN);
    CHECK(r != NULL);
    signal_peer(e);
    while ((status = mad_request_test(&r)) == MAD_ERR_AGAIN)
        ;
    CHECK_OK(status);
    CHECK(r == NULL);
    CHECK_STATUS(mad_request_wait(&r, 0), MAD_ERR_INVAL);
    CHECK_STATUS(mad_request_cancel(r), MAD_ERR_INVAL);
    free(buf);
}

static void timeout_receive(env_t *e)
{
    size_t len = 1 << 20;
    void *buf = get(len);
    mad_request_t *r = NULL;
    mad_message_t *message;
    await_peer(e);
    message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, buf, len, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking_request(message, &r));
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    HOLDS(buf, len, 3);
    free(buf);
}

/* ---- Cancel ----------------------------------------------------------------------------------------------------- */

static void too_late_send(env_t *e)
{
    size_t len = 1 << 20;
    void *buf = get(len);
    mad_request_t *r = NULL;
    mad_message_t *message;
    send_numbered(e, e->ch[0], 1, 10);
    message = mad_begin_packing(e->ch[0], e->peer);
    fill(buf, len, 4);
    mad_pack(message, buf, len, CHEAPER, LAZY);
    CHECK_OK(mad_end_packing_request(message, &r));
    await_peer(e); /* the receiver has opened the message */
    CHECK_STATUS(mad_request_cancel(r), MAD_ERR_TOO_LATE);
    signal_peer(e);
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    free(buf);
    CHECK_OK(mad_message_send(e->ch[0], e->peer, &(mad_block_t){&len, sizeof len, CHEAPER, LAZY}, 1, &r));
    await_peer(e); /* the receiver has unpacked the message */
    CHECK_STATUS(mad_request_cancel(r), MAD_ERR_TOO_LATE);
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
}

static void too_late_receive(env_t *e)
{
    size_t len = 1 << 20, value = 0;
    void *buf = get(len);
    mad_request_t *r = NULL;
    mad_message_t *message;
    receive_numbered(e, e->ch[0], 1, 10);
    message = mad_begin_unpacking(e->ch[0]);
    signal_peer(e);
    await_peer(e);
    CHECK_OK(mad_unpack(message, buf, len, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking_request(message, &r));
    CHECK_STATUS(mad_request_cancel(r), MAD_ERR_TOO_LATE);
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    HOLDS(buf, len, 4);
    free(buf);
    message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, &value, sizeof value, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    CHECK_EQ(value, len);
    signal_peer(e);
}

/* The receiver ignores the channel until the sender has no credits left.  Then the last message, and one before it,
 * have not been sent and can be cancelled. */
#define STUCK 4000

static void cancel_send_send(env_t *e)
{
    mad_request_t **r = get(STUCK * sizeof *r);
    int pending = 0, first = -1;
    char *buf = get(1024);
    fill(buf, 1024, 6);
    for (int i = 0; i < STUCK; i++) {
        mad_block_t blocks[2] = {{&i, sizeof i, SAFER, EXPRESS}, {buf, 1024, SAFER, LAZY}};
        CHECK_OK(mad_message_send(e->ch[0], e->peer, blocks, 2, &r[i]));
    }
    for (int i = 0; i < STUCK; i++)
        if (mad_request_test(&r[i]) == MAD_ERR_AGAIN) {
            pending++;
            first = first < 0 ? i : first;
        }
    CHECK_MSG(pending > 10, "only %d of %d messages of 1 KB are held back", pending, STUCK);
    if (pending > 10) {
        CHECK_OK(mad_request_cancel(r[STUCK - 1]));
        CHECK_STATUS(mad_request_wait(&r[STUCK - 1], MAD_FOREVER), MAD_ERR_CANCELLED);
        CHECK_OK(mad_request_cancel(r[STUCK - 5]));
        CHECK_STATUS(mad_request_test(&r[STUCK - 5]), MAD_ERR_CANCELLED);
    }
    signal_peer(e);
    for (int i = 0; i < STUCK; i++)
        if (r[i])
            CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
    send_numbered(e, e->ch[0], STUCK, 1024);
    free(buf);
    free(r);
}

static void cancel_send_receive(env_t *e)
{
    char *buf = get(1024);
    await_peer(e);
    for (int i = 0; i <= STUCK; i++) {
        int number = -1;
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        i += i == STUCK - 5 || i == STUCK - 1; /* these two messages were cancelled */
        CHECK_OK(mad_unpack(message, &number, sizeof number, SAFER, EXPRESS));
        CHECK_EQ(number, i);
        CHECK_OK(mad_unpack(message, buf, 1024, SAFER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
        HOLDS(buf, 1024, number == STUCK ? STUCK : 6);
    }
    free(buf);
}

/* ---- Callbacks -------------------------------------------------------------------------------------------------- */

typedef struct chain {
    env_t *e;
    _Atomic(int) count, bad;
    int value;
} chain_t;

/* Start the next send, because callbacks may start operations. */
static void sent_one(void *arg, mad_status_t status)
{
    chain_t *c = arg;
    mad_request_t *r = NULL;
    c->bad += status != MAD_OK;
    c->value = ++c->count;
    if (c->count >= 50)
        return;
    if (mad_message_send(c->e->ch[0], c->e->peer, &(mad_block_t){&c->value, sizeof c->value, SAFER, LAZY}, 1, &r))
        c->bad++;
    else
        mad_request_detach(r, sent_one, c);
}

static void callback_send(env_t *e)
{
    chain_t c = {.e = e};
    size_t len = 1 << 20;
    void *buf = get(len);
    mad_request_t *r = NULL;
    fill(buf, len, 7);
    CHECK_OK(mad_message_send(e->ch[0], e->peer, &(mad_block_t){buf, len, CHEAPER, LAZY}, 1, &r));
    mad_request_detach(r, sent_one, &c);
    CHECK_EQ(c.count, 0); /* the receiver has not begun to receive */
    signal_peer(e);
    while (c.count < 50)
        mad_progress(e->session);
    CHECK_EQ(c.bad, 0);
    free(buf);
}

static void got_one(void *arg, mad_status_t status)
{
    chain_t *c = arg;
    c->bad += status != MAD_OK;
    c->count++;
}

static void callback_receive(env_t *e)
{
    chain_t c = {.e = e};
    size_t len = 1 << 20;
    void *buf = get(len);
    int values[49];
    mad_request_t *r = NULL;
    await_peer(e);
    CHECK_OK(mad_message_receive(e->ch[0], e->peer, &(mad_block_t){buf, len, CHEAPER, LAZY}, 1, &r));
    mad_request_detach(r, got_one, &c);
    for (int i = 0; i < 49; i++) {
        values[i] = -1;
        CHECK_OK(mad_message_receive(e->ch[0], e->peer, &(mad_block_t){&values[i], sizeof values[i], SAFER, LAZY}, 1, &r));
        mad_request_detach(r, got_one, &c);
    }
    while (c.count < 50)
        mad_progress(e->session);
    CHECK_EQ(c.bad, 0);
    HOLDS(buf, len, 7);
    for (int i = 0; i < 49; i++)
        CHECK_EQ(values[i], i + 1);
    free(buf);
}

/* ---- Order ------------------------------------------------------------------------------------------------------ */

#define ORDER 1500

static void order_send(env_t *e)
{
    mad_request_t **requests = get(ORDER * sizeof *requests);
    void *buf = get(1 << 20);
    fill(buf, 1 << 20, 9);
    for (uint32_t i = 0; i < ORDER; i++) {
        size_t len = i % 300 == 299 ? 300000 : i % 40 == 39 ? 13000 : i % 7 * 100;
        mad_block_t blocks[2] = {{&i, sizeof i, SAFER, EXPRESS}, {buf, len, CHEAPER, LAZY}};
        requests[i] = NULL;
        if (i % 3 == 0) {
            CHECK_OK(mad_message_send(e->ch[0], e->peer, blocks, 2, &requests[i]));
        } else {
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            mad_pack(message, &i, sizeof i, SAFER, EXPRESS);
            if (i % 11 == 5)
                mad_message_flush(message);
            mad_pack(message, buf, len, CHEAPER, LAZY);
            if (i % 3 == 1)
                CHECK_OK(mad_end_packing_request(message, &requests[i]));
            else
                CHECK_OK(mad_end_packing(message));
        }
    }
    for (int i = 0; i < ORDER; i++)
        if (requests[i])
            CHECK_OK(mad_request_wait(&requests[i], MAD_FOREVER));
    free(buf);
    free(requests);
}

static void order_receive(env_t *e)
{
    void *buf = get(1 << 20);
    for (uint32_t i = 0; i < ORDER; i++) {
        size_t len = i % 300 == 299 ? 300000 : i % 40 == 39 ? 13000 : i % 7 * 100;
        uint32_t number = 0;
        mad_message_t *message = i % 2 ? mad_begin_unpacking(e->ch[0]) : mad_begin_unpacking_from(e->ch[0], e->peer);
        CHECK_OK(mad_unpack(message, &number, sizeof number, SAFER, EXPRESS));
        CHECK_EQ(number, i);
        CHECK_OK(mad_unpack(message, buf, len, CHEAPER, LAZY));
        CHECK_OK(mad_end_unpacking(message));
        HOLDS(buf, len, 9);
    }
    free(buf);
}

/* Messages that one call sends while another message is being packed follow that other message. */
static void held_send(env_t *e)
{
    for (int how = 0; how < 4; how++) {
        int value = 1, big = how & 2 ? 100000 : 40;
        void *buf = get((size_t)big);
        mad_request_t *r[3] = {NULL, NULL, NULL};
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        fill(buf, (size_t)big, 2);
        mad_pack(message, &value, sizeof value, SAFER, EXPRESS);
        if (how & 1)
            CHECK_OK(mad_message_flush(message));
        for (int i = 0; i < 3; i++) {
            value = 10 + i;
            CHECK_OK(mad_message_send(
                e->ch[0], e->peer,
                (mad_block_t[]){{&value, sizeof value, i == 1 ? LATER : SAFER, EXPRESS}, {buf, (size_t)big, CHEAPER, LAZY}},
                2, &r[i]));
        }
        value = 99;
        CHECK_STATUS(mad_request_test(&r[0]), MAD_ERR_AGAIN);
        mad_pack(message, buf, (size_t)big, CHEAPER, LAZY);
        CHECK_OK(mad_end_packing(message));
        for (int i = 0; i < 3; i++)
            if (r[i])
                CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        free(buf);
    }
}

static void held_receive(env_t *e)
{
    for (int how = 0; how < 4; how++)
        for (int i = 0; i < 4; i++) {
            int value = 0;
            size_t big = how & 2 ? 100000 : 40;
            void *buf = get(big);
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            CHECK_OK(mad_unpack(message, &value, sizeof value, i == 2 ? LATER : SAFER, EXPRESS));
            CHECK_EQ(value, i ? 9 + i : 1);
            CHECK_OK(mad_unpack(message, buf, big, CHEAPER, LAZY));
            CHECK_OK(mad_end_unpacking(message));
            HOLDS(buf, big, 2);
            free(buf);
        }
}

/* ---- Try -------------------------------------------------------------------------------------------------------- */

static void try_send(env_t *e)
{
    void *buf = get(1 << 20);
    mad_message_t *message;
    fill(buf, 1 << 20, 5);
    await_peer(e);
    message = mad_begin_packing(e->ch[0], e->peer);
    mad_pack(message, buf, 8, CHEAPER, EXPRESS);
    CHECK_OK(mad_message_flush(message));
    await_peer(e);
    mad_pack(message, buf, 16, CHEAPER, EXPRESS);
    mad_pack(message, buf, 5000, CHEAPER, LAZY);
    mad_pack(message, buf, 1 << 20, CHEAPER, LAZY);
    CHECK_OK(mad_end_packing(message));
    free(buf);
}

static void try_receive(env_t *e)
{
    unsigned char *buf = get(1 << 20), *mid = get(5000);
    mad_message_t *message = NULL;
    mad_status_t status;
    int64_t start = now_ns();
    CHECK_STATUS(mad_begin_unpacking_within(e->ch[0], MAD_ANY_SOURCE, 0, &message), MAD_ERR_AGAIN);
    CHECK_STATUS(mad_begin_unpacking_within(e->ch[0], e->peer, 0, &message), MAD_ERR_AGAIN);
    CHECK(message == NULL);
    CHECK_STATUS(mad_begin_unpacking_within(e->ch[0], MAD_ANY_SOURCE, 30 * MS, &message), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_begin_unpacking_within(e->ch[0], e->peer, 30 * MS, &message), MAD_ERR_TIMEOUT);
    CHECK_MSG(now_ns() - start >= 60 * MS && now_ns() - start < 10 * SECOND, "60 ms of time-outs took %lld ns",
              (long long)(now_ns() - start));
    signal_peer(e);
    while ((status = mad_begin_unpacking_within(e->ch[0], MAD_ANY_SOURCE, 0, &message)) == MAD_ERR_AGAIN)
        ;
    if (!CHECK_OK(status))
        return;
    CHECK_OK(mad_unpack_try(message, buf, 8, CHEAPER, EXPRESS));
    HOLDS(buf, 8, 5);
    memset(buf, 0x5a, 16);
    for (int i = 0; i < 10; i++)
        CHECK_STATUS(mad_unpack_try(message, buf, 16, CHEAPER, EXPRESS), MAD_ERR_AGAIN);
    CHECK_OK(mad_message_status(message));
    CHECK_EQ(buf[0], 0x5a);
    signal_peer(e);
    while ((status = mad_unpack_try(message, buf, 16, CHEAPER, EXPRESS)) == MAD_ERR_AGAIN)
        mad_progress(e->session);
    CHECK_OK(status);
    HOLDS(buf, 16, 5);
    CHECK_OK(mad_unpack_try(message, mid, 5000, CHEAPER, LAZY));
    CHECK_OK(mad_unpack_try(message, buf, 1 << 20, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    HOLDS(mid, 5000, 5);
    HOLDS(buf, 1 << 20, 5);
    free(buf);
    free(mid);
}

/* If mad_unpack_try succeeds, an EXPRESS block has arrived completely, also a big one. */
static void try_big_send(env_t *e)
{
    void *buf = get(1 << 20);
    mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
    fill(buf, 1 << 20, 5);
    mad_pack(message, buf, 1 << 20, CHEAPER, EXPRESS);
    CHECK_OK(mad_end_packing(message));
    free(buf);
}

static void try_big_receive(env_t *e)
{
    unsigned char *buf = get(1 << 20);
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    mad_status_t status;
    while ((status = mad_unpack_try(message, buf, 1 << 20, CHEAPER, EXPRESS)) == MAD_ERR_AGAIN)
        mad_progress(e->session);
    CHECK_OK(status);
    CHECK_MSG(HOLDS(buf, 1 << 20, 5), "mad_unpack_try of 1 MB EXPRESS said MAD_OK, and the block was not there");
    CHECK_OK(mad_end_unpacking(message));
    HOLDS(buf, 1 << 20, 5);
    free(buf);
}

const test_t request_tests[] = {
    {.name = "requests_many", .procs = 2, .send = many_send, .receive = many_receive},
    {.name = "requests_standing", .procs = 2, .send = standing_send, .receive = standing_receive},
    {.name = "requests_timeout", .procs = 2, .send = timeout_send, .receive = timeout_receive},
    {.name = "requests_cancel_too_late", .procs = 2, .send = too_late_send, .receive = too_late_receive},
    {.name = "requests_cancel_send",
     .procs = 2,
     .send = cancel_send_send,
     .receive = cancel_send_receive,
     .knob = "MAD_CREDIT_BUDGET=256K"},
    {.name = "requests_callback", .procs = 2, .send = callback_send, .receive = callback_receive},
    {.name = "requests_order", .procs = 2, .send = order_send, .receive = order_receive},
    {.name = "requests_order_held", .procs = 2, .send = held_send, .receive = held_receive},
    {.name = "try_begin_unpack", .procs = 2, .send = try_send, .receive = try_receive},
    {.name = "try_unpack_big_express", .procs = 2, .send = try_big_send, .receive = try_big_receive},
    {.name = NULL}};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one long block by request.  If the driver can, one of the two sides copies the block directly between the
 * buffers. */
#include "conform.h"

#define DIRECT 24

static size_t direct_len(int i)
{
    static const size_t lens[] = {40000, 65536, 100001, 262144, 262145, 1 << 20, 3000003, 100};
    return lens[(size_t)i % COUNT(lens)];
}

static void *filled(size_t len, uint32_t seed)
{
    void *p = get(len);
    fill(p, len, seed);
    return p;
}

static mad_block_t block(void *base, size_t len)
{
    return (mad_block_t){base, len, CHEAPER, LAZY};
}

static void send_one(env_t *e, size_t len, uint32_t seed)
{
    void *p = filled(len, seed);
    mad_block_t b = block(p, len);
    CHECK_OK(mad_message_send(e->ch[0], e->peer, &b, 1, NULL));
    free(p);
}

static void receive_one(env_t *e, size_t len, uint32_t seed)
{
    void *p = get(len);
    mad_message_t *c = mad_begin_unpacking_from(e->ch[0], e->peer);
    CHECK_OK(mad_unpack(c, p, len, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(c));
    HOLDS(p, len, seed);
    free(p);
}

/* All requests begin before the first one is waited for. */
static void requests_send(env_t *e)
{
    mad_request_t *r[DIRECT];
    void *p[DIRECT];
    for (int i = 0; i < DIRECT; i++) {
        mad_block_t b = block(p[i] = filled(direct_len(i), (uint32_t)i), direct_len(i));
        CHECK_OK(mad_message_send(e->ch[0], e->peer, &b, 1, &r[i]));
    }
    for (int i = 0; i < DIRECT; i++) {
        CHECK_OK(mad_request_wait(&r[i], MAD_FOREVER));
        free(p[i]);
    }
}

static void requests_receive(env_t *e)
{
    for (int i = 0; i < DIRECT; i++)
        receive_one(e, direct_len(i), (uint32_t)i);
}

/* Kind 0: each receive is posted and waited for in turn.  Kind 1: all are posted first.  Kind 2: as kind 0, with short
 * messages between them that have no posted receive. */
static void posts_send(env_t *e)
{
    for (int kind = 0; kind < 3; kind++) {
        if (kind)
            await_peer(e);
        for (int i = 0; i < DIRECT; i++) {
            if (kind == 2)
                send_one(e, 8, 77);
            if (kind != 1)
                await_peer(e);
            send_one(e, direct_len(i), (uint32_t)i);
        }
    }
}

static void post(env_t *e, int i, void **p, mad_request_t **r)
{
    mad_block_t b = block(*p = get(direct_len(i)), direct_len(i));
    CHECK_OK(mad_message_receive(e->ch[0], e->peer, &b, 1, r));
}

static void posted(int i, void *p, mad_request_t **r)
{
    CHECK_OK(mad_request_wait(r, MAD_FOREVER));
    HOLDS(p, direct_len(i), (uint32_t)i);
    free(p);
}

static void posts_receive(env_t *e)
{
    for (int kind = 0; kind < 3; kind++) {
        mad_request_t *r[DIRECT];
        void *p[DIRECT];
        for (int i = 0; i < DIRECT && kind == 1; i++)
            post(e, i, &p[i], &r[i]);
        if (kind)
            signal_peer(e);
        for (int i = 0; i < DIRECT; i++) {
            if (kind == 2)
                receive_one(e, 8, 77);
            if (kind != 1) {
                post(e, i, &p[i], &r[i]);
                signal_peer(e);
            }
            posted(i, p[i], &r[i]);
        }
    }
}

/* A receive cancelled before its message arrives leaves the message to the next one.  The second receive is cancelled
 * while the message for the first one arrives. */
static void cancel_send(env_t *e)
{
    for (int i = 0; i < DIRECT; i++) {
        await_peer(e);
        send_one(e, direct_len(5), (uint32_t)i);
    }
}

static void cancel_receive(env_t *e)
{
    for (int i = 0; i < DIRECT; i++) {
        mad_request_t *r[2];
        void *p[2];
        post(e, 5, &p[0], &r[0]);
        post(e, 5, &p[1], &r[1]);
        if (i % 2) {
            mad_status_t status;
            signal_peer(e);
            status = mad_request_cancel(r[1]); /* at this time the message for r[0] arrives */
            CHECK_STATUS(status, MAD_OK);
            CHECK_STATUS(mad_request_wait(&r[1], MAD_FOREVER), MAD_ERR_CANCELLED);
            CHECK_OK(mad_request_wait(&r[0], MAD_FOREVER));
            HOLDS(p[0], direct_len(5), (uint32_t)i);
        } else {
            CHECK_OK(mad_request_cancel(r[0]));
            CHECK_STATUS(mad_request_wait(&r[0], MAD_FOREVER), MAD_ERR_CANCELLED);
            fill(p[0], direct_len(5), 99);
            signal_peer(e);
            CHECK_OK(mad_request_wait(&r[1], MAD_FOREVER));
            HOLDS(p[1], direct_len(5), (uint32_t)i);
            HOLDS(p[0], direct_len(5), 99);
        }
        free(p[0]);
        free(p[1]);
    }
}

/* The message is shorter than its posted receive, or has one block more; the sender may use a request. */
static void other_send(env_t *e)
{
    void *p = filled(1 << 20, 3);
    mad_event_t event;
    for (int i = 0; i < 4; i++) {
        mad_block_t b[2] = {block(p, i % 2 ? 1 << 20 : 900000), block(p, 50000)};
        mad_request_t *r = NULL;
        mad_status_t status;
        await_peer(e);
        status = mad_message_send(e->ch[0], e->peer, b, 1 + i % 2, i < 2 ? NULL : &r);
        if (r)
            status = mad_request_wait(&r, MAD_FOREVER);
        CHECK(status == MAD_OK || status == MAD_ERR_MISMATCH);
    }
    await_peer(e);
    send_one(e, 1 << 20, 5);                             /* this message's grant comes behind the reports about the others */
    while (mad_event_next(e->session, &event) == MAD_OK) /* reports about messages that had left */
        CHECK_EQ(event.status, MAD_ERR_MISMATCH);
    free(p);
}

static void other_receive(env_t *e)
{
    void *p = get(1 << 20);
    mad_block_t b = block(p, 1 << 20);
    mad_request_t *r;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(mad_message_receive(e->ch[0], e->peer, &b, 1, &r));
        signal_peer(e);
        CHECK_STATUS(mad_request_wait(&r, MAD_FOREVER), MAD_ERR_MISMATCH);
    }
    CHECK_OK(mad_message_receive(e->ch[0], e->peer, &b, 1, &r));
    signal_peer(e);
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
    HOLDS(p, 1 << 20, 5);
    free(p);
}

/* Both sides wait, and each may copy a part.  Messages have several long blocks, received as a whole, in pieces, by
 * mad_unpack_try, or by a posted receive. */
#define SHARED (3 * DIRECT)

static void shared_send(env_t *e)
{
    for (int i = 0; i < SHARED; i++) {
        size_t len = direct_len(i / 3);
        void *p = filled(len, (uint32_t)i), *q = filled(len, (uint32_t)i + 1000);
        mad_message_t *c = mad_begin_packing(e->ch[0], e->peer);
        CHECK_OK(mad_pack(c, p, len, i % 2 ? SAFER : CHEAPER, i % 3 == 2 ? EXPRESS : LAZY));
        CHECK_OK(mad_pack(c, &i, sizeof i, SAFER, EXPRESS));
        CHECK_OK(mad_pack(c, q, len, i % 5 ? CHEAPER : LATER, LAZY));
        if (i % 2)
            memset(p, 0, len);
        CHECK_OK(mad_end_packing(c));
        memset(p, 0, len); /* the message has been sent, so reading these bytes now is an error */
        memset(q, 0, len);
        free(p);
        free(q);
    }
}

static void shared_posted(env_t *e, size_t len, void *p, void *q, int *number)
{
    mad_block_t b[3] = {block(p, len), {number, sizeof *number, SAFER, EXPRESS}, block(q, len)};
    mad_request_t *r;
    b[0].send_mode = SAFER; /* the blocks have the modes of i % 12 == 1 */
    CHECK_OK(mad_message_receive(e->ch[0], e->peer, b, 3, &r));
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
}

static void shared_unpack(env_t *e, int i, size_t len, char *p, char *q, int *number)
{
    mad_message_t *c = mad_begin_unpacking_from(e->ch[0], e->peer);
    mad_send_mode_t first = i % 2 ? SAFER : CHEAPER, last = i % 5 ? CHEAPER : LATER;
    struct iovec pieces[3] = {{p, len / 3}, {p + len / 3, 1}, {p + len / 3 + 1, len - len / 3 - 1}};
    mad_status_t status;
    if (i % 3 == 1) {
        CHECK_OK(mad_unpack_scatter(c, pieces, 3, first, LAZY));
    } else if (i % 3 == 2) {
        while ((status = mad_unpack_try(c, p, len, first, EXPRESS)) == MAD_ERR_AGAIN)
            ;
        CHECK_OK(status);
        HOLDS(p, len, (uint32_t)i);
    } else {
        CHECK_OK(mad_unpack(c, p, len, first, LAZY));
    }
    CHECK_OK(mad_unpack(c, number, sizeof *number, SAFER, EXPRESS));
    CHECK_OK(mad_unpack(c, q, len, last, LAZY));
    CHECK_OK(mad_end_unpacking(c));
}

static void shared_receive(env_t *e)
{
    for (int i = 0; i < SHARED; i++) {
        size_t len = direct_len(i / 3);
        char *p = get(len), *q = get(len);
        int number = -1;
        if (i % 12 == 1 && i % 5)
            shared_posted(e, len, p, q, &number);
        else
            shared_unpack(e, i, len, p, q, &number);
        CHECK(number == i);
        HOLDS(p, len, (uint32_t)i);
        HOLDS(q, len, (uint32_t)i + 1000);
        free(p);
        free(q);
    }
}

const test_t direct_tests[] = {{.name = "direct_requests", .procs = 2, .send = requests_send, .receive = requests_receive},
                               {.name = "direct_posts", .procs = 2, .send = posts_send, .receive = posts_receive},
                               {.name = "direct_cancel", .procs = 2, .send = cancel_send, .receive = cancel_receive},
                               {.name = "direct_shared", .procs = 2, .send = shared_send, .receive = shared_receive},
                               {.name = "direct_other", .procs = 2, .send = other_send, .receive = other_receive},
                               {.name = NULL}};

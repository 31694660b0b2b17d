/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sides disagree on the blocks: both get an error, no byte is written past a buffer, and the next message
 * works. */
#include "conform.h"

#include <sched.h>

typedef struct side {
    int n;
    struct {
        size_t len;
        mad_receive_mode_t mode;
    } b[4];
} side_t;

static const struct {
    const char *what;
    side_t sent, expected;
} cases[] = {
    {"shorter EXPRESS", {1, {{100, EXPRESS}}}, {1, {{50, EXPRESS}}}},
    {"longer EXPRESS", {1, {{100, EXPRESS}}}, {1, {{200, EXPRESS}}}},
    {"shorter CHEAPER", {2, {{8, EXPRESS}, {3000, LAZY}}}, {2, {{8, EXPRESS}, {2999, LAZY}}}},
    {"longer CHEAPER", {2, {{8, EXPRESS}, {3000, LAZY}}}, {2, {{8, EXPRESS}, {3001, LAZY}}}},
    {"receive mode", {2, {{8, EXPRESS}, {64, LAZY}}}, {2, {{8, EXPRESS}, {64, EXPRESS}}}},
    {"receive mode, other way", {2, {{8, EXPRESS}, {64, EXPRESS}}}, {2, {{8, EXPRESS}, {64, LAZY}}}},
    {"too few", {3, {{8, EXPRESS}, {64, LAZY}, {64, LAZY}}}, {2, {{8, EXPRESS}, {64, LAZY}}}},
    {"none taken", {2, {{8, EXPRESS}, {100000, LAZY}}}, {0, {{0, EXPRESS}}}},
    {"too many", {2, {{8, EXPRESS}, {64, LAZY}}}, {3, {{8, EXPRESS}, {64, LAZY}, {64, LAZY}}}},
    {"too many, EXPRESS", {1, {{8, EXPRESS}}}, {2, {{8, EXPRESS}, {64, EXPRESS}}}},
    {"one of an empty message", {0, {{0, LAZY}}}, {1, {{8, EXPRESS}}}},
    {"zero against some", {1, {{0, LAZY}}}, {1, {{8, LAZY}}}},
    {"big shorter", {2, {{8, EXPRESS}, {1 << 20, LAZY}}}, {2, {{8, EXPRESS}, {1 << 19, LAZY}}}},
    {"big longer", {2, {{8, EXPRESS}, {1 << 19, LAZY}}}, {2, {{8, EXPRESS}, {1 << 20, LAZY}}}},
    {"big EXPRESS", {2, {{1 << 20, EXPRESS}, {8, LAZY}}}, {2, {{1 << 19, EXPRESS}, {8, LAZY}}}},
    {"big against small", {2, {{8, EXPRESS}, {1 << 20, LAZY}}}, {2, {{8, EXPRESS}, {8, LAZY}}}},
    {"small against big", {2, {{8, EXPRESS}, {8, LAZY}}}, {2, {{8, EXPRESS}, {1 << 20, LAZY}}}},
    {"big mode", {1, {{1 << 20, LAZY}}}, {1, {{1 << 20, EXPRESS}}}},
    {"big, second of three",
     {4, {{300000, LAZY}, {300000, LAZY}, {300000, LAZY}, {9, EXPRESS}}},
     {4, {{300000, LAZY}, {300001, LAZY}, {300000, LAZY}, {9, EXPRESS}}}},
    {"too few, big left", {3, {{8, EXPRESS}, {1 << 20, LAZY}, {1 << 20, LAZY}}}, {2, {{8, EXPRESS}, {1 << 20, LAZY}}}},
};

static int drain_events(env_t *e, mad_peer_t peer, char *text)
{
    mad_event_t event;
    int n = 0;
    while (mad_event_next(e->session, &event) == MAD_OK) {
        n += event.status == MAD_ERR_MISMATCH && event.peer == peer;
        memcpy(text, event.text, sizeof event.text);
    }
    return n;
}

/* If the call returned MAD_OK, wait for an event, up to the test's deadline.  Yield, so that a user-level receiver
 * can run. */
static int wait_events(env_t *e, mad_status_t status, char *text)
{
    int n = 0;
    while (status == MAD_OK && !(n = drain_events(e, e->peer, text)))
        sched_yield();
    return n;
}

/* Return true if the event names a missing block exactly when one side has fewer blocks. */
static bool says_none(size_t i, const char *text)
{
    int sent = cases[i].sent.n, expected = cases[i].expected.n;
    return !!strstr(text, "the sender packed no such block;") == (sent < expected) &&
           !!strstr(text, "the receiver expects no such block") == (sent > expected);
}

/* Bit of how: 1: by request. */
static void cases_send(env_t *e)
{
    char text[256] = "";
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int how = 0; how < 2; how++) {
            const side_t *s = &cases[i].sent;
            void *bufs[4];
            mad_request_t *r = NULL;
            mad_status_t status;
            int events;
            mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
            for (int b = 0; b < s->n; b++) {
                bufs[b] = get(s->b[b].len);
                fill(bufs[b], s->b[b].len, (uint32_t)b);
                mad_pack(message, bufs[b], s->b[b].len, CHEAPER, s->b[b].mode);
            }
            if (how) {
                CHECK_OK(mad_end_packing_request(message, &r));
                status = mad_request_wait(&r, MAD_FOREVER);
            } else {
                status = mad_end_packing(message);
            }
            for (int b = 0; b < s->n; b++)
                free(bufs[b]);
            CHECK_MSG(status == MAD_OK || status == MAD_ERR_MISMATCH, "%s, how %d: %s", cases[i].what, how,
                      mad_status_name(status));
            events = wait_events(e, status, text);
            CHECK_MSG(status != MAD_OK || events == 1, "%s, how %d: the sender got %s and %d events (%s)", cases[i].what,
                      how, mad_status_name(status), events, text);
            if (events)
                CHECK_MSG(strstr(text, mad_channel_name(e->ch[0])) && says_none(i, text), "%s: event: %s", cases[i].what,
                          text);
            send_numbered(e, e->ch[0], (uint32_t)i, i % 3 == 2 ? 100000 : 100);
            await_peer(e);
            events += drain_events(e, e->peer, text);
            CHECK_MSG(events <= 1, "%s, how %d: %d events for one mismatch", cases[i].what, how, events);
        }
}

static void cases_receive(env_t *e)
{
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int how = 0; how < 2; how++) {
            const side_t *s = &cases[i].expected;
            unsigned char *bufs[4];
            mad_request_t *r = NULL;
            mad_status_t first = MAD_OK, status;
            mad_message_t *message = mad_begin_unpacking(e->ch[0]);
            for (int b = 0; b < s->n; b++) {
                bufs[b] = get(s->b[b].len + 256);
                status = mad_unpack(message, bufs[b], s->b[b].len, CHEAPER, s->b[b].mode);
                first = first ? first : status;
            }
            CHECK_MSG(first == MAD_OK || first == MAD_ERR_MISMATCH, "%s: %s", cases[i].what, mad_status_name(first));
            if (how) {
                CHECK_OK(mad_end_unpacking_request(message, &r));
                status = mad_request_wait(&r, MAD_FOREVER);
            } else {
                status = mad_end_unpacking(message);
            }
            CHECK_MSG(status == MAD_ERR_MISMATCH, "%s, how %d: the receiver got %s", cases[i].what, how,
                      mad_status_name(status));
            for (int b = 0; b < s->n; b++) {
                int bad = 0;
                for (int j = 0; j < 256; j++)
                    bad += bufs[b][s->b[b].len + (size_t)j] != 0x5a;
                CHECK_MSG(!bad, "%s, how %d: block %d, %d bytes written past it", cases[i].what, how, b, bad);
                free(bufs[b]);
            }
            receive_numbered(e, e->ch[0], (uint32_t)i, i % 3 == 2 ? 100000 : 100);
            signal_peer(e);
        }
}

/* Posted receives that do not match their message. */
static void posted_send(env_t *e)
{
    char text[256] = "";
    await_peer(e);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const side_t *s = &cases[i].sent;
        mad_block_t blocks[4];
        mad_request_t *r = NULL;
        mad_status_t status;
        int events;
        for (int b = 0; b < s->n; b++) {
            blocks[b] = (mad_block_t){get(s->b[b].len), s->b[b].len, CHEAPER, s->b[b].mode};
            fill(blocks[b].base, blocks[b].len, (uint32_t)b);
        }
        CHECK_OK(mad_message_send(e->ch[0], e->peer, blocks, s->n, &r));
        status = mad_request_wait(&r, MAD_FOREVER);
        events = wait_events(e, status, text);
        CHECK_MSG(status == MAD_ERR_MISMATCH || events == 1, "%s: the sender got %s and %d events", cases[i].what,
                  mad_status_name(status), events);
        for (int b = 0; b < s->n; b++)
            free(blocks[b].base);
        send_numbered(e, e->ch[0], (uint32_t)i, 100);
    }
}

static void posted_receive(env_t *e)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        const side_t *s = &cases[i].expected;
        mad_block_t blocks[4];
        mad_request_t *r = NULL;
        mad_status_t status;
        for (int b = 0; b < s->n; b++)
            blocks[b] = (mad_block_t){get(s->b[b].len + 256), s->b[b].len, CHEAPER, s->b[b].mode};
        CHECK_OK(mad_message_receive(e->ch[0], e->peer, blocks, s->n, &r));
        if (!i)
            signal_peer(e);
        status = mad_request_wait(&r, MAD_FOREVER);
        CHECK_MSG(status == MAD_ERR_MISMATCH, "%s: the posted receive got %s", cases[i].what, mad_status_name(status));
        for (int b = 0; b < s->n; b++) {
            int bad = 0;
            for (int j = 0; j < 256; j++)
                bad += ((unsigned char *)blocks[b].base)[blocks[b].len + (size_t)j] != 0x5a;
            CHECK_MSG(!bad, "%s: block %d, %d bytes written past it", cases[i].what, b, bad);
            free(blocks[b].base);
        }
        receive_numbered(e, e->ch[0], (uint32_t)i, 100);
    }
}

/* Blocks are unpacked before they arrive, and then the sender packs different ones. */
static void late_send(env_t *e)
{
    char text[256] = "";
    void *buf = get(100000);
    for (int round = 0; round < 4; round++) {
        int events;
        mad_status_t status;
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        mad_pack(message, buf, 8, CHEAPER, EXPRESS);
        mad_message_flush(message);
        await_peer(e); /* the receiver has unpacked all blocks */
        mad_pack(message, buf, 100, CHEAPER, LAZY);
        if (round)
            mad_pack(message, buf, round == 1 ? 200 : round == 2 ? 100000 : 5000, CHEAPER, LAZY);
        status = mad_end_packing(message);
        events = wait_events(e, status, text);
        CHECK_MSG(status == MAD_ERR_MISMATCH || events == 1, "round %d: the sender got %s and %d events", round,
                  mad_status_name(status), events);
        send_numbered(e, e->ch[0], 1, 100000);
    }
    free(buf);
}

static void late_receive(env_t *e)
{
    for (int round = 0; round < 4; round++) {
        unsigned char *a = get(8), *b = get(100), *c = get(300);
        mad_message_t *message = mad_begin_unpacking(e->ch[0]);
        CHECK_OK(mad_unpack(message, a, 8, CHEAPER, EXPRESS));
        CHECK_OK(mad_unpack(message, b, 100, CHEAPER, LAZY));
        CHECK_OK(mad_unpack(message, c, 250, CHEAPER, LAZY));
        signal_peer(e);
        CHECK_STATUS(mad_end_unpacking(message), MAD_ERR_MISMATCH);
        for (int i = 250; i < 300; i++)
            CHECK_EQ(c[i], 0x5a);
        receive_numbered(e, e->ch[0], 1, 100000);
        free(a);
        free(b);
        free(c);
    }
}

const test_t mismatch_tests[] = {{.name = "mismatch_cases", .procs = 2, .send = cases_send, .receive = cases_receive},
                                 {.name = "mismatch_posted", .procs = 2, .send = posted_send, .receive = posted_receive},
                                 {.name = "mismatch_late", .procs = 2, .send = late_send, .receive = late_receive},
                                 {.name = NULL}};

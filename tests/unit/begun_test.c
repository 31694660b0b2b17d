/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/recv/begun.c: a message whose last block is still being written.  The driver shows a part of the bytes, and
 * more at each look. */
#include "unit.h"

#include "core/core.h"
#include <stdlib.h>
#include <string.h>

#define HEAD 16   /* bytes: a descriptor, and a block of 8 bytes */
#define LEN 10000 /* bytes of the last block */
#define ALL (HEAD + 8 + LEN)

static size_t shown, step; /* shown: bytes of the body; step: bytes that arrive before each look */
static unsigned char body[ALL], out[LEN];

static uint64_t here_by_steps(madi_link_t *link, uint64_t begun)
{
    size_t n = shown;
    (void)link;
    ck_assert_uint_eq(begun, 77);
    shown += step;
    return n;
}

static const madi_driver_t driver = {.name = "begun", .fast.here = here_by_steps};
static madi_link_t link = {.driver = &driver};
static madi_rx_msg_t msg;

static uint64_t last_desc(void)
{
    return madi_wire_desc(LEN, MADI_WIRE_INLINE, MAD_RECEIVE_CHEAPER, 0);
}

/* Make the message as it is after its first block has been unpacked. */
static madi_rx_msg_t *setup(size_t first, size_t by)
{
    uint64_t desc = last_desc();
    memset(&msg, 0, sizeof msg);
    for (size_t i = 0; i < ALL; i++)
        body[i] = (unsigned char)(i * 7 + 1);
    memcpy(body + HEAD, &desc, 8);
    shown = first;
    step = by;
    atomic_store(&link.state, MADI_LINK_UP);
    msg.base.kind = MADI_MESSAGE_RX;
    msg.base.plain = 4;
    msg.begun = 77;
    msg.hdr.length = ALL;
    msg.first.link = &link;
    msg.first.loan = madi_foreign_of(body);
    msg.cur = msg.end = madi_foreign_of(body + HEAD);
    madi_begun_look(&msg);
    return &msg;
}

/* A body that arrives in steps of any size is complete at the end, and the message is then like any other one. */
START_TEST(body_is_unpacked_as_it_arrives)
{
    static const size_t steps[] = {1, 7, 64, 4096, LEN};
    for (size_t i = 0; i < MADI_COUNT(steps); i++) {
        madi_rx_msg_t *m = setup(HEAD + 8, steps[i]);
        memset(out, 0, sizeof out);
        ck_assert_uint_eq(madi_rx_left(m), 8);
        ck_assert(madi_begun_unpack(m, out, LEN, last_desc()));
        ck_assert_int_eq(memcmp(out, body + HEAD + 8, LEN), 0);
        ck_assert(!m->begun && m->base.plain == 3 && !madi_rx_left(m) && m->index == 1);
    }
}
END_TEST

/* Blocks that are not the last, or have another form, are left to other functions. */
START_TEST(only_the_expected_last_block_is_unpacked_early)
{
    madi_rx_msg_t *m = setup(HEAD + 8, 0);
    ck_assert(!madi_begun_unpack(m, out, LEN - 1, last_desc() - 1));
    ck_assert(!madi_begun_unpack(m, out, LEN, last_desc() ^ UINT64_C(1) << 50));
    m = setup(HEAD + 7, 0); /* a length that no sender shows */
    ck_assert(!madi_begun_unpack(m, out, LEN, last_desc()));
    m = setup(HEAD + 8, 0);
    m->hdr.length++;
    ck_assert(!madi_begun_unpack(m, out, LEN, last_desc()));
    ck_assert(m->begun && m->base.plain == 4);
}
END_TEST

/* If a peer lowers the number of bytes that it has shown, no byte is left out or unpacked twice. */
START_TEST(unpacked_length_never_falls)
{
    madi_rx_msg_t *m = setup(HEAD + 8 + 5000, 0);
    ck_assert_uint_eq(madi_rx_left(m), 8 + 5000);
    shown = 3;
    madi_begun_look(m);
    ck_assert_uint_eq(madi_rx_left(m), 8 + 5000);
    m = setup(HEAD + 8, (size_t)1 << 63); /* every other check shows all bytes */
    ck_assert(madi_begun_unpack(m, out, LEN, last_desc()));
    ck_assert_int_eq(memcmp(out, body + HEAD + 8, LEN), 0);
}
END_TEST

START_TEST(missing_rest_is_looked_and_waited_for)
{
    madi_rx_msg_t *m = setup(HEAD + 8, 100);
    madi_begun_look(m);
    ck_assert(m->begun && madi_rx_left(m) == 8 + 100);
    madi_begun_wait(m);
    ck_assert(!m->begun && m->base.plain == 3 && madi_rx_left(m) == 8 + LEN);
    m = setup(HEAD + 8, 100);
    madi_begun_spin(m);
    ck_assert(!m->begun && madi_rx_left(m) == 8 + LEN);
    m = setup(HEAD + 8, 0);
    madi_begun_spin(m); /* the call returns */
    ck_assert(m->begun);
    madi_begun_skip(m);
    ck_assert(!m->begun && m->base.plain == 3 && madi_rx_left(m) == 8 + LEN);
}
END_TEST

/* The sender dies in the middle: the message fails, and nothing of it is left to be read. */
START_TEST(link_lost_amid_a_body_fails_the_message)
{
    madi_rx_msg_t *m = setup(HEAD + 8 + 100, 0);
    ck_assert_int_eq(marceli_server_open(), 0);
    atomic_store(&link.state, MADI_LINK_DOWN);
    ck_assert(madi_begun_unpack(m, out, LEN, last_desc()));
    ck_assert_int_eq(madi_message_status(&m->base), MAD_ERR_PEER);
    ck_assert(!m->begun && !m->base.plain && !madi_rx_left(m));
    m = setup(HEAD + 8 + 100, 0);
    atomic_store(&link.state, MADI_LINK_DOWN);
    madi_begun_wait(m);
    ck_assert_int_eq(madi_message_status(&m->base), MAD_ERR_PEER);
    m = setup(ALL, 0); /* the message does not fail if all bytes had arrived */
    atomic_store(&link.state, MADI_LINK_DOWN);
    ck_assert(!m->begun && !madi_message_status(&m->base));
}
END_TEST

Suite *begun_suite(void)
{
    const TTest *tests[] = {
        body_is_unpacked_as_it_arrives,        only_the_expected_last_block_is_unpacked_early, unpacked_length_never_falls,
        missing_rest_is_looked_and_waited_for, link_lost_amid_a_body_fails_the_message,
    };
    return SUITE_OF("begun", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/api/borrow.c: the memory for borrowed blocks is bounded. */
#include "unit.h"

#include "core/core.h"

#include <madeleine/runtime.h>
#include <stdlib.h>

#define LEN ((size_t)64 << 10) /* bytes of a block that waits for a grant */

static mad_session_t *session;
static mad_channel_t *channel;
static char bytes[4 * LEN];

static mad_request_t *block_send(size_t len)
{
    mad_message_t *message = mad_begin_packing(channel, 0);
    mad_request_t *request;
    ck_assert_int_eq(mad_pack(message, bytes, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS), MAD_OK);
    ck_assert_int_eq(mad_end_packing_request(message, &request), MAD_OK);
    return request;
}

static mad_message_t *message_next(void)
{
    mad_message_t *message;
    ck_assert_int_eq(mad_begin_unpacking_within(channel, 0, INT64_C(10000000000), &message), MAD_OK);
    return message;
}

/* Borrow a block.  Return the status after as many tries as a block takes to arrive, and more. */
static mad_status_t borrow(mad_message_t *message, size_t expected)
{
    mad_status_t status = MAD_ERR_AGAIN;
    const void *base;
    size_t len = 0;
    for (int i = 0; i < 10000 && status == MAD_ERR_AGAIN; i++)
        status = mad_unpack_borrow(message, &base, &len);
    if (status == MAD_OK)
        ck_assert_uint_eq(len, expected);
    return status;
}

/* While a peer's bound is used up, its further blocks wait.  A block that is longer than the bound is refused. */
START_TEST(borrowed_blocks_are_bounded)
{
    mad_message_t *message[3];
    mad_request_t *sent[3];
    _Atomic(int64_t) *held;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "borrow", &channel), MAD_OK);
    madi_bounds[MADI_CHARGE_BORROWED].peer = LEN + LEN / 2;
    held = &session->ledger.held[MADI_CHARGE_BORROWED];
    sent[0] = block_send(LEN);
    sent[1] = block_send(LEN);
    sent[2] = block_send(4 * LEN);
    for (int i = 0; i < 3; i++)
        message[i] = message_next();
    ck_assert_int_eq(borrow(message[0], LEN), MAD_OK);
    ck_assert_int_eq(*held, LEN);
    ck_assert_int_eq(borrow(message[1], LEN), MAD_ERR_AGAIN);
    ck_assert_int_eq(borrow(message[2], 4 * LEN), MAD_ERR_NOMEM);
    ck_assert_int_eq(mad_end_unpacking(message[0]), MAD_OK);
    ck_assert_int_eq(borrow(message[1], LEN), MAD_OK);
    ck_assert_int_eq(*held, LEN);
    ck_assert_int_eq(mad_end_unpacking(message[1]), MAD_OK);
    ck_assert_int_eq(mad_end_unpacking(message[2]), MAD_ERR_NOMEM);
    ck_assert_int_eq(*held, 0);
    for (int i = 0; i < 3; i++)
        mad_request_wait(&sent[i], -1);
    mad_exit(session);
}
END_TEST

Suite *borrow_suite(void)
{
    const TTest *const tests[] = {borrowed_blocks_are_bounded};
    return SUITE_OF("borrow", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/send/policy.c: the path of a block by its length, its form, and the state of sender and receiver. */
#include "unit.h"

#include "base/base.h"
#include "core/send/policy.h"
#include <string.h>

/* Bytes: the limits of a link (madi_path_limits_t), and the room in a packet. */
#define GRANT_MIN 32768
#define DIRECT_MIN 12288
#define ANSWER_MIN 100000
#define ROOM 32744

/* Properties of a block and of its two sides: the flags of a row. */
enum { ONE = 1, HELD = 2, DIRECT = 4, POSTED = 8, ALONE = 16, ANSWERS = 32, BIG_ROOM = 64, ENGAGED = 128 };

typedef struct row {
    uint64_t len;
    unsigned is; /* flags */
    madi_path_sender_t sender;
    madi_path_t path;
} row_t;

static madi_path_t chosen(const row_t *row, uint64_t room, size_t grant_min, size_t direct_min)
{
    madi_path_limits_t limits = {grant_min, direct_min, ANSWER_MIN};
    madi_path_block_t b = {.len = row->len,
                           .room = row->is & BIG_ROOM ? 1 << 20 : room,
                           .contiguous = row->is & ONE,
                           .held = row->is & HELD,
                           .direct = row->is & DIRECT,
                           .posted = row->is & POSTED,
                           .alone = row->is & ALONE,
                           .answers = row->is & ANSWERS,
                           .engaged = row->is & ENGAGED,
                           .sender = row->sender};
    return madi_path_choose(&b, &limits);
}

static const row_t rows[] = {
    /* A block that fits goes with its message, whatever both sides do. */
    {0, ONE, MADI_SENDER_WAITS, MADI_PATH_COPY},
    {192, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_COPY},
    {193, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {192, 0, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {DIRECT_MIN - 1, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, ONE | POSTED | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ANSWER_MIN - 1, ONE | ANSWERS | BIG_ROOM, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ANSWER_MIN, ONE | ANSWERS | BIG_ROOM, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | BIG_ROOM, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | ANSWERS | BIG_ROOM, MADI_SENDER_COMPUTES, MADI_PATH_GRANT},
    {ROOM, DIRECT | POSTED | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, ONE | DIRECT | POSTED | ANSWERS, MADI_SENDER_POLLS, MADI_PATH_PACKET},
    {ROOM, ONE | DIRECT | ALONE, MADI_SENDER_COMPUTES, MADI_PATH_PACKET},
    /* A block that does not fit is announced even below the threshold. */
    {ROOM + 1, ONE, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    /* If the sender waits, the receiver reads the block, or the sender writes it. */
    {DIRECT_MIN, ONE | DIRECT | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_READ},
    {GRANT_MIN - 1, ONE | DIRECT | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_READ},
    {DIRECT_MIN, ONE | DIRECT | POSTED | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_WRITE},
    /* With a posted receive a waiting sender writes the block; a sender with a request goes on. */
    {GRANT_MIN, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_WRITE},
    {1 << 24, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_WRITE},
    {GRANT_MIN, ONE | POSTED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | DIRECT | POSTED | ALONE, MADI_SENDER_COMPUTES, MADI_PATH_READ},
    {GRANT_MIN, ONE | DIRECT | POSTED | ALONE, MADI_SENDER_POLLS, MADI_PATH_SHARE},
    /* Without a posted receive. */
    {GRANT_MIN, ONE | DIRECT, MADI_SENDER_WAITS, MADI_PATH_SHARE},
    {GRANT_MIN, ONE | DIRECT | ENGAGED, MADI_SENDER_WAITS, MADI_PATH_READ},
    {GRANT_MIN, ONE | DIRECT | ENGAGED, MADI_SENDER_POLLS, MADI_PATH_READ},
    {GRANT_MIN, ONE | ENGAGED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | DIRECT, MADI_SENDER_COMPUTES, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | DIRECT | ALONE, MADI_SENDER_COMPUTES, MADI_PATH_READ},
    {GRANT_MIN, ONE, MADI_SENDER_COMPUTES, MADI_PATH_GRANT},
    {GRANT_MIN, DIRECT, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    /* The bytes of the block may still change. */
    {8, ONE | HELD | DIRECT, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | HELD | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
};

START_TEST(path_follows_the_table)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(chosen(&rows[i], ROOM, GRANT_MIN, DIRECT_MIN) == rows[i].path, "row %zu, %llu bytes: %s, not %s", i,
                      (unsigned long long)rows[i].len, madi_path_name(chosen(&rows[i], ROOM, GRANT_MIN, DIRECT_MIN)),
                      madi_path_name(rows[i].path));
}
END_TEST

/* For each form and kind of sender: if a block is announced, so are all longer ones. */
START_TEST(path_has_one_threshold)
{
    for (unsigned is = 0; is < 64; is++)
        for (int sender = MADI_SENDER_WAITS; sender <= MADI_SENDER_COMPUTES; sender++) {
            bool announced = false;
            for (uint64_t len = 1; len < UINT64_C(1) << 24; len += len / 7 + 1) {
                row_t row = {len, is, (madi_path_sender_t)sender, MADI_PATH_GRANT};
                bool is_announced = chosen(&row, 1 << 18, 50000, 9000) > MADI_PATH_PACKET;
                ck_assert(is_announced || !announced);
                announced = is_announced;
            }
            ck_assert(announced);
        }
}
END_TEST

/* A block below all limits is never announced; a longer block sometimes is. */
START_TEST(packet_is_chosen_below_all_limits)
{
    static const madi_path_limits_t limits = {50000, 9000, 20000};
    bool announced = false;
    for (uint64_t len = 1; len < UINT64_C(1) << 17; len += len / 7 + 1)
        for (unsigned is = 0; is < 32; is++)
            for (int sender = MADI_SENDER_WAITS; sender <= MADI_SENDER_COMPUTES; sender++) {
                madi_path_block_t b = {.len = len,
                                       .room = UINT64_C(1) << 18,
                                       .contiguous = is & 1,
                                       .direct = is & 2,
                                       .posted = is & 4,
                                       .answers = is & 8,
                                       .alone = is & 16,
                                       .sender = (madi_path_sender_t)sender};
                bool is_packet = madi_path_choose(&b, &limits) <= MADI_PATH_PACKET;
                ck_assert(is_packet || !madi_path_is_packet(len, &limits));
                announced = announced || !is_packet;
            }
    ck_assert(announced);
    ck_assert(madi_path_is_packet(8999, &limits));
}
END_TEST

static size_t step_up(size_t len)
{
    return MADI_PATH_LEAST + (len - MADI_PATH_LEAST + MADI_PATH_STEP - 1) / MADI_PATH_STEP * MADI_PATH_STEP;
}

/* The limit is the length from which on the cheaper bytes outweigh the cost of the call. */
START_TEST(direct_min_follows_costs)
{
    madi_costs_t c = {.copy_ps = 60, .turn_ns = 150, .direct_ns = 1000, .direct_ps = 70, .both_ps = 45, .pipe_ps = 120};
    /* the limit of blocks that are read: their bytes and one piece save (1000 + 200) ns */
    ck_assert_uint_eq(madi_path_direct_min(&c, &madi_put_other), step_up((1200 * 1000 - 4096 * 120) / 50));
    c.direct_ns = 100; /* below begun_min, both sides copy the whole block */
    c.copy_ps = 70;
    ck_assert_uint_eq(madi_path_direct_min(&c, &madi_put_other), step_up(300 * 1000 / 70));
    c.direct_ns = 5000;
    c.direct_ps = 145;
    ck_assert_uint_eq(madi_path_direct_min(&c, &madi_put_other),
                      step_up(5350 * 1000 / 105)); /* the limit of shared blocks; a quarter is a piece */
    c.both_ps = c.direct_ps = 170;
    ck_assert_uint_eq(madi_path_direct_min(&c, &madi_put_other), MADI_PATH_MOST);
    c.both_ps = c.direct_ps = c.direct_ns = 0; /* the kernel forbids reading the other process's memory */
    ck_assert_uint_eq(madi_path_direct_min(&c, &madi_put_other), MADI_PATH_MOST);
}
END_TEST

/* A body has four pieces, unless they would be shorter or longer than the limits. */
START_TEST(put_pieces_are_bounded)
{
    const madi_put_t *const put[] = {&madi_put_intel, &madi_put_other};
    for (int i = 0; i < 2; i++)
        for (size_t len = put[i]->begun_min; len < 300000; len += 100) {
            size_t piece = madi_put_piece(put[i], len);
            ck_assert_uint_eq(piece % MADI_LINE, 0);
            ck_assert_uint_ge(piece, len < put[i]->long_min ? put[i]->piece_min : MADI_SHM_PIECE_MIN);
            ck_assert_uint_le(piece, MADI_SHM_PIECE_MAX);
            ck_assert(len / piece >= 1 && (piece == MADI_SHM_PIECE_MAX || len / piece <= MADI_SHM_PIECES + 1));
        }
    ck_assert(madi_put_of_host()->begun_min > 0);
}
END_TEST

START_TEST(tcp_grant_min_follows_costs)
{
    madi_costs_t at_once = {.tcp_sent_ns = 30, .tcp_granted_ns = 40}, answered = {.tcp_sent_ns = 40, .tcp_granted_ns = 30};
    madi_costs_t unknown = {0};
    ck_assert_uint_eq(madi_path_tcp_grant_min(&at_once), MADI_TCP_GRANT_MIN_HOST);
    ck_assert_uint_eq(madi_path_tcp_grant_min(&answered), MADI_TCP_GRANT_MIN);
    ck_assert_uint_eq(madi_path_tcp_grant_min(&unknown), MADI_TCP_GRANT_MIN);
}
END_TEST

START_TEST(direct_min_is_bounded)
{
    static const uint32_t odd[] = {0, 1, 1000, UINT32_MAX};
    for (int i = 0; i < 4 * 4 * 4 * 4 * 4; i++) {
        madi_costs_t c = {1, odd[i & 3], odd[i >> 2 & 3], odd[i >> 4 & 3], odd[i >> 6 & 3], odd[i >> 8 & 3], 1, 1, 1};
        size_t min = madi_path_direct_min(&c, &madi_put_intel);
        ck_assert(min >= MADI_PATH_LEAST && min <= MADI_PATH_MOST);
    }
}
END_TEST

START_TEST(path_wait_follows_length)
{
    ck_assert_int_eq(madi_path_wait_ns(0), 0);
    ck_assert_int_eq(madi_path_wait_ns(4000000), 1200000);
    ck_assert_int_eq(madi_path_wait_ns(UINT64_MAX), 4000000);
    for (uint64_t len = 1; len < UINT64_C(1) << 60; len *= 3)
        ck_assert_int_le(madi_path_wait_ns(len), madi_path_wait_ns(len * 3));
}
END_TEST

START_TEST(path_has_a_name)
{
    for (int i = 0; i < MADI_PATHS; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(madi_path_name((madi_path_t)i), madi_path_name((madi_path_t)k));
    ck_assert_str_eq(madi_path_name(MADI_PATHS), "unknown");
}
END_TEST

Suite *policy_suite(void)
{
    const TTest *tests[] = {
        path_follows_the_table,   path_has_one_threshold,   packet_is_chosen_below_all_limits,
        direct_min_follows_costs, put_pieces_are_bounded,   tcp_grant_min_follows_costs,
        direct_min_is_bounded,    path_wait_follows_length, path_has_a_name,
    };
    return SUITE_OF("policy", tests);
}

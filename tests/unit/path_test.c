/* SPDX-License-Identifier: BSD-3-Clause */
/* core/send/policy.c: the path of a block by its length, its form, and what both sides do. */
#include "unit.h"

#include "core/send/policy.h"
#include <string.h>

#define GRANT_MIN 32768
#define DIRECT_MIN 12288
#define ROOM 32744

enum { ONE = 1, HELD = 2, DIRECT = 4, POSTED = 8, ALONE = 16, ANSWERS = 32 };

typedef struct row {
    uint64_t len;
    unsigned is; /* of the above */
    madi_path_sender_t sender;
    madi_path_t path;
} row_t;

static madi_path_t chosen(const row_t *row, uint64_t room, size_t grant_min, size_t direct_min)
{
    madi_path_limits_t limits = {grant_min, direct_min};
    madi_path_block_t b = {.len = row->len,
                           .room = room,
                           .contiguous = row->is & ONE,
                           .held = row->is & HELD,
                           .direct = row->is & DIRECT,
                           .posted = row->is & POSTED,
                           .alone = row->is & ALONE,
                           .answers = row->is & ANSWERS,
                           .sender = row->sender};
    return madi_path_choose(&b, &limits);
}

static const row_t rows[] = {
    /* What fits goes with its message, whatever both sides do. */
    {0, ONE, MADI_SENDER_WAITS, MADI_PATH_COPY},
    {192, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_COPY},
    {193, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {192, 0, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {DIRECT_MIN - 1, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, ONE | POSTED | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, DIRECT | POSTED | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_PACKET},
    {ROOM, ONE | DIRECT | POSTED | ANSWERS, MADI_SENDER_POLLS, MADI_PATH_PACKET},
    {ROOM, ONE | DIRECT | ALONE, MADI_SENDER_COMPUTES, MADI_PATH_PACKET},
    /* What does not fit is announced even below the threshold. */
    {ROOM + 1, ONE, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    /* A sender that waits has it read, or writes it. */
    {DIRECT_MIN, ONE | DIRECT | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_READ},
    {GRANT_MIN - 1, ONE | DIRECT | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_READ},
    {DIRECT_MIN, ONE | DIRECT | POSTED | ANSWERS, MADI_SENDER_WAITS, MADI_PATH_WRITE},
    /* Posted: the sender that waits writes it; one that has a request goes on. */
    {GRANT_MIN, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_WRITE},
    {1 << 24, ONE | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_WRITE},
    {GRANT_MIN, ONE | POSTED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | DIRECT | POSTED | ALONE, MADI_SENDER_COMPUTES, MADI_PATH_READ},
    {GRANT_MIN, ONE | DIRECT | POSTED | ALONE, MADI_SENDER_POLLS, MADI_PATH_SHARE},
    /* Not posted. */
    {GRANT_MIN, ONE | DIRECT, MADI_SENDER_WAITS, MADI_PATH_SHARE},
    {GRANT_MIN, ONE | DIRECT, MADI_SENDER_COMPUTES, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | DIRECT | ALONE, MADI_SENDER_COMPUTES, MADI_PATH_READ},
    {GRANT_MIN, ONE, MADI_SENDER_COMPUTES, MADI_PATH_GRANT},
    {GRANT_MIN, DIRECT, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    /* Its bytes may still change. */
    {8, ONE | HELD | DIRECT, MADI_SENDER_WAITS, MADI_PATH_GRANT},
    {GRANT_MIN, ONE | HELD | DIRECT | POSTED, MADI_SENDER_WAITS, MADI_PATH_GRANT},
};

START_TEST(chooses)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(chosen(&rows[i], ROOM, GRANT_MIN, DIRECT_MIN) == rows[i].path, "row %zu, %llu bytes: %s, not %s", i,
                      (unsigned long long)rows[i].len, madi_path_name(chosen(&rows[i], ROOM, GRANT_MIN, DIRECT_MIN)),
                      madi_path_name(rows[i].path));
}
END_TEST

/* For each form and sender: once a block is announced, longer ones are too. */
START_TEST(one_threshold)
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

static bool limits_are(const madi_costs_t *costs, size_t grant_min, size_t direct_min)
{
    madi_path_limits_t limits = madi_path_limits(costs);
    return limits.grant_min == grant_min && limits.direct_min == direct_min;
}

/* A link of short turns: from a few KiB on.  Long ones: from hundreds. */
START_TEST(limits_follow_costs)
{
    madi_costs_t shm = {.copy_ps = 60, .turn_ns = 150, .direct_ns = 500, .direct_ps = 70, .copies = 1};
    madi_costs_t tcp = {.copy_ps = 60, .turn_ns = 8000, .copies = 1};
    ck_assert(limits_are(&tcp, 16000 * 1000 / 60, 0));
    ck_assert(limits_are(&shm, 300 * 1000 / 60, 850 * 1000 / 50));
    shm.copies = 0; /* both sides copy at once: only a quicker direct path is worth the announcement */
    ck_assert(limits_are(&shm, MADI_PATH_MOST, MADI_PATH_MOST));
    shm.direct_ps = 40;
    ck_assert(limits_are(&shm, MADI_PATH_MOST, 850 * 1000 / 20));
    shm.direct_ns = 0; /* forbidden */
    ck_assert(limits_are(&shm, MADI_PATH_MOST, 0));
}
END_TEST

START_TEST(limits_are_bounded)
{
    static const uint32_t odd[] = {0, 1, 1000, UINT32_MAX};
    for (int i = 0; i < 4 * 4 * 4 * 4 * 2; i++) {
        madi_costs_t c = {odd[i & 3], odd[i >> 2 & 3], odd[i >> 4 & 3], odd[i >> 6 & 3], (uint8_t)(i >> 8 ? 255 : 0)};
        madi_path_limits_t n = madi_path_limits(&c);
        ck_assert(n.grant_min >= MADI_PATH_LEAST && n.grant_min <= MADI_PATH_MOST);
        ck_assert(c.direct_ns ? n.direct_min >= MADI_PATH_LEAST && n.direct_min <= MADI_PATH_MOST : !n.direct_min);
    }
}
END_TEST

START_TEST(waits_as_long_as_bytes_take)
{
    ck_assert_int_eq(madi_path_wait_ns(0), 0);
    ck_assert_int_eq(madi_path_wait_ns(4000000), 1200000);
    ck_assert_int_eq(madi_path_wait_ns(UINT64_MAX), 4000000);
    for (uint64_t len = 1; len < UINT64_C(1) << 60; len *= 3)
        ck_assert_int_le(madi_path_wait_ns(len), madi_path_wait_ns(len * 3));
}
END_TEST

START_TEST(named)
{
    for (int i = 0; i < MADI_PATHS; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(madi_path_name((madi_path_t)i), madi_path_name((madi_path_t)k));
    ck_assert_str_eq(madi_path_name(MADI_PATHS), "unknown");
}
END_TEST

Suite *path_suite(void)
{
    const TTest *tests[] = {chooses, one_threshold, limits_follow_costs, limits_are_bounded, waits_as_long_as_bytes_take,
                            named};
    return SUITE_OF("path", tests);
}

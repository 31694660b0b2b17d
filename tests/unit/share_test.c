/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/send/share.c: the choice between copying and sharing a block, from measured times. */
#include "unit.h"

#include "core/send/share.h"
#include <string.h>

#define LEN 65536

/* Move n blocks that take cost[shared] ns each.  Return how many were shared. */
static int blocks(madi_share_t *s, int n, uint64_t len, const int64_t cost[2])
{
    int shared = 0;
    while (n--) {
        bool timed, way = madi_share_next(s, len, &timed);
        if (timed)
            madi_share_record(s, len, way, cost[way]);
        shared += way;
    }
    return shared;
}

static const int64_t far_apart[2] = {22000, 5600}, near[2] = {2600, 5600}, same[2] = {5000, 5000}, little[2] = {5000, 4500};

/* number of blocks in a row that are measured: 4 MiB */
#define TRY (64 - 1)

/* Both methods are measured, and then the faster one is used.  Further trials of the slower method cost little, however slow
 * it is. */
START_TEST(share_learns_the_faster_path)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    int n;
    ck_assert_int_eq(blocks(&s, TRY, LEN, far_apart), 0);
    ck_assert_int_eq(blocks(&s, TRY, LEN, far_apart), TRY);
    blocks(&s, 20000, LEN, far_apart); /* trials are more frequent at first */
    n = 100000 - blocks(&s, 100000, LEN, far_apart);
    ck_assert_int_gt(n, TRY);
    ck_assert_double_lt(n * 22000., 100000 * 5600. / 50);

    s = (madi_share_t){.lead = MADI_SHARE_LEAD};
    blocks(&s, 2 * TRY, LEN, near);
    blocks(&s, 20000, LEN, near);
    n = blocks(&s, 100000, LEN, near);
    ck_assert_int_gt(n, TRY);
    ck_assert_double_lt(n * 5600., 100000 * 2600. / 50);

    s = (madi_share_t){.lead = MADI_SHARE_LEAD};
    blocks(&s, 20000, LEN, same);
    ck_assert_int_le(blocks(&s, 64 * TRY, LEN, same), TRY + 1); /* without a clear difference, blocks are copied */

    s = (madi_share_t){.lead = MADI_SHARE_LEAD};
    blocks(&s, 20000, LEN, little);
    ck_assert_int_le(blocks(&s, 64 * TRY, LEN, little), TRY + 1);
}
END_TEST

/* Long blocks use all memory of the link in each block, so a smaller difference is believed. */
START_TEST(share_believes_a_small_lead_of_long_blocks)
{
    static const int64_t lead[2] = {200000, 180000}, hardly[2] = {200000, 195000};
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    blocks(&s, 1000, 4 << 20, lead);
    ck_assert_int_ge(blocks(&s, 1000, 4 << 20, lead), 900);
    s = (madi_share_t){.lead = MADI_SHARE_LEAD};
    blocks(&s, 1000, 4 << 20, hardly);
    ck_assert_int_le(blocks(&s, 1000, 4 << 20, hardly), 100);
}
END_TEST

/* The first uses of a method are slow, and do not decide. */
START_TEST(share_ignores_the_first_uses)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    static const int64_t slow[2] = {25000, 14000};
    for (int i = 0; i < 2; i++) {
        blocks(&s, 20, LEN, slow);
        blocks(&s, TRY - 20, LEN, near);
    }
    ck_assert_int_eq(blocks(&s, 100, LEN, near), 0);
}
END_TEST

/* Sharing uses no memory of the link, so its trials are short, and a program's first blocks lose little by them. */
START_TEST(share_is_tried_with_few_blocks)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    ck_assert_int_le(blocks(&s, 2000, LEN, near), 5 * MADI_SHARE_TRY_BLOCKS_MIN);
}
END_TEST

/* Either method can be the first one that is tried. */
START_TEST(share_begins_with_either_method)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD, .shared_first = true};
    ck_assert_int_eq(blocks(&s, MADI_SHARE_TRY_BLOCKS_MIN, LEN, near), MADI_SHARE_TRY_BLOCKS_MIN);
    ck_assert_int_eq(blocks(&s, 4 * TRY, LEN, near), 0);
}
END_TEST

/* If the faster method looked slow in a trial, as on a busy host, this is corrected within a few hundred blocks. */
START_TEST(share_recovers_from_a_bad_trial)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    static const int64_t busy[2] = {22000, 220000};
    int n = 0;
    blocks(&s, 2 * TRY + 10, LEN, busy);
    while (n < 1000 && blocks(&s, 16, LEN, far_apart) < 16)
        n += 16;
    ck_assert_int_le(n, 5 * TRY);
}
END_TEST

/* When the processes move, the other method may become the faster one. */
START_TEST(share_follows_moved_processes)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    blocks(&s, 2 * TRY + 10, LEN, near);
    blocks(&s, 8 * MADI_SHARE_KEPT, LEN, far_apart); /* one block in eight is timed */
    ck_assert_int_eq(blocks(&s, 64, LEN, far_apart), 64);
    blocks(&s, 64 * 64 * 9, LEN, near); /* the change is noticed when the other method is tried */
    ck_assert_int_eq(blocks(&s, 64, LEN, near), 0);
}
END_TEST

/* A single very large or very small time changes nothing. */
START_TEST(share_ignores_a_single_outlier)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    blocks(&s, 2 * TRY, LEN, far_apart);
    for (int i = 0; i < 3; i++) {
        madi_share_record(&s, LEN, true, 9000000);
        madi_share_record(&s, LEN, false, 1);
        ck_assert_int_eq(blocks(&s, 16, LEN, far_apart), 16);
        madi_share_record(&s, LEN, false, 22000);
        madi_share_record(&s, LEN, false, 22000);
        madi_share_record(&s, LEN, false, 22000);
    }
}
END_TEST

/* Each class of lengths has its own choice.  Within a class, times are per byte. */
START_TEST(share_chooses_by_class_of_lengths)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    static const int64_t longer[2] = {39000, 9900};
    blocks(&s, 200, LEN, near);
    blocks(&s, 260, 4 * LEN, far_apart);
    ck_assert_int_eq(blocks(&s, 32, LEN, near), 0);
    ck_assert_int_eq(blocks(&s, 32, 4 * LEN, far_apart), 32);
    ck_assert_int_eq(blocks(&s, 32, 7 * LEN, longer), 32); /* a length of the same class */
    blocks(&s, 20, UINT64_C(1) << 40, far_apart);
    ck_assert_int_eq(blocks(&s, 24, UINT64_C(1) << 47, far_apart), 24); /* a length of the last class */
    blocks(&s, 300, 20000, far_apart);
    ck_assert_int_eq(blocks(&s, 32, 40000, far_apart), 32); /* a length of the first class */
}
END_TEST

/* Impossible times cause at most a wrong choice, which does not last. */
START_TEST(share_survives_impossible_times)
{
    madi_share_t s = {.lead = MADI_SHARE_LEAD};
    static const int64_t odd[2] = {INT64_MAX, 0}, zero[2] = {0, 0};
    blocks(&s, 1000, LEN, odd);
    blocks(&s, 1000, 1, odd);
    blocks(&s, 1000, 0, zero);
    blocks(&s, 1000, UINT64_MAX, odd);
    blocks(&s, 16 * 64 * 64 * 2, LEN, near);
    ck_assert_int_le(blocks(&s, 64 * TRY, LEN, near), TRY + 1);
}
END_TEST

/* A caller that polled immediately the last time is expected to do so again. */
START_TEST(share_expects_the_last_polling_habit)
{
    madi_share_habit_t h = {0};
    ck_assert(!madi_share_begun(&h, 1000000)); /* no habit is known yet */
    madi_share_polled(&h, 1000300);
    madi_share_polled(&h, 1900000); /* only the first poll counts */
    ck_assert(madi_share_begun(&h, 2000000));
    madi_share_polled(&h, 2050000); /* the calling thread computed first */
    ck_assert(!madi_share_begun(&h, 3000000));
    ck_assert(!madi_share_begun(&h, 3000200)); /* the last of several begun operations counts */
    madi_share_polled(&h, 3000400);
    ck_assert(madi_share_begun(&h, 4000000));
}
END_TEST

Suite *share_suite(void)
{
    const TTest *tests[] = {
        share_learns_the_faster_path,
        share_ignores_the_first_uses,
        share_recovers_from_a_bad_trial,
        share_is_tried_with_few_blocks,
        share_begins_with_either_method,
        share_follows_moved_processes,
        share_ignores_a_single_outlier,
        share_chooses_by_class_of_lengths,
        share_survives_impossible_times,
        share_expects_the_last_polling_habit,
        share_believes_a_small_lead_of_long_blocks,
    };
    return SUITE_OF("share", tests);
}

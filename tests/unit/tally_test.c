/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of mpi/openmpi/tally.c. */
#include "unit.h"

#include "mpi/openmpi/tally.h"
#include <stdlib.h>

START_TEST(tally_bounds_each_peer_alone)
{
    mad_btl_tally_t tally = {.n = 0};
    for (int i = 0; i < 5; i++)
        ck_assert(mad_btl_tally_add(&tally, 70, 5));
    ck_assert(!mad_btl_tally_add(&tally, 70, 5));
    ck_assert(mad_btl_tally_add(&tally, 69, 5));
    ck_assert(mad_btl_tally_add(&tally, 1000, 1)); /* a larger array, with the same numbers */
    ck_assert(!mad_btl_tally_add(&tally, 1000, 1));
    ck_assert(!mad_btl_tally_add(&tally, 70, 5));
    mad_btl_tally_remove(&tally, 70);
    ck_assert(mad_btl_tally_add(&tally, 70, 5));
    ck_assert(!mad_btl_tally_add(&tally, 70, 5));
    free(tally.by_peer);
}
END_TEST

Suite *tally_suite(void)
{
    const TTest *tests[] = {tally_bounds_each_peer_alone};
    return SUITE_OF("tally", tests);
}

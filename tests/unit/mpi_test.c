/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/mpi/mpi_lib.c and mpi_receive.c. */
#include "unit.h"

#include "drivers/mpi/mpi.h"
#include <string.h>

START_TEST(mpi_knows_objects_by_which_mpi_runs_over_madeleine)
{
    ck_assert(mpi_object_is_ours("/usr/lib/openmpi/mca_pml_mad.so"));
    ck_assert(mpi_object_is_ours("mca_btl_mad.so"));
    ck_assert(mpi_object_is_ours("/opt/libfabric/libmad-fi.so"));
    ck_assert(!mpi_object_is_ours("/usr/lib/openmpi/mca_pml_madness.so"));
    ck_assert(!mpi_object_is_ours("/home/mca_pml_mad.so/libmpi.so.40"));
    ck_assert(!mpi_object_is_ours(""));
}
END_TEST

/* Make a message that announces a body. */
static mpi_buffer_t *announcement(uint32_t length, uint32_t body_tag)
{
    static mpi_buffer_t b;
    mpi_announced_t announced = {.hdr = {.type = MADI_WIRE_MSG, .length = length}, .body_tag = body_tag};
    b.len = WORLD_ANNOUNCED;
    memcpy(b.data, &announced, WORLD_ANNOUNCED);
    return &b;
}

START_TEST(mpi_reads_announced_bodies_that_a_peer_can_send)
{
    mpi_announced_t read;
    mpi_buffer_t *b = announcement(1 << 20, WORLD_BODY_TAG + 5);
    ck_assert(mpi_announced_read(b, &read));
    ck_assert_uint_eq(read.hdr.length, 1 << 20);
    ck_assert_uint_eq(read.body_tag, WORLD_BODY_TAG + 5);
    ck_assert(!mpi_announced_read(announcement(4, WORLD_BODY_TAG), &read)); /* a packet of the same length */
    ck_assert(!mpi_announced_read(announcement(UINT32_MAX, WORLD_BODY_TAG), &read));
    ck_assert(!mpi_announced_read(announcement(1 << 20, WORLD_TAG), &read));
    ck_assert(!mpi_announced_read(announcement(1 << 20, WORLD_BODY_TAG + WORLD_BODY_TAGS), &read));
    b = announcement(1 << 20, WORLD_BODY_TAG);
    b->len--;
    ck_assert(!mpi_announced_read(b, &read));
}
END_TEST

Suite *mpi_suite(void)
{
    Suite *s = suite_create("mpi");
    TCase *c = tcase_create("mpi");
    tcase_add_test(c, mpi_knows_objects_by_which_mpi_runs_over_madeleine);
    tcase_add_test(c, mpi_reads_announced_bodies_that_a_peer_can_send);
    suite_add_tcase(s, c);
    return s;
}

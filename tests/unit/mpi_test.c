/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/mpi/mpi_lib.c, mpi_receive.c and mpi_world.c. */
#include "unit.h"

#include "drivers/mpi/mpi.h"
#include <stdlib.h>
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

/* ---- One peer among others ---------------------------------------------------------------------------------------- */

#define RANKS 3
#define TRUNCATED 15 /* the error of the library below */

static mpi_world_t world;
static mpi_adapter_t adapter;
static mpi_link_t links[RANKS]; /* link i: to rank i */
static int long_from;           /* rank that has sent a message that is too long; -1 if none has */

static int library_receive(void *bytes, size_t len, int rank, int tag, mpi_request_t *request)
{
    (void)bytes, (void)len, (void)rank, (void)tag, (void)request;
    return 0;
}

static int library_test_from(mpi_request_t *request, bool *is_done, mpi_from_t *from)
{
    (void)request;
    *is_done = long_from >= 0;
    if (long_from < 0)
        return 0;
    *from = (mpi_from_t){.source = long_from, .bytes = 100};
    long_from = -1;
    return TRUNCATED;
}

static bool library_is_too_long(int error)
{
    return error == TRUNCATED;
}

static const mpi_calls_t library = {
    .receive = library_receive, .test_from = library_test_from, .is_too_long = library_is_too_long};

static void world_make(void)
{
    static void *table[RANKS] = {&links[0], &links[1], &links[2]};
    world = (mpi_world_t){.lib.calls = &library, .size = RANKS, .adapters = &adapter, .links = {.links = table, .n = RANKS}};
    adapter = (mpi_adapter_t){.base.ops = &mpi_ops, .world = &world};
    for (int i = 0; i < RANKS; i++)
        links[i] = (mpi_link_t){.base = {.link.adapter = &adapter.base.adapter,
                                         .link.state = MADI_LINK_DOWN,
                                         .index = i,
                                         .key = 1,
                                         .numbered = true,
                                         .is_up = true,
                                         .own_tag = fabric_tag(FABRIC_KIND_PACKET, 1, (uint16_t)i)},
                                .peer = {.rank = (uint32_t)i}};
    long_from = -1;
}

START_TEST(mpi_message_that_is_too_long_ends_the_links_of_its_sender)
{
    world_make();
    ck_assert_ptr_null(mpi_slot_look(&world));
    ck_assert_uint_eq(world.posted, WORLD_SLOTS);
    long_from = 2;
    ck_assert_ptr_null(mpi_slot_look(&world));
    ck_assert_int_eq(world.error, 0);
    ck_assert_int_eq(fabric_send_error(&links[1].base), 0);
    ck_assert_int_eq(fabric_send_error(&links[2].base), TRUNCATED);
    ck_assert(links[2].too_long && !links[1].too_long);
    ck_assert_ptr_null(mpi_slot_look(&world));
    ck_assert_uint_eq(world.posted, WORLD_SLOTS); /* the receive is posted again */
}
END_TEST

/* Have a packet of len bytes arrive from rank 1. */
static void packet_arrive(size_t len)
{
    mpi_buffer_t *b = world.buffers ? world.buffers : calloc(1, sizeof *b);
    world.buffers = NULL;
    b->source = 1;
    b->len = len;
    b->early.tag = links[1].base.own_tag;
    memset(b->data, 'x', len);
    mpi_packet_handle(&adapter, b);
}

START_TEST(mpi_packets_behind_a_body_are_bounded)
{
    size_t n;
    world_make();
    links[1].base.receiving = &links[1];
    for (n = 0; n < 20000; n++)
        packet_arrive(8);
    ck_assert(!links[1].base.down);
    ck_assert_uint_lt(links[1].base.early_bytes, 20000 * 200); /* short packets do not keep their buffers */
    for (n = 0; n < 4096 && !links[1].base.down; n++)
        packet_arrive(WORLD_PACKET_MAX);
    ck_assert(links[1].base.down);
    ck_assert(!links[2].base.down);
    ck_assert_uint_le(links[1].base.early_bytes, FABRIC_EARLY_BYTES);
    links[1].base.receiving = NULL;
    mpi_receive_forget(&links[1]);
    ck_assert_uint_eq(links[1].base.early_bytes, 0);
}
END_TEST

Suite *mpi_suite(void)
{
    Suite *s = suite_create("mpi");
    TCase *c = tcase_create("mpi");
    tcase_add_test(c, mpi_knows_objects_by_which_mpi_runs_over_madeleine);
    tcase_add_test(c, mpi_reads_announced_bodies_that_a_peer_can_send);
    tcase_add_test(c, mpi_message_that_is_too_long_ends_the_links_of_its_sender);
    tcase_add_test(c, mpi_packets_behind_a_body_are_bounded);
    suite_add_tcase(s, c);
    return s;
}

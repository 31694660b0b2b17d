/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/fabric/order.c, control.c and poll.h: the order of packets, messages between the drivers, and polls. */
#include "unit.h"

#include "drivers/fabric/control.h"
#include "drivers/fabric/order.h"
#include "drivers/fabric/poll.h"

#define MANY (FABRIC_EARLY_MAX + 8)

static fabric_early_t packets[MANY];
static fabric_adapter_t adapter;
static fabric_link_t first;
static uint16_t delivered[MANY];
static int n_delivered, n_put, defers; /* defers: packets that `deliver` leaves for later */
static fabric_control_t sent[8];
static int n_sent;

static bool packet_deliver(fabric_link_t *l, fabric_early_t *packet)
{
    if (defers > 0) {
        defers--;
        return false;
    }
    delivered[n_delivered++] = fabric_tag_number(packet->tag);
    l->expected++;
    return true;
}

static bool packet_deliver_close(fabric_link_t *l, fabric_early_t *packet)
{
    (void)packet;
    l->closed = true;
    return false;
}

static void packet_put(fabric_link_t *l, fabric_early_t *packet)
{
    (void)l, (void)packet;
    n_put++;
}

static void numbered_run(fabric_link_t *l)
{
    fabric_early_run(l, true, packet_deliver, packet_put);
}

/* True if a packet with this tag is the next one of `first`, which has index 1 and key 1. */
static bool is_in_turn(uint64_t tag)
{
    fabric_table_t table = {.links = (void *[]){NULL, &first}, .n = 2};
    return fabric_link_in_turn(&table, tag, true) == &first;
}

static bool control_note(fabric_link_t *l, fabric_what_t what, uint32_t number)
{
    (void)l;
    sent[n_sent++] = (fabric_control_t){what, number};
    return true;
}

static const fabric_ops_t ops = {.name = "unit", .early_run = numbered_run, .control_send = control_note};

static void link_make(uint16_t expected)
{
    adapter = (fabric_adapter_t){.ops = &ops};
    first = (fabric_link_t){.link.adapter = &adapter.adapter,
                            .link.state = MADI_LINK_DOWN, /* the core ignores reports about the link */
                            .is_up = true,
                            .own_tag = fabric_tag(FABRIC_KIND_PACKET, 1, 1),
                            .expected = expected};
    n_delivered = n_put = defers = n_sent = 0;
}

static fabric_early_t *packet_of(int i, uint16_t number)
{
    packets[i] = (fabric_early_t){.tag = fabric_tag(FABRIC_KIND_PACKET, 1, 1) | number};
    return &packets[i];
}

/* ---- Order ------------------------------------------------------------------------------------------------------- */

START_TEST(packets_are_delivered_by_number_across_the_wrap)
{
    static const uint16_t order[] = {1, 0xffff, 2, 0, 0xfffe};
    link_make(0xfffe);
    for (int i = 0; i < 5; i++) {
        ck_assert(fabric_early_insert(&first, packet_of(i, order[i]), 1));
        numbered_run(&first);
        ck_assert_int_eq(n_delivered, i < 4 ? 0 : 5);
    }
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(delivered[i], (uint16_t)(0xfffe + i));
    ck_assert_ptr_null(first.early);
}
END_TEST

START_TEST(packets_that_came_before_are_refused)
{
    link_make(10);
    ck_assert(fabric_early_insert(&first, packet_of(0, 12), 1));
    ck_assert(!fabric_early_insert(&first, packet_of(1, 12), 1));
    ck_assert(!fabric_early_insert(&first, packet_of(2, 9), 1));
    ck_assert_ptr_eq(first.early, &packets[0]);
    ck_assert_ptr_null(packets[0].next);
}
END_TEST

START_TEST(packets_behind_a_missing_one_are_bounded)
{
    link_make(0);
    for (int i = 0; i < FABRIC_EARLY_MAX; i++)
        ck_assert_int_eq(fabric_early_add(&first.early, packet_of(i, (uint16_t)(i + 1)), 0, true), FABRIC_PLACE_ADDED);
    fabric_early_t *packet = packet_of(FABRIC_EARLY_MAX, FABRIC_EARLY_MAX + 1);
    ck_assert_int_eq(fabric_early_add(&first.early, packet, 0, true), FABRIC_PLACE_MANY);
    ck_assert_int_eq(fabric_early_add(&first.early, packet, 0, false), FABRIC_PLACE_ADDED); /* a body is on its way */
}
END_TEST

START_TEST(packets_far_ahead_are_refused_in_any_order)
{
    link_make(0);
    for (uint16_t number = 0x7fff; number > FABRIC_EARLY_MAX; number--)
        ck_assert_int_eq(fabric_early_add(&first.early, packet_of(0, number), 0, true), FABRIC_PLACE_MANY);
    for (int i = FABRIC_EARLY_MAX; i > 0; i--)
        ck_assert_int_eq(fabric_early_add(&first.early, packet_of(i, (uint16_t)i), 0, true), FABRIC_PLACE_ADDED);
}
END_TEST

START_TEST(memory_of_packets_behind_a_body_is_bounded)
{
    link_make(0);
    first.receiving = &first;
    for (int i = 0; i < 4; i++)
        ck_assert(fabric_early_insert(&first, packet_of(i, (uint16_t)(i * FABRIC_EARLY_MAX)), FABRIC_EARLY_BYTES / 4));
    ck_assert(!first.down);
    ck_assert(!fabric_early_insert(&first, packet_of(4, 1), 1));
    ck_assert(first.down);
    fabric_early_forget(&first, packet_put);
    ck_assert_int_eq(n_put, 4);
    ck_assert_uint_eq(first.early_bytes, 0);
}
END_TEST

START_TEST(packets_before_the_link_is_up_are_bounded)
{
    link_make(0);
    first.is_up = false;
    ck_assert(fabric_early_insert(&first, packet_of(0, FABRIC_EARLY_MAX), FABRIC_UNPROVED_BYTES));
    ck_assert(!first.down);
    ck_assert(!fabric_early_insert(&first, packet_of(1, 1), 1));
    ck_assert(first.down);
    link_make(0);
    first.is_up = false;
    ck_assert(!fabric_early_insert(&first, packet_of(0, FABRIC_EARLY_MAX + 1), 1));
    ck_assert(first.down);
}
END_TEST

START_TEST(memory_of_packets_without_numbers_is_bounded)
{
    link_make(0);
    first.receiving = &first;
    ck_assert(fabric_early_room(&first, FABRIC_EARLY_BYTES));
    fabric_early_append(&first, packet_of(0, 0), FABRIC_EARLY_BYTES);
    ck_assert(!fabric_early_room(&first, 1));
    ck_assert(first.down);
    first.down = false;
    first.receiving = NULL;
    defers = 1;
    fabric_early_run(&first, false, packet_deliver, packet_put);
    ck_assert_uint_eq(first.early_bytes, FABRIC_EARLY_BYTES); /* deferred, so the packet still waits */
    ck_assert(fabric_link_undefer(&first));
    fabric_early_run(&first, false, packet_deliver, packet_put);
    ck_assert_uint_eq(first.early_bytes, 0);
}
END_TEST

START_TEST(packets_wait_for_the_link_and_for_a_body)
{
    link_make(0);
    first.is_up = false;
    ck_assert(fabric_early_insert(&first, packet_of(0, 0), 1));
    numbered_run(&first);
    first.is_up = true;
    first.receiving = &first;
    numbered_run(&first);
    ck_assert_int_eq(n_delivered, 0);
    first.receiving = NULL;
    ck_assert(!is_in_turn(packets[0].tag)); /* one waits already */
    numbered_run(&first);
    ck_assert_int_eq(n_delivered, 1);
    ck_assert(is_in_turn(packet_of(1, 1)->tag));
    ck_assert(!is_in_turn(packet_of(2, 2)->tag));
    first.closed = true;
    ck_assert(!is_in_turn(packet_of(1, 1)->tag));
}
END_TEST

START_TEST(deferred_packet_is_offered_again_before_others)
{
    link_make(0);
    defers = 2;
    ck_assert(fabric_early_insert(&first, packet_of(0, 0), 1));
    numbered_run(&first);
    ck_assert(first.is_deferred);
    ck_assert(fabric_early_insert(&first, packet_of(1, 1), 1));
    numbered_run(&first); /* a deferred link waits for the next poll */
    ck_assert_int_eq(defers, 1);
    ck_assert_int_eq(fabric_deferred(&adapter), 1); /* deferred again */
    ck_assert_int_eq(n_delivered, 0);
    ck_assert_int_eq(fabric_deferred(&adapter), 1);
    ck_assert_int_eq(n_delivered, 2);
    ck_assert_uint_eq(delivered[0], 0);
    ck_assert_int_eq(fabric_deferred(&adapter), 0);
}
END_TEST

START_TEST(packets_without_numbers_keep_their_order)
{
    link_make(0);
    defers = 1;
    fabric_early_append(&first, packet_of(0, 7), 1);
    fabric_early_run(&first, false, packet_deliver, packet_put); /* deferred: put back into an empty list */
    for (int i = 1; i < 4; i++)
        fabric_early_append(&first, packet_of(i, (uint16_t)(7 - i)), 1);
    ck_assert(fabric_link_undefer(&first));
    ck_assert(!fabric_link_undefer(&first));
    fabric_early_run(&first, false, packet_deliver, packet_put);
    ck_assert_int_eq(n_delivered, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(delivered[i], 7 - i);
    fabric_early_append(&first, packet_of(0, 1), 1);
    fabric_early_run(&first, false, packet_deliver, packet_put);
    ck_assert_int_eq(n_delivered, 5);
}
END_TEST

START_TEST(packets_of_a_closed_link_are_freed)
{
    fabric_link_t other;
    link_make(0);
    fabric_early_append(&first, packet_of(0, 0), 1);
    fabric_early_run(&first, false, packet_deliver_close, packet_put);
    ck_assert_int_eq(n_put, 1);
    link_make(0);
    other = first;
    defers = 2;
    for (int i = 0; i < 2; i++)
        fabric_early_append(i ? &other : &first, packet_of(i, 0), 1);
    numbered_run(&first);
    numbered_run(&other);
    fabric_early_append(&first, packet_of(2, 1), 1);
    fabric_early_forget(&first, packet_put);
    ck_assert_int_eq(n_put, 2);
    ck_assert(!first.is_deferred);
    ck_assert_int_eq(fabric_deferred(&adapter), 1); /* the other */
    ck_assert_int_eq(n_delivered, 1);
}
END_TEST

/* ---- Messages between the drivers --------------------------------------------------------------------------------- */

START_TEST(questions_are_answered)
{
    link_make(0);
    first.end.got = 5;
    fabric_control_arrived(&first, &(fabric_control_t){FABRIC_PING, 1});
    fabric_control_arrived(&first, &(fabric_control_t){FABRIC_PING, 0});
    fabric_control_arrived(&first, &(fabric_control_t){FABRIC_ASK, 9});
    fabric_control_arrived(&first, &(fabric_control_t){FABRIC_ACK, 3});
    ck_assert_int_eq(n_sent, 2);
    ck_assert(sent[0].what == FABRIC_PING && sent[0].number == 0);
    ck_assert(sent[1].what == FABRIC_ACK && sent[1].number == 5);
    ck_assert_uint_eq(first.end.acked, 3);
}
END_TEST

/* The peer may close the link before this end has handled the last frame of the handshake. */
START_TEST(bye_before_the_link_is_up_is_kept)
{
    link_make(0);
    first.is_up = false;
    fabric_control_arrived(&first, &(fabric_control_t){FABRIC_PING, 1});
    fabric_control_arrived(&first, &(fabric_control_t){FABRIC_BYE, 0});
    ck_assert_int_eq(n_sent, 0);
    ck_assert(!first.down);
    ck_assert(fabric_end_reached(&first.end));
}
END_TEST

/* ---- Polls -------------------------------------------------------------------------------------------------------- */

START_TEST(poll_after_a_take_reports_its_events)
{
    link_make(0);
    fabric_heat(&adapter.heat);
    ck_assert(fabric_take_looks(&adapter));
    adapter.tried = 3;
    ck_assert(!fabric_take_looks(&adapter));
    ck_assert_int_eq(fabric_poll_begin(&adapter), 2);
    ck_assert_int_eq(fabric_poll_begin(&adapter), FABRIC_POLL_LOOK);
    adapter.deferred = &first;
    ck_assert(!fabric_take_looks(&adapter));
}
END_TEST

START_TEST(poll_that_finds_nothing_ends_after_a_while)
{
    int skips = 0, looks = 0;
    link_make(0);
    fabric_heat(&adapter.heat);
    while (skips + looks < 1000000 && fabric_heat_left(&adapter.heat) > 0)
        if (fabric_poll_begin(&adapter) == FABRIC_POLL_SKIP) {
            skips++;
        } else {
            looks++;
            fabric_poll_end(&adapter, 0, true);
        }
    ck_assert_int_eq(looks, FABRIC_HOT);
    ck_assert_int_gt(skips, looks);
    ck_assert_int_eq(fabric_poll_begin(&adapter), FABRIC_POLL_SKIP);
    fabric_poll_end(&adapter, 1, true);
    ck_assert_int_eq(fabric_poll_begin(&adapter), FABRIC_POLL_LOOK);
}
END_TEST

Suite *fabric_suite(void)
{
    const TTest *const tests[] = {
        packets_are_delivered_by_number_across_the_wrap,
        packets_that_came_before_are_refused,
        packets_behind_a_missing_one_are_bounded,
        packets_far_ahead_are_refused_in_any_order,
        memory_of_packets_behind_a_body_is_bounded,
        packets_before_the_link_is_up_are_bounded,
        memory_of_packets_without_numbers_is_bounded,
        packets_wait_for_the_link_and_for_a_body,
        deferred_packet_is_offered_again_before_others,
        packets_without_numbers_keep_their_order,
        packets_of_a_closed_link_are_freed,
        questions_are_answered,
        bye_before_the_link_is_up_is_kept,
        poll_after_a_take_reports_its_events,
        poll_that_finds_nothing_ends_after_a_while,
    };
    return SUITE_OF("fabric", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the rings of drivers/shm: packets, loans, waking. */
#include "shm_pair.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* All lengths around the limits, in one to four pieces, several times around the ring. */
START_TEST(ring_carries_every_length)
{
    static const size_t borders[] = {SHM_CELL_DATA, 2 * SHM_CELL_DATA, SHM_CELLS_MAX * SHM_CELL_DATA - 16,
                                     512,           SHM_UNIT,          2 * SHM_UNIT,
                                     3 * SHM_UNIT,  SHM_CHUNK};
    unsigned number = 0;
    pair_setup();
    for (size_t b = 0; b < MADI_COUNT(borders); b++)
        for (long d = -20; d <= 20; d++)
            for (int n = 1; n <= 4; n++) {
                long len = (long)borders[b] + d;
                if (len < 0 || len > SHM_CHUNK || (n == 1 && len > 60))
                    continue;
                ck_assert_int_eq(pair_send((size_t)len, n, ++number), MADI_SENT);
                ck_assert_int_eq(pair_poll(), 1);
                pair_check_last((size_t)len, number);
            }
    for (size_t len = 0; len <= 400; len++)
        for (int k = 0; k < 3; k++) {
            ck_assert_int_eq(pair_send(len, 3, ++number), MADI_SENT);
            ck_assert_int_eq(pair_poll(), 1);
            pair_check_last(len, number);
        }
    ck_assert_int_eq(pair_poll(), 0);
    ck_assert_uint_eq(pair_downs, 0);
}
END_TEST

/* Send a long body as an answer, and take it.  True if the body was lent, and is kept. */
static bool long_taken(size_t len, unsigned number)
{
    unsigned char packet[SHM_CELLS_MAX * SHM_CELL_DATA];
    madi_foreign_t loan = {0};
    atomic_store(&pair_links[0].ahead, 0); /* an answer has arrived */
    ck_assert_uint_ge(shm_packet_room(&pair_links[0].base, len), len + sizeof(madi_wire_hdr_t));
    ck_assert_int_eq(pair_send(len, 3, number), MADI_SENT);
    atomic_store(&pair_adapters[1].hot, pair_links[1].inbox);
    if (!shm_take(&pair_adapters[1].base, packet, &loan)) {
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(len, number);
        return false;
    }
    madi_foreign_copy(pair_last, loan, len);
    memcpy(&pair_last_hdr, packet, sizeof pair_last_hdr);
    pair_check_last(len, number);
    pair_kept[pair_n_kept++] = loan;
    atomic_fetch_add(&pair_links[1].base.loans, 1);
    return true;
}

static void long_returned(void)
{
    shm_slot_put(&pair_links[1].base, pair_kept[--pair_n_kept]);
    atomic_fetch_sub(&pair_links[1].base.loans, 1);
}

/* If messages and answers alternate, a body may be longer than SHM_CHUNK.  When it is lent, it is the only loan. */
START_TEST(ring_lends_one_long_body)
{
    unsigned number = 0;
    pair_setup();
    ck_assert_int_eq(pair_send(20, 2, ++number), MADI_SENT);
    ck_assert_int_eq(pair_poll(), 1);
    ck_assert_uint_eq(shm_packet_room(&pair_links[0].base, SHM_BODY_MAX), SHM_CHUNK + sizeof(madi_wire_hdr_t));
    for (size_t len = SHM_CHUNK + 1; len <= SHM_BODY_MAX; len += 9973) {
        ck_assert(long_taken(len, ++number));
        ck_assert(!long_taken(len, ++number));
        ck_assert(!long_taken(1000, ++number));
        long_returned();
        ck_assert(long_taken(1000, ++number));
        ck_assert(!long_taken(len, ++number));
        long_returned();
    }
    atomic_store(&pair_links[0].ahead, 0);
    ck_assert_uint_eq(shm_packet_room(&pair_links[0].base, SIZE_MAX), SHM_BODY_MAX + sizeof(madi_wire_hdr_t));
    ck_assert_uint_eq(pair_downs, 0);
}
END_TEST

/* With many peers, each of which has a small window, bodies are at most a third of it. */
START_TEST(ring_of_many_peers_has_shorter_bodies)
{
    pair_setup();
    atomic_store(&pair_adapters[0].n_inboxes, 100);
    atomic_store(&pair_links[0].ahead, 0);
    ck_assert_uint_eq(shm_packet_room(&pair_links[0].base, SHM_BODY_MAX),
                      (SHM_WINDOW_MIN / SHM_BODY_SHARE - 1) * SHM_UNIT + sizeof(madi_wire_hdr_t));
    ck_assert_uint_eq(pair_links[0].window, SHM_WINDOW_MIN);
    atomic_store(&pair_adapters[0].n_inboxes, 1);
}
END_TEST

/* The last block of a long body is written after the cell.  While a part of the body is missing, poll does not hand the body
 * over, and no thread stays awake for it.  take lends the bytes that are there, and the packet stays in the ring until the
 * loan is kept. */
START_TEST(ring_body_incomplete_is_not_handed_over)
{
    unsigned char packet[SHM_CELLS_MAX * SHM_CELL_DATA];
    madi_link_t *link = &pair_links[1].base;
    madi_foreign_t loan = {0};
    pair_setup();
    shm_run_max(&pair_links[0], 40 * SHM_UNIT);       /* a window of this size lends bodies */
    ck_assert_int_eq(pair_send(20, 2, 1), MADI_SENT); /* this packet makes the inbox the hot one */
    ck_assert(shm_pure_poll(&pair_adapters[1].base));
    ck_assert_int_eq(pair_poll(), 1);
    atomic_store(&pair_adapters[1].hot, pair_links[1].inbox);
    ck_assert(!shm_answers(&pair_links[0].base));
    atomic_store(&pair_links[0].ahead, 0); /* an answer has arrived */
    ck_assert_int_eq(pair_send(16000, 3, 2), MADI_SENT);
    atomic_fetch_sub(&pair_links[0].out->filled, 7000);
    ck_assert(!shm_any(&pair_adapters[1]));
    ck_assert_int_eq(pair_poll(), 0);
    for (int i = 0; i < 2; i++) { /* each call returns the packet again */
        ck_assert_ptr_eq(shm_take(&pair_adapters[1].base, packet, &loan), link);
        ck_assert(madi_foreign_is_set(loan) && link->begun);
    }
    ck_assert_uint_eq(shm_here(link, link->begun), 9000);
    link->outer = link; /* a wrapped link hands the body over only when it is whole */
    ck_assert_ptr_null(shm_take(&pair_adapters[1].base, packet, &loan));
    link->outer = NULL;
    atomic_fetch_add(&pair_links[0].out->filled, 7000);
    ck_assert(shm_any(&pair_adapters[1]));
    ck_assert_int_eq(pair_poll(), 1);
    pair_check_last(16000, 2);
    atomic_store(&pair_links[0].ahead, 0);
    ck_assert_int_eq(pair_send(16000, 3, 3), MADI_SENT);
    atomic_fetch_sub(&pair_links[0].out->filled, 1);
    ck_assert_ptr_eq(shm_take(&pair_adapters[1].base, packet, &loan), link);
    shm_keep_begun(link);
    ck_assert_uint_eq(link->begun, 0);
    ck_assert_int_eq(pair_poll(), 0);
    ck_assert(!shm_returned(&pair_links[0].base));
    shm_slot_put(link, loan);
    ck_assert(shm_returned(&pair_links[0].base));
    atomic_fetch_add(&pair_links[0].out->filled, 1);
    for (unsigned number = 4; number < 500; number++) {
        atomic_store(&pair_links[0].ahead, 0);
        ck_assert_int_eq(pair_send(SHM_CHUNK - number, 2, number), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(SHM_CHUNK - number, number);
    }
    ck_assert_int_eq(pair_send(16000, 3, 1), MADI_SENT); /* in a stream, the body is copied whole first */
    atomic_fetch_sub(&pair_links[0].out->filled, 1);
    ck_assert_int_eq(pair_poll(), 1);
    pair_check_last(16000, 1);
    ck_assert_uint_eq(pair_downs, 0);
}
END_TEST

/* A full ring refuses packets, and none is lost or out of order. */
START_TEST(ring_full_refuses_packets)
{
    unsigned sent = 0, got = 0;
    pair_setup();
    for (int round = 0; round < 200; round++) {
        size_t len = (size_t)(round * 37) % 5000;
        while (pair_send(len, 2, sent + 1) == MADI_SENT)
            sent++;
        ck_assert_uint_le(sent - got, SHM_CELLS);
        while (pair_poll())
            pair_check_last(len, ++got);
        ck_assert_uint_eq(got, sent);
    }
    ck_assert_uint_gt(sent, 1000);
}
END_TEST

/* While few cells are free, packets of several cells get runs of a small window, and take one cell each. */
START_TEST(ring_crowded_takes_more_packets)
{
    size_t len = 5 * SHM_CELL_DATA;
    unsigned sent = 0;
    pair_setup();
    while (sent < 2 * SHM_CELLS && pair_send(len, 2, sent + 1) == MADI_SENT)
        sent++;
    ck_assert_uint_ge(sent, SHM_CELLS / 2);
    ck_assert_uint_eq(pair_links[0].window, SHM_WINDOW_MIN);
    for (unsigned got = 0; got < sent;) {
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(len, ++got);
    }
    sent = pair_links[0].sent;
    ck_assert_int_eq(pair_send(len, 2, 1), MADI_SENT);
    ck_assert_uint_eq(pair_links[0].sent - sent, 6); /* the ring is empty again: the body lies in cells */
}
END_TEST

/* Runs that stay lent are skipped.  When all runs are lent, the sender is refused, and continues when a run is returned. */
START_TEST(ring_skips_lent_runs)
{
    unsigned number = 0;
    pair_setup();
    pair_keep = true;
    while (pair_send(SHM_UNIT, 2, number + 1) == MADI_SENT) {
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(SHM_UNIT, ++number);
        if (pair_n_kept == SHM_UNITS || number > 3 * SHM_UNITS) /* only a part of the runs is lent; the rest is copied */
            break;
    }
    ck_assert_uint_ge(pair_n_kept, 8);
    pair_keep = false;
    for (size_t i = 0; i < pair_n_kept; i++) {
        shm_slot_put(&pair_links[1].base, pair_kept[i]);
        atomic_fetch_sub(&pair_links[1].base.loans, 1);
    }
    for (int i = 0; i < 2 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send(SHM_CHUNK, 2, ++number), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(SHM_CHUNK, number);
    }
}
END_TEST

static void go_round(madi_op_t *op, unsigned most)
{
    unsigned farthest = 0;
    for (unsigned i = 0; i < 2 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send_piece(SHM_CHUNK - i % 3 * SHM_UNIT, 2, i, op), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(SHM_CHUNK - i % 3 * SHM_UNIT, i);
        if (i > SHM_UNITS / 8) /* the start position is arbitrary */
            farthest = pair_links[0].next > farthest ? pair_links[0].next : farthest;
    }
    ck_assert_uint_le(farthest, most);
    ck_assert_uint_gt(farthest, most - most / 8);
}

/* Long blocks wrap around earlier than others, also while runs are lent anywhere. */
START_TEST(ring_long_blocks_wrap_around_earlier)
{
    madi_op_t piece = {.of = SHM_LONG}, shorter = {.of = SHM_LONG - 1};
    unsigned sent = 0, lent;
    pair_setup();
    go_round(&shorter, SHM_UNITS);
    go_round(&piece, SHM_LONG_UNITS);
    go_round(NULL, SHM_UNITS);
    /* Lend as many runs as possible of these units, each followed by a free gap. */
    for (lent = 0; lent == pair_n_kept; lent++) {
        pair_keep = true;
        ck_assert_int_eq(pair_send_piece(SHM_CHUNK, 2, 1, &piece), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
        pair_keep = false;
        ck_assert_int_eq(pair_send_piece(SHM_CHUNK - SHM_UNIT, 2, 1, &piece), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_ge(pair_n_kept, 8);
    go_round(&piece, SHM_LONG_UNITS);
    while (pair_send_piece(SHM_CHUNK, 2, sent, &piece) == MADI_SENT)
        sent++;
    ck_assert_uint_gt(sent, 0);
    ck_assert_uint_le((sent + pair_n_kept) * SHM_CHUNK, SHM_LONG_UNITS * SHM_UNIT);
    ck_assert(shm_arm(&pair_adapters[0].base)); /* the units behind do not count as space for a long block */
    shm_disarm(&pair_adapters[0].base);
    ck_assert_int_eq(pair_send(SHM_CHUNK, 2, 1), MADI_SENT);
}
END_TEST

/* Short packets are copied and longer ones are lent, up to a limit.  Invalid ones are left to poll. */
START_TEST(take_copies_short_and_lends_long_packets)
{
    unsigned char packet[sizeof(madi_wire_hdr_t) + MADI_TAKE_MAX];
    unsigned number = 0;
    pair_setup();
    shm_run_max(&pair_links[0], 40 * SHM_UNIT);
    for (size_t len = 0; len <= 2 * SHM_UNIT; len += len < 100 ? 1 : 111) {
        madi_foreign_t loan = {0};
        ck_assert_ptr_null(shm_take(&pair_adapters[1].base, packet, &loan));
        ck_assert_int_eq(pair_send(len, 2, ++number), MADI_SENT);
        ck_assert_ptr_eq(shm_take(&pair_adapters[1].base, packet, &loan), &pair_links[1].base);
        ck_assert_int_eq(madi_foreign_is_set(loan), len > SHM_CELLS_MAX * SHM_CELL_DATA - sizeof pair_last_hdr);
        memcpy(&pair_last_hdr, packet, sizeof pair_last_hdr);
        madi_foreign_copy(pair_last, madi_foreign_is_set(loan) ? loan : madi_foreign_of(packet + sizeof pair_last_hdr), len);
        pair_check_last(len, number);
        if (madi_foreign_is_set(loan))
            shm_slot_put(&pair_links[1].base, loan);
    }
    atomic_store(&pair_links[1].base.loans, SHM_UNITS);
    ck_assert_int_eq(pair_send(1000, 2, ++number), MADI_SENT);
    ck_assert_ptr_null(shm_take(&pair_adapters[1].base, packet, &(madi_foreign_t){0}));
    ck_assert_int_eq(pair_poll(), 1);
    pair_check_last(1000, number);
    number = pair_links[1].received;
    atomic_store(&pair_links[1].in->cells[number % SHM_CELLS].head, (number + 1) | UINT64_C(1) << 48);
    atomic_store(&pair_links[1].base.loans, 0);
    ck_assert_ptr_null(shm_take(&pair_adapters[1].base, packet, &(madi_foreign_t){0}));
    ck_assert_int_eq(pair_poll(), 0);
    ck_assert_uint_eq(pair_downs, 1);
}
END_TEST

/* Take several short packets at once, in order, around the ring.  Longer ones between them are left to poll. */
START_TEST(take_several_short_packets_in_order)
{
    enum { PLACE = MADI_PACKET_SHORT + 8 };
    unsigned char places[40][PLACE];
    unsigned number = 0, taken = 0;
    madi_link_t *link;
    pair_setup();
    ck_assert_int_eq(shm_take_short(&pair_adapters[1].base, places, PLACE, 40, &link), 0);
    for (unsigned many = 1; many <= 40; many++) {
        int max = 1 + (int)(many * 7 % 40), n;
        for (unsigned i = 0; i < many; i++)
            ck_assert_int_eq(pair_send((number + i) % (MADI_SHORT_MAX + 1), 2, number + i), MADI_SENT);
        for (unsigned left = many; left; left -= (unsigned)n) {
            memset(places, 0xee, sizeof places);
            link = NULL;
            n = shm_take_short(&pair_adapters[1].base, places, PLACE, max, &link);
            ck_assert_int_eq(n, left < (unsigned)max ? (int)left : max);
            ck_assert_ptr_eq(link, &pair_links[1].base);
            for (int i = 0; i < n; i++, taken++) {
                memcpy(&pair_last_hdr, places[i], sizeof pair_last_hdr);
                memcpy(pair_last, places[i] + sizeof pair_last_hdr, MADI_SHORT_MAX);
                pair_check_last(taken % (MADI_SHORT_MAX + 1), taken);
                ck_assert_uint_eq(places[i][MADI_PACKET_SHORT], 0xee);
            }
        }
        number += many;
    }
    for (size_t len = MADI_SHORT_MAX + 1; len < 1000; len *= 4) { /* bodies in cells, and in a run */
        ck_assert_int_eq(pair_send(8, 2, 1), MADI_SENT);
        ck_assert_int_eq(pair_send(len, 2, 2), MADI_SENT);
        ck_assert_int_eq(pair_send(8, 2, 3), MADI_SENT);
        ck_assert_int_eq(shm_take_short(&pair_adapters[1].base, places, PLACE, 40, &link), 1);
        ck_assert_int_eq(shm_take_short(&pair_adapters[1].base, places, PLACE, 40, &link), 0);
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(len, 2);
        ck_assert_int_eq(shm_take_short(&pair_adapters[1].base, places, PLACE, 40, &link), 1);
    }
}
END_TEST

/* A pair uses memory for bodies from its first body on, and first for few of them. */
START_TEST(ring_grows_with_use)
{
    pair_setup();
    for (unsigned i = 0; i < 3 * SHM_CELLS; i++) {
        ck_assert_int_eq(pair_send(SHM_CELLS_MAX * SHM_CELL_DATA - sizeof(madi_wire_hdr_t), 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_eq(pair_links[0].window, 0);
    ck_assert_int_eq(pair_send(1000, 2, 1), MADI_SENT);
    ck_assert_int_eq(pair_poll(), 1);
    pair_check_last(1000, 1);
    ck_assert_uint_eq(pair_links[0].window, SHM_WINDOW_FIRST);
    ck_assert_int_eq(pair_send(SHM_CHUNK, 2, 2), MADI_SENT);
    ck_assert_int_eq(pair_poll(), 1);
    pair_check_last(SHM_CHUNK, 2);
    ck_assert_uint_eq(pair_links[0].window, 4 * SHM_WINDOW_FIRST);
}
END_TEST

/* Without memory for a body the link ends, since the body would wait for ever. */
START_TEST(ring_without_memory_ends_the_link)
{
    int fds[2], none = memfd_create("none", 0);
    char byte;
    pair_setup();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pair_links[0].fd = fds[0];
    ck_assert_ptr_ne(mmap(shm_out(pair_links[0].out->units[0]), sizeof pair_links[0].out->units, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, none, 0),
                     MAP_FAILED); /* an empty file has no memory */
    ck_assert_int_eq(pair_send(1000, 2, 1), MADI_AGAIN);
    ck_assert(atomic_load(&pair_links[0].no_memory));
    ck_assert_int_eq(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
    ck_assert_int_eq(pair_send(20, 2, 2), MADI_SENT); /* a packet without a unit still leaves */
    close(fds[0]);
    close(fds[1]);
    close(none);
}
END_TEST

/* Small bodies do not enlarge the window beyond SHM_WINDOW_MIN, and many peers share the available memory. */
START_TEST(ring_small_bodies_stay_in_a_small_window)
{
    pair_setup();
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send(SHM_WINDOW_SMALL, 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_eq(pair_links[0].window, SHM_WINDOW_MIN);
    atomic_store(&pair_adapters[0].n_inboxes, 9);
    pair_adapters[0].cores = 9;
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send(SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_gt(pair_links[0].window, SHM_WINDOW_MIN);
    ck_assert_uint_le(pair_links[0].window, SHM_WINDOW_CROWD / 10);
    atomic_store(&pair_adapters[0].n_inboxes, 40);
    pair_adapters[0].cores = 41;
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send(SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_gt(pair_links[0].window, SHM_WINDOW_CROWD / 10);
    ck_assert_uint_le(pair_links[0].window, SHM_WINDOW_SHARE / 40);
    atomic_store(&pair_adapters[0].n_inboxes, 1);
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send(SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_eq(pair_links[0].window, SHM_UNITS);
}
END_TEST

/* Bodies that are dropped free their blocks. */
START_TEST(ring_dropped_bodies_free_their_blocks)
{
    pair_setup();
    pair_drop = true;
    for (unsigned i = 0; i < 3 * SHM_UNITS; i++) {
        ck_assert_int_eq(pair_send(i % 2 ? 100 : SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
    }
    ck_assert_uint_eq(pair_packets, 3 * SHM_UNITS);
}
END_TEST

/* A body is copied before its header is known.  The packet is sent when the header is known, after packets sent meanwhile,
 * or never. */
START_TEST(ring_prepared_body_is_sent_later_or_never)
{
    static unsigned char body[SHM_CHUNK];
    pair_setup();
    for (unsigned i = 0; i < 3 * SHM_UNITS; i++) {
        size_t len = i % 5 ? SHM_CHUNK - i : 1000;
        madi_wire_hdr_t hdr = {.type = MADI_WIRE_DATA, .length = (uint32_t)len, .seq = i};
        void *at;
        for (size_t k = 0; k < len; k++)
            body[k] = (unsigned char)(k * 13 + i);
        at = shm_prepare(&pair_links[0].base, body, len);
        ck_assert_ptr_nonnull(at);
        ck_assert_int_eq(pair_poll(), 0);
        ck_assert_int_eq(pair_send(i % 4000, 2, i), MADI_SENT);
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(i % 4000, i);
        if (i % 3 == 0) {
            shm_forget(&pair_links[0].base, at);
            continue;
        }
        ck_assert(shm_send_prepared(&pair_links[0].base, &hdr, at));
        ck_assert_int_eq(pair_poll(), 1);
        pair_check_last(len, i);
    }
    ck_assert_int_eq(pair_poll(), 0);
    for (unsigned n = 0;; n++) { /* the full ring refuses the packet; free cells are reported by quarters */
        madi_wire_hdr_t hdr = {.type = MADI_WIRE_DATA, .length = 1000};
        void *at = shm_prepare(&pair_links[0].base, body, 1000);
        if (shm_send_prepared(&pair_links[0].base, &hdr, at))
            continue;
        ck_assert_uint_gt(n, SHM_CELLS - SHM_CELLS / 4);
        ck_assert_uint_le(n, SHM_CELLS);
        break;
    }
}
END_TEST

static void *sender(void *arg)
{
    for (unsigned i = 1; i <= 200000; i++)
        while (pair_send(i % 7 ? i % 90 : i % 9000, 2, i) != MADI_SENT)
            madi_relax();
    return arg;
}

START_TEST(ring_works_between_two_threads)
{
    pthread_t thread;
    pair_setup();
    ck_assert_int_eq(pthread_create(&thread, NULL, sender, NULL), 0);
    for (unsigned i = 1; i <= 200000; i++) {
        while (!pair_poll())
            madi_relax();
        if (pair_last_hdr.seq != i || (pair_last_hdr.length && pair_last[pair_last_hdr.length - 1] !=
                                                                   (unsigned char)((pair_last_hdr.length - 1) * 13 + i)))
            ck_abort_msg("packet %u of %u bytes where %u was due", pair_last_hdr.seq, pair_last_hdr.length, i);
    }
    pthread_join(thread, NULL);
}
END_TEST

/* A sleeping receiver is woken; a receiver that is awake gets no signal. */
START_TEST(ring_wakes_only_a_sleeping_receiver)
{
    pair_setup();
    atomic_store(&pair_bells[1].fence, 1); /* a plain fence suffices without another process and membarrier */
    ck_assert_int_eq(pair_send(8, 2, 1), MADI_SENT);
    ck_assert(!pair_rung());
    ck_assert(shm_pure_poll(&pair_adapters[1].base));
    ck_assert(!shm_arm(&pair_adapters[1].base)); /* a packet is waiting */
    shm_disarm(&pair_adapters[1].base);
    ck_assert_int_eq(pair_poll(), 1);
    ck_assert(!shm_pure_poll(&pair_adapters[1].base));
    ck_assert(shm_arm(&pair_adapters[1].base));
    ck_assert_int_eq(pair_send(8, 2, 2), MADI_SENT);
    ck_assert(pair_rung());
    shm_disarm(&pair_adapters[1].base);
    ck_assert_int_eq(pair_poll(), 1);
    ck_assert_int_eq(pair_send(8, 2, 3), MADI_SENT);
    ck_assert(!pair_rung());
}
END_TEST

/* With more processes than cores, no process interrupts the others for a barrier: each sender fences itself. */
START_TEST(ring_oversubscribed_needs_no_barrier)
{
    char reason[MADI_REASON_MAX];
    shm_adapter_t a = {0};
    pair_many = true;
    ck_assert(shm_bell_make(&a, reason));
    ck_assert_uint_eq(atomic_load(&a.bell->fence), 1);
}
END_TEST

/* A peer that has announced its end, and still sends, is not read forever. */
START_TEST(ring_announced_end_is_not_read_forever)
{
    pair_setup();
    pair_refill = true;
    while (pair_send(8, 2, 1) == MADI_SENT)
        ;
    shm_drain(&pair_links[1]);
    ck_assert_uint_eq(pair_packets, SHM_CELLS);
}
END_TEST

/* A sender that sleeps because the ring is full is woken when there is space again. */
START_TEST(ring_wakes_a_sender_when_there_is_space)
{
    unsigned sent = 0;
    pair_setup();
    atomic_store(&pair_bells[0].fence, 1);
    while (pair_send(8, 2, sent + 1) == MADI_SENT)
        sent++;
    ck_assert(shm_arm(&pair_adapters[0].base)); /* there is no packet to receive, and no space */
    ck_assert(!pair_rung());
    while (pair_poll())
        ;
    ck_assert(pair_rung());
    shm_disarm(&pair_adapters[0].base);
    ck_assert(!shm_arm(&pair_adapters[0].base)); /* there is space already */
    shm_disarm(&pair_adapters[0].base);
    ck_assert(shm_arm(&pair_adapters[0].base)); /* no sender waits for space now */
    shm_disarm(&pair_adapters[0].base);
    while (pair_send(SHM_CHUNK, 2, 1) == MADI_SENT)
        ;
    ck_assert(shm_arm(&pair_adapters[0].base));
    ck_assert_int_eq(pair_poll(), 1);
    ck_assert(pair_rung());
    shm_disarm(&pair_adapters[0].base);
}
END_TEST

/* The memory is shared with the peer: invalid contents take down the link, not the process. */
START_TEST(ring_garbage_ends_the_link_only)
{
    static const struct {
        uint64_t unit; /* number of the unit, plus 1; 0: the body is in cells */
        uint32_t length;
    } bad[] = {
        {0, SHM_CELLS_MAX * SHM_CELL_DATA - sizeof(madi_wire_hdr_t) + 1}, /* this body is too long for cells */
        {0, UINT32_MAX},
        {1, SHM_BODY_MAX + 1},
        {65535, 10},
        {SHM_UNITS + 1, 1}, /* this body extends past the last unit */
        {SHM_UNITS, SHM_UNIT + 1},
        {1, UINT32_MAX},
    };
    pair_setup();
    for (size_t i = 0; i < MADI_COUNT(bad); i++) {
        shm_cell_t *cell = &pair_links[1].in->cells[0];
        madi_wire_hdr_t hdr = {.type = MADI_WIRE_MSG, .length = bad[i].length};
        memcpy(shm_out(cell->data), &hdr, sizeof hdr);
        pair_links[1].received = 0;
        atomic_store(&pair_links[1].inbox->next, cell);
        atomic_store(&pair_links[1].inbox->number, 1);
        atomic_store(&pair_links[1].base.state, MADI_LINK_UP);
        atomic_store(&cell->head, UINT64_C(1) | bad[i].unit << 32);
        ck_assert_int_eq(pair_poll(), 0);
        ck_assert_uint_eq(pair_downs, i + 1);
        ck_assert_uint_eq(pair_packets, 0);
    }
}
END_TEST

int main(void)
{
    const TTest *tests[] = {ring_carries_every_length,
                            ring_lends_one_long_body,
                            ring_of_many_peers_has_shorter_bodies,
                            ring_body_incomplete_is_not_handed_over,
                            ring_full_refuses_packets,
                            ring_crowded_takes_more_packets,
                            ring_skips_lent_runs,
                            ring_long_blocks_wrap_around_earlier,
                            take_copies_short_and_lends_long_packets,
                            take_several_short_packets_in_order,
                            ring_grows_with_use,
                            ring_without_memory_ends_the_link,
                            ring_small_bodies_stay_in_a_small_window,
                            ring_dropped_bodies_free_their_blocks,
                            ring_prepared_body_is_sent_later_or_never,
                            ring_works_between_two_threads,
                            ring_wakes_only_a_sleeping_receiver,
                            ring_announced_end_is_not_read_forever,
                            ring_oversubscribed_needs_no_barrier,
                            ring_wakes_a_sender_when_there_is_space,
                            ring_garbage_ends_the_link_only};
    Suite *suite = suite_create("shm_ring");
    TCase *tcase = tcase_create("shm_ring");
    SRunner *runner = srunner_create(suite);
    int failed;
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < MADI_COUNT(tests); i++)
        tcase_add_test(tcase, tests[i]);
    shm_bell_tests(tcase);
    suite_add_tcase(suite, tcase);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the rings of drivers/shm: two links over one region in this process, with the core's callbacks replaced. */
#include "base/log.h"
#include "drivers/shm/shm.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static shm_region_t *region;
static shm_adapter_t adapters[2];
static shm_bell_t bells[2];
static const madi_driver_t driver = {.slot_put = shm_slot_put};
static shm_link_t links[2]; /* link 0 sends, link 1 receives */
static int peer_event;

/* The last packet received, and the loans that are kept. */
static unsigned char last[SHM_CHUNK + 64];
static madi_wire_hdr_t last_hdr;
static size_t packets, downs;
static bool keep, drop, many, refill;
static madi_foreign_t kept[SHM_UNITS];
static size_t n_kept;

madi_place_t madi_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    last_hdr = *hdr;
    if (drop) {
        packets++;
        return MADI_PLACE_DROP;
    }
    if (keep && madi_foreign_is_set(rx->loan)) {
        madi_foreign_copy(last, rx->loan, hdr->length);
        kept[n_kept++] = rx->loan;
        atomic_fetch_add(&link->loans, 1);
        packets++;
        return MADI_PLACE_KEEP;
    }
    rx->base = last;
    return MADI_PLACE_COPY;
}

void madi_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    (void)link;
    (void)hdr;
    (void)rx;
    packets++;
}

void madi_rx_short(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    (void)link;
    last_hdr = *hdr;
    madi_foreign_copy(last, body, hdr->length);
    packets++;
    if (refill && packets < 10000) {
        unsigned char packet[MADI_PACKET_SHORT] = {0};
        shm_send_short(&links[0].base, packet, sizeof packet);
    }
}

void madi_link_down(madi_link_t *link, mad_status_t status, const char *text)
{
    (void)status;
    (void)text;
    atomic_store(&link->state, MADI_LINK_DOWN);
    downs++;
}

void madi_link_lock_tx(madi_link_t *link)
{
    (void)link; /* only one thread sends */
}

void madi_link_unlock_tx(madi_link_t *link)
{
    (void)link;
}

bool madi_crowded(const struct mad_session *session)
{
    (void)session;
    return many;
}

const char *madi_remedy(int error)
{
    (void)error;
    return "";
}

/* Return true if the event was signalled since the last call, which leaves its count at the maximum. */
static bool rung(void)
{
    uint64_t one = 1;
    bool was = false;
    while (write(peer_event, &one, sizeof one) == sizeof one)
        was = true;
    return was;
}

static void setup(void)
{
    char reason[MADI_REASON_MAX];
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(region, MAP_FAILED);
    peer_event = shm_event_make(reason);
    ck_assert_int_ge(peer_event, 0);
    rung(); /* removes the signal with which the event was tried */
    for (int i = 0; i < 2; i++) {
        adapters[i].bell = &bells[i];
        adapters[i].cores = 2;
        links[i].peer_bell = &bells[1 - i];
        links[i].attentive = &bells[1 - i].asleep;
        links[i].base.driver = &driver;
        links[i].base.adapter = &adapters[i].base;
        atomic_store(&links[i].base.state, MADI_LINK_UP);
        links[i].out = &region->half[i];
        links[i].cells = links[i].out->cells;
        links[i].in = &region->half[1 - i];
        links[i].sent_limit = SHM_CELLS;
        links[i].peer_fd = peer_event;
        ck_assert(shm_inbox_open(&links[i]));
        ck_assert(shm_window_open(&links[i]));
    }
}

/* Send a packet of len body bytes in n pieces, filled by its number.  op: the operation it belongs to. */
static madi_sent_t send_piece(size_t len, int n, unsigned number, madi_op_t *op)
{
    static unsigned char body[SHM_CHUNK];
    struct {
        madi_wire_hdr_t hdr;
        unsigned char more[8];
    } head = {.hdr = {.type = MADI_WIRE_MSG, .length = (uint32_t)len, .seq = number}};
    struct iovec vec[4] = {{&head, sizeof head.hdr}};
    size_t at = 0;
    for (size_t i = 0; i < len; i++)
        body[i] = (unsigned char)(i * 13 + number);
    for (int i = 1; i < n; i++) {
        size_t part = i + 1 < n ? len / (size_t)(n - 1) : len - at;
        vec[i] = (struct iovec){body + at, part};
        at += part;
    }
    if (n == 1) { /* the body directly follows the header */
        static unsigned char whole[sizeof head.hdr + 64];
        memcpy(whole, &head.hdr, sizeof head.hdr);
        memcpy(whole + sizeof head.hdr, body, len);
        vec[0] = (struct iovec){whole, sizeof head.hdr + len};
    }
    return shm_send(&links[0].base, vec, n, sizeof head.hdr + len, op);
}

static madi_sent_t send_body(size_t len, int n, unsigned number)
{
    return send_piece(len, n, number, NULL);
}

static int poll_once(void)
{
    return shm_poll(&adapters[1].base, 1);
}

static void check_last(size_t len, unsigned number)
{
    bool good = last_hdr.length == len && last_hdr.seq == number; /* ck_assert is too slow for each byte */
    for (size_t i = 0; good && i < len; i++)
        good = last[i] == (unsigned char)(i * 13 + number);
    if (!good)
        ck_abort_msg("packet %u of %u bytes differs from what was sent as %u with %zu", last_hdr.seq, last_hdr.length,
                     number, len);
}

/* All lengths around the limits, in one to four pieces, several times around the ring. */
START_TEST(lengths)
{
    static const size_t borders[] = {SHM_CELL_DATA, 2 * SHM_CELL_DATA, SHM_CELLS_MAX * SHM_CELL_DATA - 16, 512,
                                     SHM_UNIT, 2 * SHM_UNIT, 3 * SHM_UNIT, SHM_CHUNK};
    unsigned number = 0;
    setup();
    for (size_t b = 0; b < MADI_COUNT(borders); b++)
        for (long d = -20; d <= 20; d++)
            for (int n = 1; n <= 4; n++) {
                long len = (long)borders[b] + d;
                if (len < 0 || len > SHM_CHUNK || (n == 1 && len > 60))
                    continue;
                ck_assert_int_eq(send_body((size_t)len, n, ++number), MADI_SENT);
                ck_assert_int_eq(poll_once(), 1);
                check_last((size_t)len, number);
            }
    for (size_t len = 0; len <= 400; len++)
        for (int k = 0; k < 3; k++) {
            ck_assert_int_eq(send_body(len, 3, ++number), MADI_SENT);
            ck_assert_int_eq(poll_once(), 1);
            check_last(len, number);
        }
    ck_assert_int_eq(poll_once(), 0);
    ck_assert_uint_eq(downs, 0);
}
END_TEST

/* The last block of a long body is written after the cell.  A body of which a part is missing is not handed over by poll, and
 * keeps nobody awake; take lends what is there, and leaves the packet where it is until it is kept. */
START_TEST(begun)
{
    unsigned char packet[SHM_CELLS_MAX * SHM_CELL_DATA];
    madi_link_t *link = &links[1].base;
    madi_foreign_t loan = {0};
    setup();
    ck_assert_int_eq(send_body(20, 2, 1), MADI_SENT); /* which makes the inbox the hot one */
    ck_assert(shm_pure_poll(&adapters[1].base));
    ck_assert_int_eq(poll_once(), 1);
    atomic_store(&adapters[1].hot, links[1].inbox);
    ck_assert(!shm_answers(&links[0].base));
    atomic_store(&links[0].ahead, 0); /* an answer has come */
    ck_assert_int_eq(send_body(16000, 3, 2), MADI_SENT);
    atomic_fetch_sub(&links[0].out->filled, 7000);
    ck_assert(!shm_any(&adapters[1]));
    ck_assert_int_eq(poll_once(), 0);
    for (int i = 0; i < 2; i++) { /* as often as is asked */
        ck_assert_ptr_eq(shm_take(&adapters[1].base, packet, &loan), link);
        ck_assert(madi_foreign_is_set(loan) && link->begun);
    }
    ck_assert_uint_eq(shm_here(link, link->begun), 9000);
    link->outer = link; /* one that is wrapped is handed over whole */
    ck_assert_ptr_null(shm_take(&adapters[1].base, packet, &loan));
    link->outer = NULL;
    atomic_fetch_add(&links[0].out->filled, 7000);
    ck_assert(shm_any(&adapters[1]));
    ck_assert_int_eq(poll_once(), 1);
    check_last(16000, 2);
    atomic_store(&links[0].ahead, 0);
    ck_assert_int_eq(send_body(16000, 3, 3), MADI_SENT);
    atomic_fetch_sub(&links[0].out->filled, 1);
    ck_assert_ptr_eq(shm_take(&adapters[1].base, packet, &loan), link);
    shm_keep_begun(link);
    ck_assert_uint_eq(link->begun, 0);
    ck_assert_int_eq(poll_once(), 0);
    shm_slot_put(link, loan);
    atomic_fetch_add(&links[0].out->filled, 1);
    for (unsigned number = 4; number < 500; number++) {
        atomic_store(&links[0].ahead, 0);
        ck_assert_int_eq(send_body(SHM_CHUNK - number, 2, number), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
        check_last(SHM_CHUNK - number, number);
    }
    ck_assert_int_eq(send_body(16000, 3, 1), MADI_SENT); /* in a stream it is copied whole first */
    atomic_fetch_sub(&links[0].out->filled, 1);
    ck_assert_int_eq(poll_once(), 1);
    check_last(16000, 1);
    ck_assert_uint_eq(downs, 0);
}
END_TEST

/* A full ring refuses packets, and none is lost or out of order. */
START_TEST(full_ring)
{
    unsigned sent = 0, got = 0;
    setup();
    for (int round = 0; round < 200; round++) {
        size_t len = (size_t)(round * 37) % 5000;
        while (send_body(len, 2, sent + 1) == MADI_SENT)
            sent++;
        ck_assert_uint_le(sent - got, SHM_CELLS);
        while (poll_once())
            check_last(len, ++got);
        ck_assert_uint_eq(got, sent);
    }
    ck_assert_uint_gt(sent, 1000);
}
END_TEST

/* Runs that stay lent are skipped.  When all are lent, the sender is refused, and continues when one is returned. */
START_TEST(loans)
{
    unsigned number = 0;
    setup();
    keep = true;
    while (send_body(SHM_UNIT, 2, number + 1) == MADI_SENT) {
        ck_assert_int_eq(poll_once(), 1);
        check_last(SHM_UNIT, ++number);
        if (n_kept == SHM_UNITS || number > 3 * SHM_UNITS) /* only a part of the runs is lent; the rest is copied */
            break;
    }
    ck_assert_uint_ge(n_kept, 8);
    keep = false;
    for (size_t i = 0; i < n_kept; i++) {
        shm_slot_put(&links[1].base, kept[i]);
        atomic_fetch_sub(&links[1].base.loans, 1);
    }
    for (int i = 0; i < 2 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_body(SHM_CHUNK, 2, ++number), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
        check_last(SHM_CHUNK, number);
    }
}
END_TEST

static void go_round(madi_op_t *op, unsigned most)
{
    unsigned farthest = 0;
    for (unsigned i = 0; i < 2 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_piece(SHM_CHUNK - i % 3 * SHM_UNIT, 2, i, op), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
        check_last(SHM_CHUNK - i % 3 * SHM_UNIT, i);
        if (i > SHM_UNITS / 8) /* the start position is arbitrary */
            farthest = links[0].next > farthest ? links[0].next : farthest;
    }
    ck_assert_uint_le(farthest, most);
    ck_assert_uint_gt(farthest, most - most / 8);
}

/* Long blocks wrap around earlier than others, also while runs are lent anywhere. */
START_TEST(long_blocks)
{
    madi_op_t piece = {.of = SHM_LONG}, shorter = {.of = SHM_LONG - 1};
    unsigned sent = 0, lent;
    setup();
    go_round(&shorter, SHM_UNITS);
    go_round(&piece, SHM_LONG_UNITS);
    go_round(NULL, SHM_UNITS);
    for (lent = 0; lent == n_kept; lent++) { /* lends as many runs as possible of these units, each followed by a free gap */
        keep = true;
        ck_assert_int_eq(send_piece(SHM_CHUNK, 2, 1, &piece), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
        keep = false;
        ck_assert_int_eq(send_piece(SHM_CHUNK - SHM_UNIT, 2, 1, &piece), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
    }
    ck_assert_uint_ge(n_kept, 8);
    go_round(&piece, SHM_LONG_UNITS);
    while (send_piece(SHM_CHUNK, 2, sent, &piece) == MADI_SENT)
        sent++;
    ck_assert_uint_gt(sent, 0);
    ck_assert_uint_le((sent + n_kept) * SHM_CHUNK, SHM_LONG_UNITS * SHM_UNIT);
    ck_assert(shm_arm(&adapters[0].base)); /* the units behind do not count as space for a long block */
    shm_disarm(&adapters[0].base);
    ck_assert_int_eq(send_body(SHM_CHUNK, 2, 1), MADI_SENT);
}
END_TEST

/* Short packets are copied and longer ones are lent, up to a limit.  Invalid ones are left to poll. */
START_TEST(taking)
{
    unsigned char packet[sizeof(madi_wire_hdr_t) + MADI_TAKE_MAX];
    unsigned number = 0;
    setup();
    for (size_t len = 0; len <= 2 * SHM_UNIT; len += len < 100 ? 1 : 111) {
        madi_foreign_t loan = {0};
        ck_assert_ptr_null(shm_take(&adapters[1].base, packet, &loan));
        ck_assert_int_eq(send_body(len, 2, ++number), MADI_SENT);
        ck_assert_ptr_eq(shm_take(&adapters[1].base, packet, &loan), &links[1].base);
        ck_assert_int_eq(madi_foreign_is_set(loan), len > SHM_CELLS_MAX * SHM_CELL_DATA - sizeof last_hdr);
        memcpy(&last_hdr, packet, sizeof last_hdr);
        madi_foreign_copy(last, madi_foreign_is_set(loan) ? loan : madi_foreign_of(packet + sizeof last_hdr), len);
        check_last(len, number);
        if (madi_foreign_is_set(loan))
            shm_slot_put(&links[1].base, loan);
    }
    atomic_store(&links[1].base.loans, SHM_UNITS);
    ck_assert_int_eq(send_body(1000, 2, ++number), MADI_SENT);
    ck_assert_ptr_null(shm_take(&adapters[1].base, packet, &(madi_foreign_t){0}));
    ck_assert_int_eq(poll_once(), 1);
    check_last(1000, number);
    number = links[1].received;
    atomic_store(&links[1].in->cells[number % SHM_CELLS].head, (number + 1) | UINT64_C(1) << 48);
    atomic_store(&links[1].base.loans, 0);
    ck_assert_ptr_null(shm_take(&adapters[1].base, packet, &(madi_foreign_t){0}));
    ck_assert_int_eq(poll_once(), 0);
    ck_assert_uint_eq(downs, 1);
}
END_TEST

/* Take several short packets at once, in order, around the ring.  Longer ones between them are left to poll. */
START_TEST(taking_short)
{
    enum { PLACE = MADI_PACKET_SHORT + 8 };
    unsigned char places[40][PLACE];
    unsigned number = 0, taken = 0;
    madi_link_t *link;
    setup();
    ck_assert_int_eq(shm_take_short(&adapters[1].base, places, PLACE, 40, &link), 0);
    for (unsigned many = 1; many <= 40; many++) {
        int max = 1 + (int)(many * 7 % 40), n;
        for (unsigned i = 0; i < many; i++)
            ck_assert_int_eq(send_body((number + i) % (MADI_SHORT_MAX + 1), 2, number + i), MADI_SENT);
        for (unsigned left = many; left; left -= (unsigned)n) {
            memset(places, 0xee, sizeof places);
            link = NULL;
            n = shm_take_short(&adapters[1].base, places, PLACE, max, &link);
            ck_assert_int_eq(n, left < (unsigned)max ? (int)left : max);
            ck_assert_ptr_eq(link, &links[1].base);
            for (int i = 0; i < n; i++, taken++) {
                memcpy(&last_hdr, places[i], sizeof last_hdr);
                memcpy(last, places[i] + sizeof last_hdr, MADI_SHORT_MAX);
                check_last(taken % (MADI_SHORT_MAX + 1), taken);
                ck_assert_uint_eq(places[i][MADI_PACKET_SHORT], 0xee);
            }
        }
        number += many;
    }
    for (size_t len = MADI_SHORT_MAX + 1; len < 1000; len *= 4) { /* in cells, and in a run */
        ck_assert_int_eq(send_body(8, 2, 1), MADI_SENT);
        ck_assert_int_eq(send_body(len, 2, 2), MADI_SENT);
        ck_assert_int_eq(send_body(8, 2, 3), MADI_SENT);
        ck_assert_int_eq(shm_take_short(&adapters[1].base, places, PLACE, 40, &link), 1);
        ck_assert_int_eq(shm_take_short(&adapters[1].base, places, PLACE, 40, &link), 0);
        ck_assert_int_eq(poll_once(), 1);
        check_last(len, 2);
        ck_assert_int_eq(shm_take_short(&adapters[1].base, places, PLACE, 40, &link), 1);
    }
}
END_TEST

/* Small bodies stay in the first window, and many peers share the available memory. */
START_TEST(windows)
{
    setup();
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_body(SHM_WINDOW_SMALL, 2, i), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
    }
    ck_assert_uint_eq(links[0].window, SHM_WINDOW_MIN);
    atomic_store(&adapters[0].n_inboxes, 9);
    adapters[0].cores = 9;
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_body(SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
    }
    ck_assert_uint_gt(links[0].window, SHM_WINDOW_MIN);
    ck_assert_uint_le(links[0].window, SHM_WINDOW_CROWD / 10);
    atomic_store(&adapters[0].n_inboxes, 40);
    adapters[0].cores = 41;
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_body(SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
    }
    ck_assert_uint_gt(links[0].window, SHM_WINDOW_CROWD / 10);
    ck_assert_uint_le(links[0].window, SHM_WINDOW_SHARE / 40);
    atomic_store(&adapters[0].n_inboxes, 1);
    for (unsigned i = 0; i < 4 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_body(SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
    }
    ck_assert_uint_eq(links[0].window, SHM_UNITS);
}
END_TEST

/* Bodies that are dropped free their blocks. */
START_TEST(dropped)
{
    setup();
    drop = true;
    for (unsigned i = 0; i < 3 * SHM_UNITS; i++) {
        ck_assert_int_eq(send_body(i % 2 ? 100 : SHM_CHUNK, 2, i), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
    }
    ck_assert_uint_eq(packets, 3 * SHM_UNITS);
}
END_TEST

/* A body is copied before its header is known.  It is sent when the header is known, after packets sent meanwhile, or
 * never. */
START_TEST(prepared)
{
    static unsigned char body[SHM_CHUNK];
    setup();
    for (unsigned i = 0; i < 3 * SHM_UNITS; i++) {
        size_t len = i % 5 ? SHM_CHUNK - i : 1000;
        madi_wire_hdr_t hdr = {.type = MADI_WIRE_DATA, .length = (uint32_t)len, .seq = i};
        void *at;
        for (size_t k = 0; k < len; k++)
            body[k] = (unsigned char)(k * 13 + i);
        at = shm_prepare(&links[0].base, body, len);
        ck_assert_ptr_nonnull(at);
        ck_assert_int_eq(poll_once(), 0);
        ck_assert_int_eq(send_body(i % 4000, 2, i), MADI_SENT);
        ck_assert_int_eq(poll_once(), 1);
        check_last(i % 4000, i);
        if (i % 3 == 0) {
            shm_forget(&links[0].base, at);
            continue;
        }
        ck_assert(shm_send_prepared(&links[0].base, &hdr, at));
        ck_assert_int_eq(poll_once(), 1);
        check_last(len, i);
    }
    ck_assert_int_eq(poll_once(), 0);
    for (unsigned n = 0; n <= SHM_CELLS; n++) { /* a full ring refuses it */
        madi_wire_hdr_t hdr = {.type = MADI_WIRE_DATA, .length = 1000};
        void *at = shm_prepare(&links[0].base, body, 1000);
        ck_assert_int_eq(shm_send_prepared(&links[0].base, &hdr, at), n < SHM_CELLS);
    }
}
END_TEST

static void *sender(void *arg)
{
    for (unsigned i = 1; i <= 200000; i++)
        while (send_body(i % 7 ? i % 90 : i % 9000, 2, i) != MADI_SENT)
            madi_relax();
    return arg;
}

START_TEST(two_threads)
{
    pthread_t thread;
    setup();
    ck_assert_int_eq(pthread_create(&thread, NULL, sender, NULL), 0);
    for (unsigned i = 1; i <= 200000; i++) {
        while (!poll_once())
            madi_relax();
        if (last_hdr.seq != i || (last_hdr.length && last[last_hdr.length - 1] !=
                                                         (unsigned char)((last_hdr.length - 1) * 13 + i)))
            ck_abort_msg("packet %u of %u bytes where %u was due", last_hdr.seq, last_hdr.length, i);
    }
    pthread_join(thread, NULL);
}
END_TEST

/* A sleeping receiver is woken, and one that is awake is not signalled. */
START_TEST(sleeping)
{
    setup();
    atomic_store(&bells[1].fence, 1); /* a plain fence suffices without another process and membarrier */
    ck_assert_int_eq(send_body(8, 2, 1), MADI_SENT);
    ck_assert(!rung());
    ck_assert(shm_pure_poll(&adapters[1].base));
    ck_assert(!shm_arm(&adapters[1].base)); /* a packet is waiting */
    shm_disarm(&adapters[1].base);
    ck_assert_int_eq(poll_once(), 1);
    ck_assert(!shm_pure_poll(&adapters[1].base));
    ck_assert(shm_arm(&adapters[1].base));
    ck_assert_int_eq(send_body(8, 2, 2), MADI_SENT);
    ck_assert(rung());
    shm_disarm(&adapters[1].base);
    ck_assert_int_eq(poll_once(), 1);
    ck_assert_int_eq(send_body(8, 2, 3), MADI_SENT);
    ck_assert(!rung());
}
END_TEST

/* With more processes than cores, no process interrupts the others for a barrier: each sender fences itself. */
START_TEST(crowd)
{
    char reason[MADI_REASON_MAX];
    shm_adapter_t a = {0};
    many = true;
    ck_assert(shm_bell_make(&a, reason));
    ck_assert_uint_eq(atomic_load(&a.bell->fence), 1);
}
END_TEST

/* Make an eventfd with this count and these flags. */
static int event_of(uint64_t count, int flags)
{
    int fd = eventfd(0, flags | EFD_CLOEXEC);
    ck_assert_int_eq(write(fd, &count, sizeof count), sizeof count);
    return fd;
}

/* Only an eventfd whose count cannot run out is accepted, and checking any other descriptor does not block. */
START_TEST(events)
{
    int ends[2], wrong[] = {event_of(UINT64_MAX - 1, EFD_NONBLOCK), event_of(3, EFD_SEMAPHORE), eventfd(0, EFD_SEMAPHORE),
                            open("/dev/null", O_RDWR), open("/", O_RDONLY), open("/", O_PATH), -1, -1, -1, -1, -1};
    int n = 6;
    ck_assert(!pipe(ends));
    wrong[n++] = ends[0];
    wrong[n++] = ends[1];
    ck_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    wrong[n++] = ends[0];
    wrong[n++] = memfd_create("anon_inode:[eventfd]", 0);
    for (int i = 0; i < 11; i++) /* the last entry is no open descriptor */
        ck_assert_msg(!shm_event_valid(wrong[i]), "%d", i);
    ck_assert(shm_event_valid(event_of(UINT64_MAX - 1, EFD_SEMAPHORE)));
    ck_assert(shm_event_valid(event_of(UINT64_C(1) << 63 | 1, EFD_SEMAPHORE)));
}
END_TEST

/* A signal never blocks, whatever the peer does with the shared eventfd: count 0, count at its maximum, other flags. */
START_TEST(rings)
{
    static const uint64_t counts[] = {UINT64_MAX - 1, 1, 0};
    for (int i = 0; i < 3; i++) {
        shm_link_t l = {.peer_fd = counts[i] ? event_of(counts[i], EFD_SEMAPHORE) : eventfd(0, EFD_SEMAPHORE)};
        alarm(5);
        for (int k = 0; k < 3; k++)
            shm_bell_ring(&l);
        alarm(0);
        close(l.peer_fd);
        shm_bell_ring(&l); /* a closed descriptor does no harm either */
    }
}
END_TEST

/* Each signal is an edge for epoll, whatever others do with the count, and without a signal there is none. */
START_TEST(edges)
{
    char reason[MADI_REASON_MAX];
    struct epoll_event e = {.events = SHM_EVENT_EDGES};
    uint64_t one = 1;
    int set = epoll_create1(0), fd = shm_event_make(reason);
    shm_link_t l = {.peer_fd = fd};
    ck_assert_int_ge(fd, 0);
    ck_assert(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
    epoll_wait(set, &e, 1, 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(epoll_wait(set, &e, 1, 0), 0);
        shm_bell_ring(&l);
        while (i && write(fd, &one, sizeof one) == sizeof one) /* a peer that tries to hide the signal */
            ;
        ck_assert_int_eq(epoll_wait(set, &e, 1, 0), 1);
    }
}
END_TEST

/* Only the owner can write the bell.  Memory of another length or with other seals is refused. */
START_TEST(seals)
{
    char reason[MADI_REASON_MAX], path[64];
    shm_adapter_t a = {0};
    int fd, closed;
    ck_assert(shm_bell_make(&a, reason));
    ck_assert_ptr_eq(mmap(NULL, SHM_BELL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a.bell_fd, 0), MAP_FAILED);
    snprintf(path, sizeof path, "/proc/self/fd/%d", a.bell_fd);
    ck_assert_int_lt(pwrite(open(path, O_RDWR), path, 8, 0), 0);
    ck_assert_int_lt(fallocate(a.bell_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SHM_BELL_SIZE), 0);
    atomic_store(&a.bell->asleep, 1);
    ck_assert_uint_eq(atomic_load(&shm_bell_map(a.bell_fd)->asleep), 1);
    ck_assert(shm_sealed(a.bell_fd, SHM_BELL_SIZE, a.bell_seals));
    ck_assert(!shm_sealed(a.bell_fd, SHM_BELL_SIZE, SHM_SEALS));
    ck_assert(!shm_sealed(a.bell_fd, SHM_BELL_SIZE - 1, a.bell_seals));

    fd = shm_memory_make(8192, 8192, reason);
    ck_assert(!shm_sealed(fd, 8192, SHM_SEALS)); /* not sealed yet */
    ck_assert_int_eq(shm_memory_seal(fd, false), SHM_SEALS);
    ck_assert(shm_sealed(fd, 8192, SHM_SEALS));
    ck_assert(!shm_sealed(fd, 4096, SHM_SEALS));
    ck_assert_int_lt(ftruncate(fd, 0), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    closed = open(path, O_RDONLY);
    ck_assert_int_ge(closed, 0);
    ck_assert(!shm_sealed(closed, 8192, SHM_SEALS)); /* cannot be mapped writable */
    ck_assert(!shm_sealed(open(path, O_PATH), 8192, SHM_SEALS));
    ck_assert(!shm_sealed(open("/dev/zero", O_RDWR), 8192, SHM_SEALS));
    ck_assert(!shm_sealed(memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB), 0, 0));
}
END_TEST

/* A peer that announced its end, and still sends, is not read forever. */
START_TEST(drained)
{
    setup();
    refill = true;
    while (send_body(8, 2, 1) == MADI_SENT)
        ;
    shm_drain(&links[1]);
    ck_assert_uint_eq(packets, SHM_CELLS);
}
END_TEST

/* A sender that sleeps because the ring is full is woken when there is space again. */
START_TEST(space)
{
    unsigned sent = 0;
    setup();
    atomic_store(&bells[0].fence, 1);
    while (send_body(8, 2, sent + 1) == MADI_SENT)
        sent++;
    ck_assert(shm_arm(&adapters[0].base)); /* nothing to receive, and no space */
    ck_assert(!rung());
    while (poll_once())
        ;
    ck_assert(rung());
    shm_disarm(&adapters[0].base);
    ck_assert(!shm_arm(&adapters[0].base)); /* there is space already */
    shm_disarm(&adapters[0].base);
    ck_assert(shm_arm(&adapters[0].base)); /* no sender waits for space now */
    shm_disarm(&adapters[0].base);
    while (send_body(SHM_CHUNK, 2, 1) == MADI_SENT)
        ;
    ck_assert(shm_arm(&adapters[0].base));
    ck_assert_int_eq(poll_once(), 1);
    ck_assert(rung());
    shm_disarm(&adapters[0].base);
}
END_TEST

/* The memory is shared with the peer: invalid contents take down the link, not the process. */
START_TEST(garbage)
{
    static const struct {
        uint64_t unit; /* plus 1; 0: the body is in cells */
        uint32_t length;
    } bad[] = {
        {0, SHM_CELLS_MAX * SHM_CELL_DATA - sizeof(madi_wire_hdr_t) + 1}, /* too long for cells */
        {0, UINT32_MAX},
        {1, SHM_CHUNK + 1},
        {65535, 10},
        {SHM_UNITS + 1, 1}, /* past the last unit */
        {SHM_UNITS, SHM_UNIT + 1},
        {1, UINT32_MAX},
    };
    setup();
    for (size_t i = 0; i < MADI_COUNT(bad); i++) {
        shm_cell_t *cell = &links[1].in->cells[0];
        madi_wire_hdr_t hdr = {.type = MADI_WIRE_MSG, .length = bad[i].length};
        memcpy(shm_out(cell->data), &hdr, sizeof hdr);
        links[1].received = 0;
        atomic_store(&links[1].inbox->next, cell);
        atomic_store(&links[1].inbox->number, 1);
        atomic_store(&links[1].base.state, MADI_LINK_UP);
        atomic_store(&cell->head, UINT64_C(1) | bad[i].unit << 32);
        ck_assert_int_eq(poll_once(), 0);
        ck_assert_uint_eq(downs, i + 1);
        ck_assert_uint_eq(packets, 0);
    }
}
END_TEST

int main(void)
{
    const TTest *tests[] = {lengths, begun, full_ring, loans, long_blocks, taking, taking_short, windows, dropped, prepared,
                            two_threads, sleeping, events, rings, edges, seals, drained, crowd, space, garbage};
    Suite *suite = suite_create("shm_ring");
    TCase *tcase = tcase_create("shm_ring");
    SRunner *runner = srunner_create(suite);
    int failed;
    tcase_set_timeout(tcase, 60);
    for (size_t i = 0; i < MADI_COUNT(tests); i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

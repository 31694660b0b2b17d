/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of rails: pieces of a block that arrive by several of them, from a peer that breaks the rules. */
#ifdef HAVE_HWLOC
#include "numa_hosts.h"
#endif
#include "unit.h"

#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/core.h"
#include "core/rails/rails.h"
#include "core/recv/rdv_recv.h"
#include "core/recv/receive.h"
#include "core/wire/handle.h"
#include "engine/numa.h"
#include <stdlib.h>
#include <string.h>

#define LEN 1000

static mad_session_t session;
static madi_gate_t gate = {.session = &session};
static unsigned char room[LEN];
static int rails; /* stands for the gate's rails, which are not looked into */

static madi_rdv_recv_t *block_new(void)
{
    madi_rdv_recv_t *r = calloc(1, sizeof *r + sizeof *r->pieces);
    session.recv.blocks = madi_handles_new();
    ck_assert_ptr_nonnull(r);
    ck_assert_ptr_nonnull(session.recv.blocks);
    gate.rails = (void *)&rails;
    r->gate = &gate;
    r->len = r->end = LEN;
    r->n = 1;
    r->pieces[0] = (struct iovec){room, LEN};
    r->handle = madi_handle_add(session.recv.blocks, r);
    return r;
}

static bool begins(const madi_rdv_recv_t *r, uint32_t offset, uint32_t len)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_DATA, .aux = r->handle, .seq = offset, .length = len};
    madi_rx_t rx = {0};
    bool good = madi_rdv_begin(&gate, &hdr, &rx);
    if (good)
        ck_assert_ptr_eq(rx.base, room + offset);
    return good;
}

/* Pieces under way count, so a block cannot be complete, and its memory the program's, while one of them is written. */
START_TEST(pieces_under_way_fill_a_block)
{
    madi_rdv_recv_t *r = block_new();
    ck_assert(begins(r, 600, 400));
    ck_assert(!begins(r, 0, LEN));
    ck_assert(begins(r, 0, 500));
    ck_assert(!begins(r, 0, 101));
    ck_assert(!begins(r, 600, 400));
    ck_assert(!begins(r, 1001, 0));
    ck_assert(!begins(r, 950, 51));
    madi_rdv_abandon(&gate, r->handle, 400); /* its rail is lost: it comes again */
    ck_assert(begins(r, 600, 400));
    ck_assert(begins(r, 500, 100));
    ck_assert(!begins(r, 0, 1));
    madi_rdv_abandon(&gate, r->handle + 1, 400); /* the block has ended */
    ck_assert_uint_eq(r->arriving, LEN);
    madi_handles_free(session.recv.blocks);
    free(r);
}
END_TEST

/* A packet that is taken from its driver directly is missing from the rail's count, and comes again after a loss. */
START_TEST(packets_of_rails_are_not_taken_directly)
{
    static mad_channel_t channel;
    madi_conn_t conn = {.gate = &gate, .channel = &channel, .remote_known = true};
    atomic_store(&gate.state, MADI_GATE_UP);
    gate.rails = NULL;
    madi_conn_rx_quick(&conn);
    ck_assert_uint_ne(conn.fast_hdr, 0);
    gate.rails = (void *)&rails;
    madi_conn_rx_quick(&conn);
    ck_assert_uint_eq(conn.fast_hdr, 0);
}
END_TEST

/* ---- Packets that leave ----------------------------------------------------------------------------------------- */

static int last_kind; /* kind of the last control packet that left; 0: none has */

static madi_sent_t fake_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    const madi_wire_hdr_t *hdr = vec->iov_base;
    (void)link, (void)n, (void)total;
    if (hdr->type == MADI_WIRE_RAIL)
        last_kind = hdr->flags;
    return op ? MADI_TAKEN : MADI_SENT;
}
static const madi_driver_t fake = {.name = "fake", .send = fake_send};
static madi_adapter_t adapter[2];
static madi_link_t link_of[2];
static madi_rails_t of_gate;

/* Make two rails, over adapters on these nodes. */
static void two_rails(int node0, int node1, double bandwidth1)
{
    memset(&of_gate, 0, sizeof of_gate);
    of_gate.base = (madi_link_t){.driver = &madi_rails_driver, .gate = &gate};
    of_gate.tx_on = of_gate.rx_on = true;
    for (int i = 0; i < 2; i++) {
        adapter[i] = (madi_adapter_t){.driver = &fake, .session = &session, .node = i ? node1 : node0};
        adapter[i].caps.bandwidth_MBs = i ? bandwidth1 : 1000;
        link_of[i] = (madi_link_t){.driver = &fake, .adapter = &adapter[i], .gate = &gate};
        madi_rail_start(&of_gate.rail[i], &link_of[i]);
        of_gate.rail[i].state = RAIL_UP;
    }
    of_gate.first = &of_gate.rail[0];
    of_gate.base_adapter = &adapter[0];
}

/* If the driver refuses BEGIN, nothing overtakes it: the peer would take an earlier ACK for a breach of the rules. */
START_TEST(begin_comes_first)
{
    rail_t *r = &of_gate.rail[0];
    two_rails(-1, -1, 1000);
    of_gate.tx_on = false;
    r->begin_due = true;
    madi_rail_report(r);
    ck_assert_int_eq(last_kind, 0);
    ck_assert(!madi_rail_control(r, MADI_RAIL_ASK, 0, 0));
    ck_assert_int_eq(last_kind, 0);
    madi_rail_pump(&of_gate, r);
    ck_assert(of_gate.tx_on);
    ck_assert_int_eq(last_kind, MADI_RAIL_ACK); /* ACK has waited, and has left after BEGIN */
    ck_assert(!r->begin_due && !r->ack_due);
}
END_TEST

START_TEST(packets_without_acknowledgement_are_bounded)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_MSG};
    int n = 0;
    two_rails(-1, -1, 1000);
    while (n <= MADI_RAILS_KEPT &&
           madi_rails_send(&of_gate.base, &(struct iovec){&hdr, sizeof hdr}, 1, sizeof hdr, NULL) == MADI_SENT)
        n++;
    ck_assert_int_eq(n, MADI_RAILS_KEPT);
}
END_TEST

#ifdef HAVE_HWLOC
/* Send a piece; return the rail that it went by. */
static int piece_send(void)
{
    static madi_op_t op = {.of = 1 << 20};
    static unsigned char body[65536];
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_DATA, .length = sizeof body};
    struct iovec vec[2] = {{&hdr, sizeof hdr}, {body, sizeof body}};
    uint64_t before = of_gate.rail[0].bytes_out;
    ck_assert_int_eq(madi_rails_send(&of_gate.base, vec, 2, sizeof hdr + sizeof body, &op), MADI_TAKEN);
    return of_gate.rail[0].bytes_out > before ? 0 : 1;
}

/* Of rails that are as quick, the one near the memory is used first; the other one then takes the next piece.  All memory of
 * this process is on node 0. */
START_TEST(near_rail_comes_first)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    ck_assert(marceli_numa_describe(two_sockets, NULL, &cpus));
    if (marceli_numa_of_memory(&cpus) != 0)
        return; /* this host has several nodes, or does not say */
    two_rails(1, 0, 1000);
    ck_assert_int_eq(piece_send(), 1);
    ck_assert_int_eq(piece_send(), 0);
    two_rails(0, 1, 1000);
    ck_assert_int_eq(piece_send(), 0);
    ck_assert_int_eq(piece_send(), 1);
    two_rails(0, 1, 1200); /* quicker than what near is worth */
    ck_assert_int_eq(piece_send(), 1);
    two_rails(0, 1, 1100);
    ck_assert_int_eq(piece_send(), 0);
    two_rails(-1, 0, 1000);
    ck_assert_int_eq(piece_send(), 0);
    two_rails(1, 1, 1000);
    ck_assert_int_eq(piece_send(), 0);
}
END_TEST
#endif

Suite *rails_suite(void)
{
    const TTest *tests[] = {pieces_under_way_fill_a_block, packets_of_rails_are_not_taken_directly, begin_comes_first,
                            packets_without_acknowledgement_are_bounded,
#ifdef HAVE_HWLOC
                            near_rail_comes_first
#endif
    };
    return SUITE_OF("rails", tests);
}

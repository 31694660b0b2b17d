/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of rails: pieces of a block that arrive by several of them, from a peer that breaks the rules. */
#include "unit.h"

#include "core/core.h"
#include "core/recv/rdv_recv.h"
#include "core/wire/handle.h"
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

Suite *rails_suite(void)
{
    const TTest *tests[] = {pieces_under_way_fill_a_block};
    return SUITE_OF("rails", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/link/ledger.c: charges, their bounds per peer and for all peers, and the limit on log lines. */
#include "unit.h"

#include "core/core.h"

#include <stdlib.h>

static mad_session_t *session;
static madi_gate_t *gates[3];

static void setup(void)
{
    session = calloc(1, sizeof *session);
    for (int i = 0; i < 3; i++) {
        gates[i] = calloc(1, sizeof *gates[i]);
        gates[i]->session = session;
    }
}

static void teardown(void)
{
    for (int i = 0; i < 3; i++)
        free(gates[i]);
    free(session);
}

START_TEST(peer_has_its_bound)
{
    int64_t most = madi_bounds[MADI_CHARGE_CHANNELS].peer;
    setup();
    ck_assert(madi_charge(gates[0], MADI_CHARGE_CHANNELS, most));
    ck_assert(!madi_charge(gates[0], MADI_CHARGE_CHANNELS, 1));
    ck_assert_int_eq(gates[0]->ledger.held[MADI_CHARGE_CHANNELS], most); /* a refused charge is not counted */
    ck_assert(madi_charge(gates[1], MADI_CHARGE_CHANNELS, 1));
    ck_assert_int_eq(session->ledger.held[MADI_CHARGE_CHANNELS], most + 1);
    madi_uncharge(gates[0], MADI_CHARGE_CHANNELS, 1);
    ck_assert(madi_charge(gates[0], MADI_CHARGE_CHANNELS, 1));
    teardown();
}
END_TEST

START_TEST(all_peers_have_their_bound)
{
    int64_t most = madi_bounds[MADI_CHARGE_CTRL].peer, small = most / 16;
    setup();
    session->ledger.held[MADI_CHARGE_CTRL] = madi_bounds[MADI_CHARGE_CTRL].sum; /* these bytes are charged to other peers */
    ck_assert(madi_charge(gates[0], MADI_CHARGE_CTRL, small));                  /* a peer that holds little is not refused */
    ck_assert(!madi_charge(gates[0], MADI_CHARGE_CTRL, 1));
    ck_assert(!madi_charge(gates[1], MADI_CHARGE_CTRL, small + 1));
    session->ledger.held[MADI_CHARGE_CTRL] -= most;
    ck_assert(madi_charge(gates[0], MADI_CHARGE_CTRL, 1));
    teardown();
}
END_TEST

START_TEST(gateway_has_less_for_answers)
{
    setup();
    session->ledger.most[MADI_CHARGE_ANSWERS] = 4096;
    ck_assert(madi_charge(gates[0], MADI_CHARGE_ANSWERS, 4096));
    ck_assert(!madi_charge(gates[1], MADI_CHARGE_ANSWERS, madi_bounds[MADI_CHARGE_ANSWERS].peer / 16 + 1));
    teardown();
}
END_TEST

START_TEST(log_lines_are_limited)
{
    int n = 0;
    setup();
    for (int i = 0; i < 2000; i++)
        n += madi_ledger_line(session, MADI_LOG_WARN);
    ck_assert_int_ge(n, 256);
    ck_assert_int_lt(n, 300);
    ck_assert_int_gt(session->ledger.lines_left_out, 1600);
    ck_assert(!madi_ledger_line(session, MADI_LOG_DEBUG)); /* lines of this level are not printed, and so not counted */
    session->ledger.lines_at -= INT64_C(3600000000000);    /* an hour passes */
    ck_assert(madi_ledger_line(session, MADI_LOG_WARN));
    ck_assert_int_eq(session->ledger.lines, 255);
    ck_assert_int_eq(session->ledger.lines_left_out, 0); /* the number of lines that were left out has been logged */
    teardown();
}
END_TEST

/* Every kind of charge has the texts from which log lines are made. */
START_TEST(bound_table_is_complete)
{
    for (int i = 0; i < MADI_CHARGES; i++) {
        ck_assert(madi_bounds[i].name && madi_bounds[i].what && madi_bounds[i].past);
        ck_assert_int_gt(madi_bounds[i].peer, 0);
        ck_assert_int_le(madi_bounds[i].peer, madi_bounds[i].sum);
    }
}
END_TEST

Suite *ledger_suite(void)
{
    const TTest *const tests[] = {peer_has_its_bound, all_peers_have_their_bound, gateway_has_less_for_answers,
                                  log_lines_are_limited, bound_table_is_complete};
    return SUITE_OF("ledger", tests);
}

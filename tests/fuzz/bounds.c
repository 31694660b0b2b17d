/* SPDX-License-Identifier: BSD-3-Clause */
/* Assertions of the fuzzers about the ledger (core/link/ledger.h), after each step. */
#include "core/link/link_gate.h"
#include "world.h"

static const struct {
    int64_t peer, sum;
} low[MADI_CHARGES] = {
    [MADI_CHARGE_CTRL] = {4096, 6144},      [MADI_CHARGE_ANSWERS] = {2048, 3072}, [MADI_CHARGE_CHANNELS] = {12, 20},
    [MADI_CHARGE_WAITING] = {16384, 24576}, [MADI_CHARGE_STREAMS] = {6, 8},       [MADI_CHARGE_HANDSHAKES] = {3, 4},
    [MADI_CHARGE_PEERS] = {3, 4},           [MADI_CHARGE_DIALS] = {2, 3},         [MADI_CHARGE_BORROWED] = {65536, 98304}};

void world_bounds_lower(void)
{
    for (int i = 0; i < MADI_CHARGES; i++) {
        madi_bounds[i].peer = low[i].peer;
        madi_bounds[i].sum = low[i].sum;
    }
}

/* Return the least memory that messages take on a channel that was never opened. */
static int64_t least_waiting(const madi_conn_t *conn)
{
    int64_t n = 0;
    for (const madi_rx_msg_t *m = conn->unopened && !conn->opened_since_announce ? conn->ready : NULL; m; m = m->next)
        n += (int64_t)sizeof *m;
    return n;
}

/* Count the memory that a gate holds, as far as it can be counted.  If the peer has passed a bound and is about to be lost,
 * some of this memory was not charged. */
static void gate_count(madi_gate_t *gate, int64_t n[MADI_CHARGES])
{
    bool past = atomic_load(&gate->ledger.past);
    madi_lock(&gate->tx_lock);
    for (const madi_ctrl_t *c = gate->out->ctrl; c; c = c->next)
        n[c->hdr.type == MADI_WIRE_FORWARD ? MADI_CHARGE_ANSWERS : MADI_CHARGE_CTRL] +=
            (int64_t)(sizeof *c + 16 + c->hdr.length);
    madi_unlock(&gate->tx_lock);
    for (const madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate) {
        FUZZ_CHECK(past || !conn->remote_known || conn->unopened_counted || conn->channel->is_open ||
                   conn->opened_since_announce);
        FUZZ_CHECK(past || conn->unopened_bytes >= least_waiting(conn));
        n[MADI_CHARGE_CHANNELS] += conn->unopened_counted;
        n[MADI_CHARGE_WAITING] += conn->unopened_bytes;
    }
}

void world_bounds_check(world_t *w)
{
    mad_session_t *s = w->session;
    int64_t sum[MADI_CHARGES] = {0};
    madi_lock(&s->lock);
    for (madi_gate_t *gate = s->gates; gate; gate = gate->next) {
        int64_t n[MADI_CHARGES] = {0};
        gate_count(gate, n);
        for (int i = 0; i < MADI_CHARGES; i++) {
            int64_t held = atomic_load(&gate->ledger.held[i]);
            FUZZ_CHECK(held >= 0 && held <= madi_bounds[i].peer);
            FUZZ_CHECK(i > MADI_CHARGE_WAITING || held == n[i]);
            sum[i] += held;
        }
    }
    for (int i = 0; i < MADI_CHARGES; i++) {
        int64_t held = atomic_load(&s->ledger.held[i]),
                exempt = i == MADI_CHARGE_PEERS ? 0 : madi_bounds[i].peer / 16 * (int64_t)madi_peers_known(s);
        FUZZ_CHECK(held >= sum[i] && held <= madi_bounds[i].sum + exempt);
        FUZZ_CHECK(i == MADI_CHARGE_PEERS || held == sum[i]); /* a process stays known after its gate was released */
    }
    madi_unlock(&s->lock);
}

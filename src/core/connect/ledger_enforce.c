/* SPDX-License-Identifier: BSD-3-Clause */
/* Enforcement of the ledger: the connection of a peer that has passed a bound ends. */
#include "core/connect/gate.h"
#include "core/link/ledger.h"
#include "core/object/gate.h"
#include "core/object/session.h"

void madi_ledger_enforce(madi_gate_t *gate)
{
    int past = atomic_load_explicit(&gate->ledger.past, memory_order_relaxed);
    char text[MADI_LEDGER_TEXT];
    if (MADI_LIKELY(!past) || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return;
    madi_ledger_explain(gate, (madi_charge_t)(past - 1), text);
    madi_gate_down(gate, MAD_ERR_PROTOCOL, text);
}

static madi_gate_t *gate_with_most(mad_session_t *s, madi_charge_t what)
{
    madi_gate_t *most = NULL;
    for (madi_gate_t *gate = s->gates; gate; gate = gate->next)
        if (atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP &&
            (!most || madi_ledger_held(&gate->ledger.held[what]) > madi_ledger_held(&most->ledger.held[what])))
            most = gate;
    return most;
}

void madi_ledger_enforce_all(mad_session_t *s)
{
    int over = atomic_exchange_explicit(&s->ledger.over, 0, memory_order_relaxed);
    for (int i = 0; i < MADI_CHARGES; i++) {
        madi_gate_t *gate = over & 1 << i ? gate_with_most(s, (madi_charge_t)i) : NULL;
        if (!gate || madi_ledger_held(&s->ledger.held[i]) <= madi_ledger_bound(s, (madi_charge_t)i))
            continue;
        madi_ledger_pass(gate, (madi_charge_t)i);
        madi_ledger_enforce(gate);
    }
}

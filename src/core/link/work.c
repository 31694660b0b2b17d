/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of gates with something to send, which the next round of progress serves. */
#include "core/driver.h"
#include "core/link/link.h"

void madi_gate_work(madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    if (atomic_exchange_explicit(&gate->work, 1, memory_order_acq_rel))
        return;
    madi_lock(&s->work_lock);
    gate->next_work = s->work;
    s->work = gate;
    atomic_store_explicit(&s->has_work, 1, memory_order_release);
    madi_unlock(&s->work_lock);
    madi_session_wake(s);
}

void madi_gate_go_on(madi_gate_t *gate)
{
    atomic_store_explicit(&gate->session->strides_left, 1, memory_order_relaxed); /* before the gate is in the list */
    madi_gate_work(gate);
}

void madi_link_writable(madi_link_t *link)
{
    if (link->outer)
        link->outer->driver->upcalls->link_writable(link);
    else
        madi_gate_work(link->gate);
}

void madi_link_lock_tx(madi_link_t *link)
{
    madi_lock(&link->gate->tx_lock);
}

void madi_link_unlock_tx(madi_link_t *link)
{
    madi_unlock(&link->gate->tx_lock);
}

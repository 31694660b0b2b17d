/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of gates with something to send, which the next round of progress serves. */
#include "core/driver.h"
#include "core/link/link.h"
#include "core/link/link_gate.h"

void madi_gate_work(madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    if (atomic_exchange_explicit(&gate->out->has_work, 1, memory_order_acq_rel))
        return;
    madi_lock(&s->work_lock);
    gate->out->next_work = s->link.work;
    s->link.work = gate;
    atomic_store_explicit(&s->has_work, 1, memory_order_release);
    madi_unlock(&s->work_lock);
    madi_session_wake(s);
}

void madi_gate_go_on(madi_gate_t *gate)
{
    /* set before the gate enters the list, so that a thread that finds the gate also sees this value */
    atomic_store_explicit(&gate->session->strides_left, 1, memory_order_relaxed);
    madi_gate_work(gate);
}

bool madi_gate_has_work(const madi_gate_t *gate)
{
    return atomic_load_explicit(&gate->out->has_work, memory_order_acquire); /* pairs with madi_work_next */
}

madi_gate_t *madi_work_take(mad_session_t *s)
{
    madi_gate_t *list;
    madi_lock(&s->work_lock);
    list = s->link.work;
    s->link.work = NULL;
    atomic_store_explicit(&s->has_work, 0, memory_order_relaxed);
    atomic_store_explicit(&s->strides_left, 0, memory_order_relaxed);
    madi_unlock(&s->work_lock);
    return list;
}

madi_gate_t *madi_work_next(madi_gate_t *gate)
{
    madi_gate_t *next = gate->out->next_work;
    /* pairs with madi_gate_work, which may write next_work from here on */
    atomic_store_explicit(&gate->out->has_work, 0, memory_order_release);
    return next;
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

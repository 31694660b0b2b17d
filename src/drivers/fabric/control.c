/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/control.h"

#include "base/clock.h"

void fabric_control_arrived(fabric_link_t *l, const fabric_control_t *c)
{
    const fabric_ops_t *ops = fabric_of(l)->ops;
    fabric_control_t answer;
    bool asks = fabric_end_arrived(&l->end, c, &answer);
    if (!l->is_up)
        return; /* the tag of the other end is not known yet; a BYE is reported once the link is up */
    if (asks)
        ops->control_send(l, (fabric_what_t)answer.what, answer.number);
    if (c->what == FABRIC_DONE && ops->done_arrived)
        ops->done_arrived(l, c->number);
    else
        fabric_bye_check(l);
}

void fabric_bye_check(fabric_link_t *l)
{
    if (l->is_up && fabric_end_reached(&l->end))
        fabric_link_down(l, MAD_ERR_PEER, FABRIC_CLOSED);
}

bool fabric_drained(madi_link_t *link)
{
    fabric_link_t *l = (fabric_link_t *)link;
    madi_link_lock_tx(link);
    uint32_t sent = l->end.sent;
    madi_link_unlock_tx(link);
    if (!l->is_up || (l->end.acked == sent && !atomic_load_explicit(&l->flying, memory_order_relaxed)))
        return true;
    if (fabric_end_asks(&l->end))
        fabric_of(l)->ops->control_send(l, FABRIC_ASK, sent);
    fabric_heat(&fabric_of(l)->heat);
    return false;
}

/* ---- Liveness ---------------------------------------------------------------------------------------------------- */

static void fabric_link_look(fabric_link_t *l)
{
    const fabric_ops_t *ops = fabric_of(l)->ops;
    char text[MADI_REASON_MAX];
    switch (fabric_end_look(&l->end, text)) {
    case FABRIC_LOOK_HEARD: break;
    case FABRIC_LOOK_SILENT: ops->control_send(l, FABRIC_PING, 1); break;
    case FABRIC_LOOK_GONE:
        if (ops->peer_lost)
            ops->peer_lost(l);
        fabric_link_down(l, MAD_ERR_PEER, text);
        break;
    }
}

static void fabric_tick_ready(madi_watch_t *watch, uint32_t events)
{
    fabric_adapter_t *a = MADI_CONTAINER(watch, fabric_adapter_t, tick);
    int64_t now = madi_now();
    int i = 0;
    (void)events;
    if (!fabric_tick_take(watch))
        return;
    if (!a->ops->tick(a))
        return; /* nothing was received, so silence does not mean that a peer is dead */
    if (now - a->looked < fabric_look_ns())
        return;
    a->looked = now;
    for (fabric_link_t *l; (l = fabric_link_next(a, &i));)
        if (l->is_up && (l->process.fd <= 0 || a->looks_at_all)) /* a pidfd reports the end of a process more reliably
                                                                  * and sooner */
            fabric_link_look(l);
}

mad_status_t fabric_control_open(fabric_adapter_t *a, int64_t period, char *reason)
{
    a->tick.ready = fabric_tick_ready;
    return fabric_tick_open(a->adapter.session, &a->tick, period < fabric_look_ns() ? period : fabric_look_ns(), reason);
}

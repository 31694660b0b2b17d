/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: messages between the drivers of a link's two ends (drivers/fabric/end.h), and liveness.
 *
 * UCX reports the end of a peer where a transport notices it (tcp, InfiniBand), and late within a host; a peer that is
 * stopped, or whose host is gone, may never be reported.  A timer of the adapter makes UCX progress and looks at every link.
 * The timer is a rare watch, so handshakes, PING and ASK are answered while the program computes. */
#include "drivers/ucx/ucx.h"

#include "base/clock.h"

#define TICK_NS INT64_C(100000000) /* ns between two calls of UCX, which may have received a handshake */

bool ucx_control_send(ucx_link_t *l, fabric_what_t what, uint32_t number)
{
    fabric_control_t c = {what, number};
    uint64_t tag = fabric_tag(FABRIC_KIND_CONTROL, fabric_tag_key(l->tag), fabric_tag_index(l->tag));
    ucs_status_t status;
    ucx_sent_t sent = ucx_message_send(ucx_of(l), l->peer, tag, &(struct iovec){&c, sizeof c}, 1, sizeof c, NULL, &status);
    if (sent == UCX_SENT_FAILED && !l->closed)
        ucx_send_failed(l, status);
    return sent == UCX_SENT_OK;
}

void ucx_control_arrived(ucx_link_t *l, const fabric_control_t *c)
{
    fabric_control_t answer;
    if (!l->started)
        return; /* the tag of the other end is not known yet */
    if (fabric_end_arrived(&l->end, c, &answer))
        ucx_control_send(l, (fabric_what_t)answer.what, answer.number);
    ucx_bye_check(l);
}

void ucx_bye_check(ucx_link_t *l)
{
    if (fabric_end_reached(&l->end))
        ucx_down(l, MAD_ERR_PEER, FABRIC_CLOSED);
}

/* A copied message that UCX has completed may still be on its way, so the link is drained only when the peer has
 * answered. */
bool ucx_drained(madi_link_t *link)
{
    ucx_link_t *l = (ucx_link_t *)link;
    madi_link_lock_tx(link);
    uint32_t sent = l->end.sent;
    madi_link_unlock_tx(link);
    if (!l->started || (l->end.acked == sent && !atomic_load_explicit(&l->flying, memory_order_relaxed)))
        return true;
    if (fabric_end_asks(&l->end))
        ucx_control_send(l, FABRIC_ASK, sent);
    fabric_heat(&ucx_of(l)->heat);
    return false;
}

static void ucx_link_look(ucx_link_t *l)
{
    char text[MADI_REASON_MAX];
    switch (fabric_end_look(&l->end, text)) {
    case FABRIC_LOOK_HEARD: break;
    case FABRIC_LOOK_SILENT: ucx_control_send(l, FABRIC_PING, 1); break;
    case FABRIC_LOOK_GONE: ucx_down(l, MAD_ERR_PEER, text); break;
    }
}

static void ucx_tick_ready(madi_watch_t *watch, uint32_t events)
{
    ucx_adapter_t *a = MADI_CONTAINER(watch, ucx_adapter_t, tick);
    int64_t now = madi_now();
    (void)events;
    if (!fabric_tick_take(watch))
        return;
    ucx_drain(a);
    ucx_peers_reap(a);
    if (now - a->looked < fabric_look_ns())
        return;
    a->looked = now;
    for (int i = 0; i < a->links.n; i++) {
        ucx_link_t *l = a->links.links[i];
        if (!l || l->closed || l->down || !l->started)
            continue;
        if (l->process.fd > 0 && !a->deaths) /* a pidfd reports more, and sooner; but not that a queue is blocked */
            continue;
        ucx_link_look(l);
    }
}

mad_status_t ucx_tick_open(ucx_adapter_t *a, char *reason)
{
    a->tick.ready = ucx_tick_ready;
    return fabric_tick_open(a->base.session, &a->tick, TICK_NS < fabric_look_ns() ? TICK_NS : fabric_look_ns(), reason);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: messages between the drivers of a link's two ends, and liveness.
 *
 * They are those of drivers/fabric/end.h; the number in DONE is that of a flight.  A timer of the adapter reads the queue and
 * looks at every link.  It is a rare watch, so handshakes, PING and ASK are answered while the program computes. */
#include "drivers/ofi/ofi.h"

#include "base/clock.h"
#include <stdlib.h>

#define TICK_QUEUE INT64_C(100000000) /* ns between two looks at the queue, which may hold a handshake ... */
#define TICK_BLIND INT64_C(20000000)  /* ... and where the provider has no descriptor that wakes a waiting thread */
#define LATER_NS INT64_C(50000000)    /* ns that an adapter's end waits for BYE to leave */

static ssize_t control_post(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, fabric_control_t c)
{
    return ofi_message(a, to, tag, &(struct iovec){&c, sizeof c}, 1, sizeof c, NULL);
}

static uint64_t control_tag(const ofi_link_t *l)
{
    return fabric_tag(FABRIC_KIND_CONTROL, fabric_tag_key(l->tag), fabric_tag_index(l->tag));
}

bool ofi_control_send(ofi_link_t *l, fabric_what_t what, uint32_t number)
{
    ssize_t rc = control_post(ofi_of(l), l->peer->addr, control_tag(l), (fabric_control_t){what, number});
    if (rc && rc != -FI_EAGAIN)
        ofi_send_failed(l, rc);
    return !rc;
}

void ofi_control_arrived(ofi_link_t *l, const fabric_control_t *c)
{
    fabric_control_t answer;
    if (fabric_end_arrived(&l->end, c, &answer))
        ofi_control_send(l, (fabric_what_t)answer.what, answer.number);
    if (c->what == FABRIC_DONE)
        ofi_flight_done(l, c->number);
    else
        ofi_bye_check(l);
}

void ofi_bye_check(ofi_link_t *l)
{
    if (fabric_end_reached(&l->end))
        ofi_down(l, MAD_ERR_PEER, FABRIC_CLOSED);
}

/* ---- Ends ------------------------------------------------------------------------------------------------------------- */

/* Nothing reports that an injected message has left this process, so ASK queries the peer. */
bool ofi_drained(madi_link_t *link)
{
    ofi_link_t *l = (ofi_link_t *)link;
    uint32_t sent;
    madi_link_lock_tx(link);
    sent = l->end.sent;
    madi_link_unlock_tx(link);
    if (!l->started || (l->end.acked == sent && !atomic_load_explicit(&l->flying, memory_order_relaxed)))
        return true;
    if (fabric_end_asks(&l->end))
        ofi_control_send(l, FABRIC_ASK, sent);
    fabric_heat(&ofi_of(l)->heat);
    return false;
}

/* A message that the provider has not taken; its link may have ended. */
typedef struct ofi_later {
    struct ofi_later *next;
    ofi_peer_t *peer;
    uint64_t tag;
    fabric_control_t control;
} ofi_later_t;

bool ofi_control_later(ofi_link_t *l, fabric_what_t what, uint32_t number)
{
    ofi_adapter_t *a = ofi_of(l);
    fabric_control_t control = {what, number};
    if (control_post(a, l->peer->addr, control_tag(l), control) != -FI_EAGAIN)
        return true; /* a failure is reported by other means */
    ofi_later_t *later = malloc(sizeof *later);
    if (!later)
        return false;
    *later = (ofi_later_t){a->later, l->peer, control_tag(l), control};
    l->peer->uses++;
    a->later = later;
    fabric_heat(&a->heat);
    return true;
}

static void later_free(ofi_adapter_t *a, ofi_later_t **at)
{
    ofi_later_t *later = *at;
    *at = later->next;
    ofi_peer_drop(a, later->peer);
    free(later);
}

void ofi_later_post(ofi_adapter_t *a)
{
    ofi_later_t **at = &a->later;
    while (*at)
        if (control_post(a, (*at)->peer->addr, (*at)->tag, (*at)->control) != -FI_EAGAIN)
            later_free(a, at);
        else
            at = &(*at)->next;
}

void ofi_later_fini(ofi_adapter_t *a)
{
    int64_t end = a->later ? madi_now() + LATER_NS : 0;
    while (a->later && madi_now() < end)
        ofi_drain(a);
    while (a->later)
        later_free(a, &a->later);
}

/* ---- Liveness ------------------------------------------------------------------------------------------------------------ */

static void link_look(ofi_link_t *l)
{
    char text[MADI_REASON_MAX];
    switch (fabric_end_look(&l->end, text)) {
    case FABRIC_LOOK_HEARD: break;
    case FABRIC_LOOK_SILENT: ofi_control_send(l, FABRIC_PING, 1); break;
    case FABRIC_LOOK_GONE: ofi_down(l, MAD_ERR_PEER, text); break;
    }
}

static void tick_ready(madi_watch_t *watch, uint32_t events)
{
    ofi_adapter_t *a = MADI_CONTAINER(watch, ofi_adapter_t, tick);
    int64_t now = madi_now();
    (void)events;
    if (!fabric_tick_take(watch))
        return;
    ofi_drain(a);
    if (now - a->looked < fabric_look_ns())
        return;
    a->looked = now;
    for (int i = 0; i < a->links.n; i++) {
        ofi_link_t *l = a->links.links[i];
        if (!l || l->closed || l->down || !l->started || l->process.fd > 0) /* a pidfd reports more, and sooner */
            continue;
        link_look(l);
    }
}

mad_status_t ofi_tick_open(ofi_adapter_t *a, char *reason)
{
    int64_t ns = a->cq_watch.fd > 0 ? TICK_QUEUE : TICK_BLIND;
    a->tick.ready = tick_ready;
    return fabric_tick_open(a->base.session, &a->tick, ns < fabric_look_ns() ? ns : fabric_look_ns(), reason);
}

void ofi_tick_close(ofi_adapter_t *a)
{
    fabric_tick_close(a->base.session, &a->tick);
}

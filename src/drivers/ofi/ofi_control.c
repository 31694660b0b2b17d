/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: messages between the drivers of a link's two ends, and liveness.
 *
 *   PING 1, PING 0   are you there? / yes.  A reliable datagram endpoint does not report that a peer has died
 *   ASK n            at an end without loss: has all arrived, n packets?
 *   ACK n            n packets have arrived
 *   DONE n           the body of flight n has been read: its memory is the sender's again
 *   BYE n            the link is closed, after packet number n
 *
 * They are outside of the order of packets, which is why BYE names its place.  A timer of the adapter reads the queue and looks
 * at every link.  It is a rare watch, so handshakes, PING and ASK are answered while the program computes. */
#include "drivers/ofi/ofi.h"

#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TICKS 8                       /* ticks of MAD_PEER_TIMEOUT, unless that makes them too long */
#define TICK_MAX INT64_C(1000000000)  /* ns */
#define TICK_QUEUE INT64_C(100000000) /* ns between two looks at the queue, which may hold a handshake ... */
#define TICK_BLIND INT64_C(20000000)  /* ... and where the provider has no descriptor that wakes a waiting thread */
#define ASK_NS INT64_C(2000000)       /* ns between two ASK */
#define LATER_NS INT64_C(50000000)    /* ns that an adapter's end waits for BYE to leave */

static ssize_t control_post(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, ofi_control_t c)
{
    return ofi_message(a, to, tag, &(struct iovec){&c, sizeof c}, 1, sizeof c, NULL);
}

static uint64_t control_tag(const ofi_link_t *l)
{
    return ofi_tag(OFI_KIND_CONTROL, ofi_tag_key(l->tag), ofi_tag_index(l->tag));
}

bool ofi_control_send(ofi_link_t *l, ofi_what_t what, uint32_t number)
{
    ssize_t rc = control_post(ofi_of(l), l->peer->addr, control_tag(l), (ofi_control_t){what, number});
    if (rc && rc != -FI_EAGAIN)
        ofi_send_failed(l, rc);
    return !rc;
}

void ofi_control_arrived(ofi_link_t *l, const ofi_control_t *c)
{
    switch ((ofi_what_t)c->what) {
    case OFI_PING:
        if (c->number)
            ofi_control_send(l, OFI_PING, 0);
        break;
    case OFI_ASK: ofi_control_send(l, OFI_ACK, l->got_all); break;
    case OFI_ACK: l->acked = c->number; break;
    case OFI_DONE: ofi_flight_done(l, c->number); break;
    case OFI_BYE:
        l->bye = true;
        l->bye_at = c->number;
        ofi_bye_check(l);
        break;
    }
}

void ofi_bye_check(ofi_link_t *l)
{
    if (MADI_UNLIKELY(l->bye) && l->got_all == l->bye_at)
        ofi_down(l, MAD_ERR_PEER, "connection closed by peer");
}

/* ---- Ends ------------------------------------------------------------------------------------------------------------- */

/* Nothing reports that an injected message has left this process, so ASK queries the peer. */
bool ofi_drained(madi_link_t *link)
{
    ofi_link_t *l = (ofi_link_t *)link;
    uint32_t sent;
    madi_link_lock_tx(link);
    sent = l->sent_all;
    madi_link_unlock_tx(link);
    if (!l->started || (l->acked == sent && !atomic_load_explicit(&l->flying, memory_order_relaxed)))
        return true;
    int64_t now = madi_now();
    if (now - l->asked_at >= ASK_NS && ofi_control_send(l, OFI_ASK, sent))
        l->asked_at = now;
    ofi_heat(ofi_of(l));
    return false;
}

/* A message that the provider has not taken; its link may have ended. */
typedef struct ofi_later {
    struct ofi_later *next;
    ofi_peer_t *peer;
    uint64_t tag;
    ofi_control_t control;
} ofi_later_t;

bool ofi_control_later(ofi_link_t *l, ofi_what_t what, uint32_t number)
{
    ofi_adapter_t *a = ofi_of(l);
    ofi_control_t control = {what, number};
    if (control_post(a, l->peer->addr, control_tag(l), control) != -FI_EAGAIN)
        return true; /* a failure is reported by other means */
    ofi_later_t *later = malloc(sizeof *later);
    if (!later)
        return false;
    *later = (ofi_later_t){a->later, l->peer, control_tag(l), control};
    l->peer->uses++;
    a->later = later;
    ofi_heat(a);
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

static int64_t tick_ns(void)
{
    int64_t ns = madi_knob_int(MADI_KNOB_PEER_TIMEOUT) / TICKS;
    return ns < TICK_MAX ? ns : TICK_MAX;
}

static void link_look(ofi_link_t *l)
{
    char text[MADI_REASON_MAX];
    int64_t limit = madi_knob_int(MADI_KNOB_PEER_TIMEOUT);
    l->silent = l->heard ? 0 : l->silent + 1;
    l->heard = false;
    if (l->silent * tick_ns() >= limit) {
        snprintf(text, sizeof text, "nothing came for %lld ms (MAD_PEER_TIMEOUT): the peer, its host or the network is gone",
                 (long long)(limit / 1000000));
        ofi_down(l, MAD_ERR_PEER, text);
    } else if (l->silent) {
        ofi_control_send(l, OFI_PING, 1);
    }
}

static void tick_ready(madi_watch_t *watch, uint32_t events)
{
    ofi_adapter_t *a = MADI_CONTAINER(watch, ofi_adapter_t, tick);
    int64_t now = madi_now();
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    ofi_drain(a);
    if (now - a->looked < tick_ns())
        return;
    a->looked = now;
    for (int i = 0; i < a->n_links; i++) {
        ofi_link_t *l = a->links[i];
        if (!l || l->closed || l->down || !l->started || l->process.fd > 0) /* a pidfd reports more, and sooner */
            continue;
        link_look(l);
    }
}

mad_status_t ofi_tick_open(ofi_adapter_t *a, char *reason)
{
    int64_t ns = a->cq_watch.fd > 0 ? TICK_QUEUE : TICK_BLIND;
    struct timespec period = {0, ns < tick_ns() ? ns : tick_ns()};
    a->tick.ready = tick_ready;
    a->tick.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (a->tick.fd >= 0 && !timerfd_settime(a->tick.fd, 0, &(struct itimerspec){period, period}, NULL) &&
        madi_watch_add_rare(a->base.session, &a->tick, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no timer: %s%s", strerror(errno), madi_remedy(errno));
    if (a->tick.fd >= 0)
        madi_fd_close(a->tick.fd);
    a->tick.fd = -1;
    return MAD_ERR_SYSTEM;
}

void ofi_tick_close(ofi_adapter_t *a)
{
    if (a->tick.fd <= 0)
        return;
    madi_watch_del(a->base.session, &a->tick);
    madi_fd_close(a->tick.fd);
    a->tick.fd = -1;
}

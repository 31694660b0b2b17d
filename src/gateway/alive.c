/* SPDX-License-Identifier: BSD-3-Clause */
/* Do those who shall pass a stream on still live?  A connection that ends says so at once.  A process that hangs, or a
 * cable that is pulled, says nothing: who waits for acknowledgement of something, asks.
 *
 * A timer runs while there is something to watch, four times in MAD_FORWARD_DETECT.  An end of which nothing more was
 * acknowledged since the last look asks the other end for it, and its next gateway for a sign of life; each gateway that
 * the question passes asks the next one.  Whatever comes from a gateway is a sign of life.  When none comes in that time its
 * connection is ended, and then everything is as if it had died.  The other *end* owes no sign of life: it may compute. */
#include "gateway/gateway.h"
#include "base/clock.h"
#include "base/knob.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOKS 4                   /* in the time of detection */
#define QUICK INT64_C(50000000)   /* ns between looks while a stream has no way */
#define LEAST INT64_C(5000000)

int64_t gw_patience(void)
{
    int64_t detect = madi_knob_int(MADI_KNOB_FORWARD_DETECT);
    return detect ? detect : INT64_C(5000000000);
}

static void set(gw_t *gw, int64_t ns)
{
    struct itimerspec when = {.it_value = {ns / 1000000000, ns % 1000000000}};
    timerfd_settime(gw->timer.fd, 0, &when, NULL);
}

static int64_t period(bool quick)
{
    int64_t ns = gw_patience() / LOOKS;
    if (quick && ns > QUICK)
        ns = QUICK;
    return ns > LEAST ? ns : LEAST;
}

void gw_alive_set(gw_t *gw)
{
    if (atomic_exchange(&gw->ticks, 1))
        return;
    marceli_async_count(1); /* also while the program computes */
    set(gw, period(false));
}

void gw_hop_ask(gw_hop_t *hop)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD, .flags = MADI_FORWARD_PING, .length = sizeof(madi_wire_forward_t)};
    madi_wire_forward_t body = {0};
    if (hop->down || !hop->answers || hop->asked || !madi_knob_int(MADI_KNOB_FORWARD_DETECT))
        return;
    if (madi_gate_ctrl(hop->gate, &hdr, &body) == MAD_OK) {
        hop->asked = madi_now();
        gw_alive_watch(hop->gw);
    }
}

void gw_hop_ping(gw_hop_t *hop, const madi_wire_hdr_t *hdr)
{
    madi_wire_hdr_t answer = *hdr;
    madi_wire_forward_t body = {0};
    answer.flags |= MADI_FORWARD_OPENER;
    answer.length = sizeof body;
    if (!(hdr->flags & MADI_FORWARD_OPENER))
        madi_gate_ctrl(hop->gate, &answer, &body);
}

/* Returns whether it must be looked at again. */
static bool look_at_end(gw_end_t *end, int64_t now)
{
    bool still = end->seen == end->window.base;
    if (end->closed)
        return false;
    if (end->lost || end->resuming) {
        gw_way_look(end, now);
        return !end->closed;
    }
    if (gw_window_empty(end)) {
        if (still)
            gw_window_rest(end);
        end->seen = end->window.base;
        return !still;
    }
    still = end->seen == end->window.base;
    end->seen = end->window.base;
    if (still && !end->asked)
        gw_end_ack(end, true);
    end->asked = still;
    if (still && end->side && end->side->hop)
        gw_hop_ask(end->side->hop);
    return true;
}

static bool look_at_hop(gw_hop_t *hop, int64_t now)
{
    int64_t limit = madi_knob_int(MADI_KNOB_FORWARD_DETECT);
    char text[GW_TEXT];
    if (!hop->asked || hop->down || !hop->gate->link)
        return false;
    if (now - hop->asked < limit)
        return true;
    hop->gw->dead_gateways++;
    snprintf(text, sizeof text, "the gateway gives no sign of life for %lld ms (MAD_FORWARD_DETECT)",
             (long long)(limit / 1000000));
    madi_link_down(hop->gate->link, MAD_ERR_PEER, text);
    return false;
}

static bool look(gw_t *gw, int64_t now, bool *quick)
{
    bool again = false;
    *quick = false;
    for (gw_hop_t *hop = gw->hops; hop; hop = hop->next)
        again |= look_at_hop(hop, now);
    for (gw_end_t *end = gw->ends; end; end = end->next) {
        again |= look_at_end(end, now);
        *quick |= !end->closed && (end->lost || end->resuming);
    }
    return again;
}

static void tick(madi_watch_t *watch, uint32_t events)
{
    gw_t *gw = MADI_CONTAINER(watch, gw_t, timer);
    uint64_t n;
    bool again, quick;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    again = look(gw, madi_now(), &quick);
    if (!again) {
        atomic_store(&gw->ticks, 0);
        again = look(gw, madi_now(), &quick); /* who sent something before saw that the timer was set */
        if (!again || atomic_exchange(&gw->ticks, 1)) {
            marceli_async_count(-1);
            return;
        }
    }
    set(gw, period(quick));
}

void gw_alive_soon(gw_t *gw)
{
    gw_alive_watch(gw);
    set(gw, period(true));
}

mad_status_t gw_alive_open(gw_t *gw)
{
    gw->timer = (madi_watch_t){timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), tick};
    if (gw->timer.fd < 0)
        return MAD_ERR_SYSTEM;
    return madi_watch_add(gw->base.session, &gw->timer, EPOLLIN);
}

void gw_alive_close(gw_t *gw)
{
    if (gw->timer.fd < 0 || !gw->timer.ready)
        return;
    madi_watch_del(gw->base.session, &gw->timer);
    close(gw->timer.fd);
    gw->timer.fd = -1;
    if (atomic_exchange(&gw->ticks, 1))
        marceli_async_count(-1);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Liveness of the gateways on a path.  The end of a connection is noticed immediately.  A hung process or a pulled
 * cable causes no event, so an endpoint that waits for something probes its path.
 *
 * A timer runs fast while something is pending, and slowly while there are only endpoints.  An endpoint that waits, and
 * saw nothing new between two checks, requests an acknowledgement from the other endpoint and a sign of life from its
 * next gateway.  Each gateway that is probed about a stream probes the next one.  Anything that arrives from a gateway
 * is a sign of life.  If a gateway gives no sign of life for MAD_FORWARD_DETECT, the connection to the gateway is
 * ended, as if the gateway had died.
 *
 * The other *endpoint* owes no sign of life: it may be computing.  But its host acknowledges what the network delivers,
 * and the last gateway checks this if the driver can report it.  doc/gateways.md adds up the resulting times. */
#include "gateway/gateway.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/own.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOKS 8                 /* checks per detection time; an endpoint probes after two checks without news */
#define CROWD 16                /* processes per core above which the default detection time grows */
#define LEAST INT64_C(5000000)  /* ns: shortest time between checks; probes closer together belong to one check */
#define QUICK INT64_C(50000000) /* ns: longest time between checks while a stream has no path */
#define NEVER INT64_MAX
#define IDLE_ASKS 32 /* number of idle streams that are probed at a time, in turn */

/* Detection time in ns; 0 if gateways are not probed.  The default grows with oversubscription, because a live process is
 * then silent for longer; a configured time is used as it is. */
static int64_t detection_time(const gw_t *gw)
{
    int64_t ns = madi_knob_int(MADI_KNOB_FORWARD_DETECT);
    int turns = marceli_processes_per_core(gw->base.session->processes);
    return madi_knob_origin(MADI_KNOB_FORWARD_DETECT) || turns < CROWD ? ns : ns / CROWD * turns;
}

int64_t gw_step_limit(const gw_t *gw)
{
    int64_t ns = detection_time(gw);
    return ns ? ns : INT64_C(5000000000);
}

int64_t gw_opener_head_start(const gw_t *gw)
{
    return gw_step_limit(gw) / LOOKS;
}

static int64_t probe_period(const gw_t *gw)
{
    int64_t ns = gw_step_limit(gw) / LOOKS;
    return ns > LEAST ? ns : LEAST;
}

static void probe_timer_set(gw_t *gw, int64_t ns)
{
    struct itimerspec when = {.it_value = {ns / 1000000000, ns % 1000000000}};
    atomic_store_explicit(&gw->due, madi_now() + ns, memory_order_relaxed);
    timerfd_settime(gw->timer.fd, 0, &when, NULL);
}

void gw_alive_set(gw_t *gw)
{
    if (atomic_exchange(&gw->ticks, 1))
        return;
    /* these calls make the progress thread check while the program computes; no other call wakes a thread for the check */
    marceli_progress_count_later(1);
    marceli_progress_kick_later();
    probe_timer_set(gw, probe_period(gw));
}

/* ---- Questions -------------------------------------------------------------------------------------------------- */

static bool side_ping(gw_side_t *side)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD, .length = sizeof(madi_wire_forward_t), .aux = side->label};
    madi_wire_forward_t body = {.ask = 1};
    hdr.flags = (uint8_t)(MADI_FORWARD_PING | (side->opener ? MADI_FORWARD_OPENER : 0));
    return madi_gate_ctrl(side->hop->gate, &hdr, &body) == MAD_OK;
}

void gw_side_probe(gw_side_t *side)
{
    gw_hop_t *hop = side->hop;
    int64_t now = madi_now();
    if (!hop || hop->down || !detection_time(hop->gw))
        return;
    if (hop->asked && now - hop->asked > LEAST)
        return; /* an answer is already due */
    if (hop->forwards ? !side_ping(side) : !hop->gate->link || !hop->gate->link->driver->live.host_silent)
        return;
    if (!hop->asked)
        hop->asked = now;
    gw_alive_watch(hop->gw);
}

void gw_hop_ping(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward)
{
    madi_wire_hdr_t answer = *hdr;
    madi_wire_forward_t body = {0};
    if (!forward->ask)
        return;
    answer.flags ^= MADI_FORWARD_OPENER;
    answer.length = sizeof body;
    madi_gate_ctrl(hop->gate, &answer, &body);
    if (side && side->transit)
        gw_side_probe(gw_transit_other(side));
}

/* ---- Checks: each returns the time of its next run --------------------------------------------------------------- */

/* True if the next hop does not accept the endpoint's fragments, or gives no credit for them. */
static bool end_is_blocked(gw_end_t *end)
{
    madi_gate_t *gate;
    bool is = false;
    gw_end_lock(end);
    gate = end->side && end->side->hop ? end->side->hop->gate : NULL;
    if (gate) {
        madi_lock(&gate->tx_lock);
        is = end->refused || end->side->stalled;
        madi_unlock(&gate->tx_lock);
    }
    gw_end_unlock(end);
    return is;
}

static int64_t end_check(gw_end_t *end, int64_t now)
{
    /* Fragments received on this path prove its gateways alive just as acknowledgements do. */
    uint32_t news = atomic_load_explicit(&end->window.ack, memory_order_relaxed) + end->rx_seq;
    bool still = end->seen == news, unacked, moves;
    end->seen = news;
    if (end->closed)
        return NEVER;
    if (end->lost || end->resuming) {
        gw_path_check(end, now);
        return end->closed ? NEVER : end->try_at < now + QUICK ? end->try_at : now + QUICK;
    }
    moves = gw_migrate_check(end, now);
    unacked = !gw_window_empty(end);
    if (!unacked && !end->partial && !end_is_blocked(end)) {
        if (still)
            gw_window_rest(end);
        return still && !moves ? NEVER : now + probe_period(end->gw);
    }
    if (still && unacked && !end->asked)
        gw_end_ack(end, true);
    end->asked = still;
    if (still && end->side)
        gw_side_probe(end->side);
    return now + probe_period(end->gw);
}

/* True if the host does not acknowledge what the network delivers; its process owes no answer.  A later check finds the
 * acknowledgement of data that was sent just before this one. */
static bool host_is_silent(gw_hop_t *hop, int64_t now)
{
    madi_link_t *link = hop->gate->link;
    if (atomic_load_explicit(&link->state, memory_order_relaxed) == MADI_LINK_UP && link->driver->live.host_silent &&
        link->driver->live.host_silent(link, now - hop->asked))
        return true;
    if (!hop->forwards)
        hop->asked = 0; /* until the next probe */
    return false;
}

/* True if the network makes progress.  On a slow network the probe and its answer queue behind earlier data. */
static bool network_makes_progress(const gw_hop_t *hop)
{
    madi_link_t *link = hop->gate->link;
    return atomic_load_explicit(&link->state, memory_order_relaxed) == MADI_LINK_UP && link->driver->live.moves &&
           link->driver->live.moves(link, probe_period(hop->gw));
}

static int64_t hop_check(gw_hop_t *hop, int64_t now)
{
    int64_t limit = detection_time(hop->gw);
    char text[GW_TEXT];
    if (!hop->asked || hop->down || !hop->gate->link || (!hop->answers && !host_is_silent(hop, now)))
        return NEVER;
    if (now - hop->asked < limit) /* check again within a period, since a send does not restart a running timer */
        return hop->asked + limit < now + probe_period(hop->gw) ? hop->asked + limit : now + probe_period(hop->gw);
    if (hop->answers && network_makes_progress(hop)) /* the probe may not have reached the gateway yet */
        return now + probe_period(hop->gw);
    GW_COUNT(hop->gw, gateways_silent, hop->forwards);
    snprintf(text, sizeof text, "%s gives no sign of life for %lld ms (MAD_FORWARD_DETECT)",
             hop->answers ? "the gateway" : "its host", (long long)(limit / 1000000));
    madi_link_down(hop->gate->link, MAD_ERR_PEER, text);
    return NEVER;
}

static int64_t probe_all(gw_t *gw, int64_t now)
{
    int64_t next = gw_dials_check(gw, now), at;
    for (gw_hop_t *hop = gw->hops; hop; hop = hop->next)
        next = (at = hop_check(hop, now)) < next ? at : next;
    for (gw_end_t *end = gw->ends; end; end = end->next)
        next = (at = end_check(end, now)) < next ? at : next;
    return next;
}

/* Probe the paths of idle streams now and then.  An endpoint that only waits to receive has nothing pending, and
 * would not notice a hung gateway, or that the other endpoint gave the stream up.  Called only while the program is
 * in the library: a computing program waits for nothing. */
static void probe_idle_ends(gw_t *gw)
{
    uint32_t n = 0, at = 0;
    for (gw_end_t *end = gw->ends; end; end = end->next)
        n++;
    for (gw_end_t *end = gw->ends; end; end = end->next, at++)
        if ((at + n - gw->idle_turn % n) % n < IDLE_ASKS && end->started && !end->closed && !end->lost && end->side)
            gw_side_probe(end->side);
    gw->idle_turn += IDLE_ASKS;
}

/* Do not count silence from a time in which this process, or its whole host, did not run: the timer is overdue, and
 * messages may wait unread. */
void gw_alive_postpone(gw_t *gw, int64_t now)
{
    int64_t ns = now - atomic_load_explicit(&gw->due, memory_order_relaxed);
    if (ns <= probe_period(gw))
        return;
    for (gw_hop_t *hop = gw->hops; hop; hop = hop->next)
        hop->asked += hop->asked ? ns : 0;
    for (gw_end_t *end = gw->ends; end; end = end->next) {
        end->lost += end->lost ? ns : 0;
        end->standby_since += ns;
        if (end->side && end->resuming)
            end->try_at += ns; /* deadline of an answer */
    }
    atomic_store_explicit(&gw->due, now, memory_order_relaxed);
}

static void probe_tick(madi_watch_t *watch, uint32_t events)
{
    gw_t *gw = MADI_CONTAINER(watch, gw_t, timer);
    int64_t now = madi_now(), next;
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    gw_alive_postpone(gw, now);
    if (!atomic_exchange(&gw->ticks, 1)) { /* nothing was pending */
        marceli_progress_count_later(1);
        probe_idle_ends(gw);
    }
    next = probe_all(gw, now);
    if (next == NEVER) {
        if (gw->ends)
            /* the timer is set before the store below, after which another thread may set an earlier time */
            probe_timer_set(gw, gw_step_limit(gw));
        atomic_store(&gw->ticks, 0);
        next = probe_all(gw, madi_now()); /* a thread that sent something before the store found the timer running */
        if (next == NEVER || atomic_exchange(&gw->ticks, 1)) {
            marceli_progress_count_later(-1);
            return;
        }
    }
    now = madi_now();
    probe_timer_set(gw, next - now > LEAST ? next - now : LEAST);
}

void gw_alive_soon(gw_t *gw)
{
    gw_alive_watch(gw);
    probe_timer_set(gw, LEAST);
}

mad_status_t gw_alive_open(gw_t *gw)
{
    gw->timer =
        (madi_watch_t){.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)), .ready = probe_tick};
    if (gw->timer.fd < 0)
        return MAD_ERR_SYSTEM;
    return madi_watch_add(gw->base.session, &gw->timer, EPOLLIN);
}

void gw_alive_close(gw_t *gw)
{
    if (gw->timer.fd < 0 || !gw->timer.ready)
        return;
    madi_watch_del(gw->base.session, &gw->timer);
    madi_fd_close(gw->timer.fd);
    gw->timer.fd = -1;
    if (atomic_exchange(&gw->ticks, 1))
        marceli_progress_count_later(-1);
}

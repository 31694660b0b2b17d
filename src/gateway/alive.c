/* SPDX-License-Identifier: BSD-3-Clause */
/* Do those who shall pass a stream on still live?  A connection that ends says so at once.  A process that hangs, or a
 * cable that is pulled, says nothing: who waits for something asks.
 *
 * A timer runs while there is something to watch, and slowly while there are only ends.  An end that waits, and has heard
 * nothing new between two looks, asks the other end for acknowledgement, and its next gateway for a sign of life; each
 * gateway that is asked about a stream asks the next one.  Whatever comes from a gateway is a sign of life.  When none
 * comes for MAD_FORWARD_DETECT its connection is ended, and then everything is as if it had died.  The other *end* owes no
 * sign of life: it may compute.  But its host acknowledges what the network brings, where the driver can tell; the last
 * gateway sees to that.
 * doc/gateways.md adds up how long that takes. */
#include "gateway/gateway.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/own.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOKS 8                   /* in the time of detection: two pass before somebody asks */
#define CROWD 16                  /* processes that take turns on a core: from there on who has its turn is long silent */
#define LEAST INT64_C(5000000)    /* ns between looks; questions that are no further apart than that are of one look */
#define QUICK INT64_C(50000000)   /* ns, at most, while a stream has no way */
#define NEVER INT64_MAX
#define IDLE_ASKS 32               /* streams that are asked about at once while nothing is under way, in turn */

/* The time of detection, ns; 0: nobody is asked.  Nobody chose the default, and where many take turns on a core who lives is
 * silent for longer. */
static int64_t detection(const gw_t *gw)
{
    int64_t ns = madi_knob_int(MADI_KNOB_FORWARD_DETECT);
    int turns = marceli_turns(gw->base.session->processes);
    return madi_knob_origin(MADI_KNOB_FORWARD_DETECT) || turns < CROWD ? ns : ns / CROWD * turns;
}

int64_t gw_patience(const gw_t *gw)
{
    int64_t ns = detection(gw);
    return ns ? ns : INT64_C(5000000000);
}

int64_t gw_head_start(const gw_t *gw)
{
    return gw_patience(gw) / LOOKS;
}

static int64_t period(const gw_t *gw)
{
    int64_t ns = gw_patience(gw) / LOOKS;
    return ns > LEAST ? ns : LEAST;
}

static void set(gw_t *gw, int64_t ns)
{
    struct itimerspec when = {.it_value = {ns / 1000000000, ns % 1000000000}};
    atomic_store_explicit(&gw->due, madi_now() + ns, memory_order_relaxed);
    timerfd_settime(gw->timer.fd, 0, &when, NULL);
}

void gw_alive_set(gw_t *gw)
{
    if (atomic_exchange(&gw->ticks, 1))
        return;
    marceli_async_count_later(1); /* also while the program computes; while it does not, nobody else is woken by what comes */
    marceli_async_kick_later();
    set(gw, period(gw));
}

/* ---- Questions ------------------------------------------------------------------------------------------------------- */

static bool ping(gw_side_t *side)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_FORWARD, .length = sizeof(madi_wire_forward_t), .aux = side->label};
    madi_wire_forward_t body = {.ask = 1};
    hdr.flags = (uint8_t)(MADI_FORWARD_PING | (side->opener ? MADI_FORWARD_OPENER : 0));
    return madi_gate_ctrl(side->hop->gate, &hdr, &body) == MAD_OK;
}

void gw_side_ask(gw_side_t *side)
{
    gw_hop_t *hop = side->hop;
    int64_t now = madi_now();
    if (!hop || hop->down || !detection(hop->gw))
        return;
    if (hop->asked && now - hop->asked > LEAST)
        return; /* it owes an answer already */
    if (hop->forwards ? !ping(side) : !hop->gate->link || !hop->gate->link->driver->unheard)
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
        gw_side_ask(gw_transit_other(side));
}

/* ---- Looks: each returns when the next one is due --------------------------------------------------------------------- */

/* What the next hop does not take, or gives no credit for. */
static bool refused(gw_end_t *end)
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

static int64_t look_at_end(gw_end_t *end, int64_t now)
{
    /* What comes by the way proves those on it as well as what is acknowledged. */
    uint32_t news = atomic_load_explicit(&end->window.ack, memory_order_relaxed) + end->rx_seq;
    bool still = end->seen == news, unacked, moves;
    end->seen = news;
    if (end->closed)
        return NEVER;
    if (end->lost || end->resuming) {
        gw_way_look(end, now);
        return end->closed ? NEVER : end->try_at < now + QUICK ? end->try_at : now + QUICK;
    }
    moves = gw_move_look(end, now);
    unacked = !gw_window_empty(end);
    if (!unacked && !end->half && !refused(end)) {
        if (still)
            gw_window_rest(end);
        return still && !moves ? NEVER : now + period(end->gw);
    }
    if (still && unacked && !end->asked)
        gw_end_ack(end, true);
    end->asked = still;
    if (still && end->side)
        gw_side_ask(end->side);
    return now + period(end->gw);
}

/* The process owes no answer, but is its host there?  What was sent just before one look is acknowledged at the next. */
static bool host_unheard(gw_hop_t *hop, int64_t now)
{
    madi_link_t *link = hop->gate->link;
    if (atomic_load_explicit(&link->state, memory_order_relaxed) == MADI_LINK_UP && link->driver->unheard &&
        link->driver->unheard(link, now - hop->asked))
        return true;
    if (!hop->forwards)
        hop->asked = 0; /* until somebody asks again */
    return false;
}

/* On a slow network the question is behind all that was sent before, and the answer behind what the gateway had to send. */
static bool network_moves(const gw_hop_t *hop)
{
    madi_link_t *link = hop->gate->link;
    return atomic_load_explicit(&link->state, memory_order_relaxed) == MADI_LINK_UP && link->driver->moves &&
           link->driver->moves(link, period(hop->gw));
}

static int64_t look_at_hop(gw_hop_t *hop, int64_t now)
{
    int64_t limit = detection(hop->gw);
    char text[GW_TEXT];
    if (!hop->asked || hop->down || !hop->gate->link || (!hop->answers && !host_unheard(hop, now)))
        return NEVER;
    if (now - hop->asked < limit) /* no later than after a period: while the timer is set nobody sets it for what is sent */
        return hop->asked + limit < now + period(hop->gw) ? hop->asked + limit : now + period(hop->gw);
    if (hop->answers && network_moves(hop)) /* it may not have been asked yet */
        return now + period(hop->gw);
    hop->gw->dead_gateways += hop->forwards;
    snprintf(text, sizeof text, "%s gives no sign of life for %lld ms (MAD_FORWARD_DETECT)",
             hop->answers ? "the gateway" : "its host", (long long)(limit / 1000000));
    madi_link_down(hop->gate->link, MAD_ERR_PEER, text);
    return NEVER;
}

static int64_t look(gw_t *gw, int64_t now)
{
    int64_t next = gw_dials_look(gw, now), at;
    for (gw_hop_t *hop = gw->hops; hop; hop = hop->next)
        next = (at = look_at_hop(hop, now)) < next ? at : next;
    for (gw_end_t *end = gw->ends; end; end = end->next)
        next = (at = look_at_end(end, now)) < next ? at : next;
    return next;
}

/* Who waits for what the other end is still to send has nothing under way by which it would find out that a gateway hangs,
 * or that the other end gave the stream up.  So the ways are asked about, now and then.  Only in the library: a program
 * that computes waits for nothing. */
static void ask_idle(gw_t *gw)
{
    uint32_t n = 0, at = 0;
    for (gw_end_t *end = gw->ends; end; end = end->next)
        n++;
    for (gw_end_t *end = gw->ends; end; end = end->next, at++)
        if ((at + n - gw->idle_turn % n) % n < IDLE_ASKS && end->started && !end->closed && !end->lost && end->side)
            gw_side_ask(end->side);
    gw->idle_turn += IDLE_ASKS;
}

/* This process itself was stopped, or had no time, or all of its host: what came meanwhile is not read yet, nobody has been
 * silent, and no way was looked for.  What is to be seen of it is a timer that is long over. */
void gw_alive_forgive(gw_t *gw, int64_t now)
{
    int64_t ns = now - atomic_load_explicit(&gw->due, memory_order_relaxed);
    if (ns <= period(gw))
        return;
    for (gw_hop_t *hop = gw->hops; hop; hop = hop->next)
        hop->asked += hop->asked ? ns : 0;
    for (gw_end_t *end = gw->ends; end; end = end->next) {
        end->lost += end->lost ? ns : 0;
        end->beside_at += ns;
        if (end->side && end->resuming)
            end->try_at += ns; /* until when there may be an answer */
    }
    atomic_store_explicit(&gw->due, now, memory_order_relaxed);
}

static void tick(madi_watch_t *watch, uint32_t events)
{
    gw_t *gw = MADI_CONTAINER(watch, gw_t, timer);
    int64_t now = madi_now(), next;
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    gw_alive_forgive(gw, now);
    if (!atomic_exchange(&gw->ticks, 1)) { /* nothing was under way */
        marceli_async_count_later(1);
        ask_idle(gw);
    }
    next = look(gw, now);
    if (next == NEVER) {
        if (gw->ends)
            set(gw, gw_patience(gw)); /* before somebody else may set it for sooner */
        atomic_store(&gw->ticks, 0);
        next = look(gw, madi_now()); /* who sent something before saw that the timer was set */
        if (next == NEVER || atomic_exchange(&gw->ticks, 1)) {
            marceli_async_count_later(-1);
            return;
        }
    }
    now = madi_now();
    set(gw, next - now > LEAST ? next - now : LEAST);
}

void gw_alive_soon(gw_t *gw)
{
    gw_alive_watch(gw);
    set(gw, LEAST);
}

mad_status_t gw_alive_open(gw_t *gw)
{
    gw->timer = (madi_watch_t){.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)), .ready = tick};
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
        marceli_async_count_later(-1);
}

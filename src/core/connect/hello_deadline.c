/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of handshakes, and of gates that are being connected. */
#include "base/clock.h"
#include "base/knob.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/hello_inside.h"
#include "core/connect/search.h"
#include "core/connect/stopped.h"
#include "core/object/gate.h"
#include "core/object/session.h"

#include <stdio.h>
#include <stdlib.h>

#define STOPPED_AFTER INT64_C(500000000) /* ns without an answer, before this process checks whether the peer is stopped */
#define STOPPED_REST 20                  /* checks whether peers are stopped take one 20th of the time at most */
#define STEP INT64_C(250000000)          /* longest time between two checks of deadlines in ns, while there are deadlines */

/* Return when a connecting gate is to be checked, apart from its deadline: when its search continues, or when it connects
 * again.  A gate connects again if it has waited for the peer's own attempt in vain.  The peer's attempt may have failed, or
 * the peer may have noticed the loss of a connection later than this process. */
static int64_t gate_due(const madi_gate_t *g)
{
    if (g->link)
        return INT64_MAX;
    if (g->connect->redial_at)
        return g->connect->redial_at;
    return g->connect->search && g->connect->search->next_at ? g->connect->search->next_at : INT64_MAX;
}

/* Return when an attempt is to be checked: at its deadline, or when it has waited long enough for a better attempt. */
static int64_t hello_due(const madi_hello_t *h)
{
    int64_t due = h->challenged && h->gate->connect->hello != h && h->hold < h->deadline ? h->hold : h->deadline;
    return h->frames && h->frames->again_at && h->frames->again_at < due ? h->frames->again_at : due;
}

/* Return the earlier of `first` and the time at which rails have to be checked (ns). */
static int64_t deadline_with_rails(const mad_session_t *s, int64_t first)
{
    int64_t at = s->rails ? atomic_load_explicit(&((mad_session_t *)s)->rails_at, memory_order_relaxed) : INT64_MAX;
    return at < first ? at : first;
}

/* Return when the next check is due: at most one STEP after the last check, so that a pause of this process is noticed. */
int64_t madi_hello_deadline(const mad_session_t *s)
{
    int64_t first = INT64_MAX;
    for (const madi_hello_t *h = s->connect->hellos; h; h = h->next)
        if (hello_due(h) < first)
            first = hello_due(h);
    for (const madi_gate_t *g = s->gates; g; g = g->next)
        if (atomic_load_explicit(&g->state, memory_order_relaxed) == MADI_GATE_CONNECTING) {
            first = g->connect->deadline < first ? g->connect->deadline : first;
            first = gate_due(g) < first ? gate_due(g) : first;
        }
    first = deadline_with_rails(s, first);
    return first < INT64_MAX && s->connect->hellos_looked && s->connect->hellos_looked + STEP < first
               ? s->connect->hellos_looked + STEP
               : first;
}

/* Extend all deadlines by ns nanoseconds, during which this process or its machine stood still.  Peers were not silent in
 * that time, but their bytes are not read yet. */
static void deadlines_extend(mad_session_t *s, int64_t ns)
{
    for (madi_hello_t *h = s->connect->hellos; h; h = h->next)
        h->deadline += h->deadline < INT64_MAX ? ns : 0;
    for (madi_gate_t *g = s->gates; g; g = g->next)
        if (atomic_load_explicit(&g->state, memory_order_relaxed) == MADI_GATE_CONNECTING &&
            g->connect->deadline < INT64_MAX)
            g->connect->deadline += ns;
}

/* Return the stopped processes of this host, as they were within the last STEP.  NULL if out of memory. */
static const madi_stopped_t *stopped_now(struct madi_connect_session *c, int64_t now)
{
    if (!c->stopped)
        c->stopped = malloc(sizeof *c->stopped);
    if (c->stopped && (!c->stopped_found || now - c->stopped_found >= STEP)) {
        madi_stopped_find(c->stopped);
        c->stopped_found = now;
    }
    return c->stopped;
}

/* Postpone the deadline of a handshake if the process at the other end is stopped. */
static void stopped_check(madi_hello_t *h, int64_t now)
{
    const madi_stopped_t *stopped;
    if (h->active && !h->connected)
        return;
    if (!h->process)
        h->process = madi_process_near(h->watch.fd);
    if (!h->process && (stopped = stopped_now(h->session->connect, now)))
        h->process = madi_stopped_behind(stopped, h->watch.fd);
    if (h->gate)
        h->gate->connect->process = h->process;
    madi_stopped_postpone(h->process, h->gate, &h->deadline);
}

/* True if the last check of silent peers was long enough ago.  On a crowded host many processes have silent peers, and each
 * check examines all processes: then checks become rare, and leave the processors to the peers. */
static bool stopped_check_is_due(const struct madi_connect_session *c, int64_t now)
{
    return now - c->stopped_looked >= STEP && now - c->stopped_looked >= STOPPED_REST * c->stopped_took;
}

/* Check handshakes that have lasted for a while, so that a stopped peer is logged before the deadline. */
static void stopped_check_all(mad_session_t *s, int64_t now)
{
    for (madi_hello_t *h = s->connect->hellos; h; h = h->next)
        if (now - h->began >= STOPPED_AFTER)
            stopped_check(h, now);
    s->connect->stopped_looked = madi_now();
    s->connect->stopped_took = s->connect->stopped_looked - now;
}

/* True if the deadline has passed, and was not postponed for a stopped peer. */
static bool hello_is_expired(madi_hello_t *h, int64_t now)
{
    if (now >= h->deadline)
        stopped_check(h, now);
    return now >= h->deadline;
}

static bool gate_is_expired(madi_gate_t *g, int64_t now)
{
    if (now >= g->connect->deadline && g->connect->process)
        madi_stopped_postpone(g->connect->process, g, &g->connect->deadline);
    return now >= g->connect->deadline;
}

static void hello_time_out(madi_hello_t *h)
{
    char text[96];
    snprintf(text, sizeof text, "the handshake was not over within %sMAD_CONNECT_TIMEOUT (%lld ms)",
             h->active && h->deadline < h->gate->connect->deadline ? "its part of " : "",
             (long long)(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) / 1000000));
    madi_hello_fail(h, MAD_ERR_TIMEOUT, text);
}

static void gate_check(madi_gate_t *g, int64_t now)
{
    if (gate_is_expired(g, now))
        madi_gate_time_out(g);
    else if (gate_due(g) <= now && g->connect->redial_at)
        madi_attempt_again(g);
    else if (gate_due(g) <= now)
        madi_search_wave(g);
    else
        madi_hello_decide(g, now);
}

void madi_hello_expire(mad_session_t *s, int64_t now)
{
    madi_hello_t *h;
    int64_t late = s->connect->hellos_looked ? now - s->connect->hellos_looked - STEP : 0;
    bool any = false;
    if (late > STEP)
        deadlines_extend(s, late);
    if (s->connect->hellos_looked && stopped_check_is_due(s->connect, now))
        stopped_check_all(s, now);
    h = s->connect->hellos;
    while (h) {
        madi_hello_t *next = h->next;
        any |= hello_due(h) < INT64_MAX;
        if (hello_is_expired(h, now)) {
            hello_time_out(h);
            /* start again from the first handshake, since a failed one may have begun other attempts */
            next = s->connect->hellos;
        }
        h = next;
    }
    madi_frames_repeat_all(s, now);
    for (madi_gate_t *g = s->gates; g; g = g->next) {
        if (atomic_load_explicit(&g->state, memory_order_relaxed) != MADI_GATE_CONNECTING)
            continue;
        gate_check(g, now);
        any |= g->connect->deadline < INT64_MAX || gate_due(g) < INT64_MAX || g->connect->n_attempts;
    }
    s->connect->hellos_looked = any ? now : 0;
    madi_hellos_reap(s);
    if (s->rails)
        s->rails->tick(s, now);
}

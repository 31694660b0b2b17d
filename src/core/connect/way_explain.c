/* SPDX-License-Identifier: BSD-3-Clause */
/* How a peer is reached, in words: the state of each path, and the route.
 *
 * All explanations are made here, when they are asked for, of one record: the gate's failures (each with its adapter and
 * reason), its link, and its state.  madi_way_explain explains one adapter's way, for mad_peer_explain and mad_info;
 * madi_gate_why the gate as a whole, in one line, for log texts and events. */
#include "base/knob.h"
#include "core/connect/hello.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/connect/stopped.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/wire/address.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMED_MAX 3 /* adapters of one reason that madi_gate_why names */
#define LATE_MAX 80 /* bytes of the reason for a gate that was not connected in time */

static const struct madi_failure *failure(const madi_gate_t *gate, const madi_adapter_t *a)
{
    const struct madi_failure *f = gate ? gate->failures : NULL;
    while (f && f->adapter != a)
        f = f->next;
    return f;
}

enum madi_way madi_way_explain(mad_session_t *s, mad_peer_t peer, int lane, madi_adapter_t *a, char *reason)
{
    const madi_gate_t *gate = madi_peer_gate_find(s, peer, lane);
    int state = gate ? atomic_load_explicit(&gate->state, memory_order_relaxed) : MADI_GATE_IDLE;
    const struct madi_failure *f = failure(gate, a);
    const madi_adapter_t *used = gate && gate->link ? gate->link->adapter : NULL;
    madi_address_entry_t e;

    reason[0] = 0;
    if (used == a && state == MADI_GATE_UP) {
        if (s->forward && s->forward->encrypts(gate->link))
            snprintf(reason, MADI_REASON_MAX, "encrypted from end to end");
        return MADI_WAY_USED;
    }
    if (f) {
        snprintf(reason, MADI_REASON_MAX, "%s", f->reason);
        return f->was_used ? MADI_WAY_LOST : MADI_WAY_REJECTED;
    }
    if (state == MADI_GATE_CONNECTING && (used == a || madi_hello_tries(gate, a))) {
        char stopped = gate->process ? madi_process_stopped(gate->process) : 0;
        if (stopped)
            snprintf(reason, MADI_REASON_MAX, "process %d is stopped (state %c), and is waited for", gate->process, stopped);
        return MADI_WAY_TRIED;
    }
    if (!madi_way_find(s, madi_peer_address(s, peer), lane, a, &e, reason))
        return MADI_WAY_REJECTED;
    if (state == MADI_GATE_DOWN)
        snprintf(reason, MADI_REASON_MAX, "the peer was lost before this was tried (rank %d)", madi_way_rank(a));
    else if (used)
        snprintf(reason, MADI_REASON_MAX, "%s on %s comes first (rank %d, this %d)", used->driver->name, used->name,
                 madi_way_rank(used), madi_way_rank(a));
    else
        snprintf(reason, MADI_REASON_MAX, "can be tried (rank %d)", madi_way_rank(a));
    return MADI_WAY_SPARE;
}

const char *madi_way_name(enum madi_way way)
{
    static const char *const names[] = {[MADI_WAY_USED] = "used",
                                        [MADI_WAY_TRIED] = "connecting",
                                        [MADI_WAY_LOST] = "was used",
                                        [MADI_WAY_SPARE] = "not needed",
                                        [MADI_WAY_REJECTED] = "rejected"};
    return names[way];
}

/* ---- As text -------------------------------------------------------------------------------------------------- */

typedef struct text {
    const char *begin;
    char *at;
    size_t left;
} text_t;

static void say(text_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(text_t *t, const char *format, ...)
{
    char text[512];
    va_list args;
    size_t n;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    n = madi_escape(t->at, t->left, text, strlen(text)); /* names of networks come from the peer */
    t->at += n;
    t->left -= n;
}

/* The failure after `before` in the order of time, NULL for the first, of ways that were never used. */
static const struct madi_failure *failure_next(const madi_gate_t *gate, const struct madi_failure *before)
{
    const struct madi_failure *next = NULL;
    for (const struct madi_failure *f = gate->failures; f != before; f = f->next)
        if (!f->was_used)
            next = f;
    return next;
}

/* True if one text explains both. */
static bool failures_alike(const struct madi_failure *a, const struct madi_failure *b)
{
    return a->adapter->driver == b->adapter->driver && !strcmp(a->reason, b->reason);
}

/* Put a separator before the next part, unless it is the first. */
static void say_between(text_t *t)
{
    if (t->at > t->begin)
        say(t, "; ");
}

/* Describe the ways that were rejected, those of one driver and reason together: a few are named, the others counted. */
static void say_rejected(text_t *t, const madi_gate_t *gate)
{
    const struct madi_failure *f = failure_next(gate, NULL), *first;
    while ((first = f)) {
        char names[NAMED_MAX * (MADI_NAME_MAX + 2) + 1] = "", others[32] = "";
        int n = 0;
        for (; f && failures_alike(f, first); f = failure_next(gate, f))
            if (n++ < NAMED_MAX)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", n > 1 ? ", " : "", f->adapter->name);
        if (n > NAMED_MAX)
            snprintf(others, sizeof others, " and %d more", n - NAMED_MAX);
        say_between(t);
        say(t, "%s %s%s %s: %s", first->adapter->driver->name, names, others, madi_way_name(MADI_WAY_REJECTED), first->reason);
    }
}

/* True if the peer has no address that one of the adapters reaches. */
static bool is_unreachable(const madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    const unsigned char *address = madi_peer_address(s, gate->peer);
    char reason[MADI_REASON_MAX];
    madi_address_entry_t e;
    for (int i = 0; i < s->n_adapters; i++)
        if (madi_way_find(s, address, gate->lane, s->adapters[i], &e, reason))
            return false;
    return true;
}

/* Describe the adapters that do not reach the peer, where none does, but for those that have failed. */
static void say_unreachable(text_t *t, const madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX];
        if (failure(gate, a) || madi_way_explain(s, gate->peer, gate->lane, s->adapters[i], reason) != MADI_WAY_REJECTED)
            continue;
        say_between(t);
        say(t, "%s %s %s: %s", a->driver->name, a->name, madi_way_name(MADI_WAY_REJECTED), reason);
    }
}

static void late_text(char text[LATE_MAX])
{
    snprintf(text, LATE_MAX, "no connection within MAD_CONNECT_TIMEOUT (%lld ms)",
             (long long)(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) / 1000000));
}

void madi_way_late(madi_gate_t *gate)
{
    char text[LATE_MAX];
    late_text(text);
    if (gate->link)
        madi_way_failed(gate, gate->link->adapter, text);
    else
        gate->late = true;
}

/* Describe the outcome: a link that is used, or was, or none in time. */
static void say_outcome(text_t *t, const madi_gate_t *gate)
{
    const struct madi_failure *f = gate->failures;
    bool down = atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_DOWN;
    char late[LATE_MAX];
    while (f && !f->was_used)
        f = f->next;
    if (f) {
        say_between(t);
        say(t, "%s on %s (%s) %s: %s", f->adapter->driver->name, f->adapter->name, f->adapter->network,
            madi_way_name(MADI_WAY_LOST), f->reason);
    } else if (gate->link && !down && atomic_load_explicit(&gate->link->state, memory_order_relaxed) == MADI_LINK_UP) {
        const madi_adapter_t *a = gate->link->adapter;
        say_between(t);
        say(t, "%s on %s (%s) is %s", a->driver->name, a->name, a->network, madi_way_name(MADI_WAY_USED));
    } else if (gate->late) {
        late_text(late);
        say_between(t);
        say(t, "%s", late);
    } else if (is_unreachable(gate)) {
        say_unreachable(t, gate);
    }
}

void madi_gate_why(const madi_gate_t *gate, char why[MADI_WHY_MAX])
{
    text_t t = {why, why, MADI_WHY_MAX};
    why[0] = 0;
    if (gate->lane)
        say(&t, "channel %s", gate->session->forward->lane_name(gate->session, gate->lane));
    say_rejected(&t, gate);
    say_outcome(&t, gate);
}

/* Describe the paths that this peer's packets use or have used (taken), or the others. */
static void say_ways(text_t *t, madi_gate_t *gate, bool taken)
{
    mad_session_t *s = gate->session;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX];
        enum madi_way way = madi_way_explain(s, gate->peer, gate->lane, s->adapters[i], reason);
        if ((way == MADI_WAY_USED || way == MADI_WAY_LOST) == taken)
            say(t, "%s%s on %s (%s) %s%s%s", t->at > t->begin ? "; " : "", a->driver->name, a->name,
                a->network, madi_way_name(way), reason[0] ? ": " : "", reason);
    }
}

/* Like say_ways, but for a channel with networks of its own, if communication has begun on it. */
static void say_lane(text_t *t, mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_gate_t *gate = madi_peer_gate_find(s, peer, lane);
    text_t own;
    if (!gate)
        return;
    say(t, "; channel %s: ", s->forward->lane_name(s, lane));
    own = (text_t){t->at, t->at, t->left};
    say_ways(&own, gate, true);
    say_ways(&own, gate, false);
    *t = (text_t){t->begin, own.at, own.left};
}

mad_status_t mad_peer_explain(mad_session_t *s, mad_peer_t peer, char *buf, size_t len)
{
    madi_gate_t *gate;
    mad_status_t status = madi_session_usable(s);
    if (status)
        return status;
    madi_lock(&s->lock);
    status = madi_peer_gate(s, peer, 0, &gate);
    if (!status && len) {
        text_t t = {buf, buf, len};
        buf[0] = 0;
        say_ways(&t, gate, true);
        say_ways(&t, gate, false);
        for (int lane = 1; lane < madi_lanes(s); lane++)
            say_lane(&t, s, peer, lane);
    }
    madi_unlock(&s->lock);
    return status;
}

/* The adapter that carries the messages to a peer, or did so last. */
static const madi_adapter_t *carrier(const madi_gate_t *gate)
{
    const struct madi_failure *f = gate->failures;
    if (gate->link && atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP)
        return gate->link->adapter;
    while (f && !f->was_used)
        f = f->next;
    return f ? f->adapter : NULL;
}

mad_status_t mad_peer_adapter(mad_session_t *s, mad_peer_t peer, int *index)
{
    mad_status_t status = MAD_ERR_INVAL;
    if (madi_session_usable(s))
        return MAD_ERR_FORKED;
    madi_lock(&s->lock);
    if (madi_peer_at(s, peer)) {
        const madi_adapter_t *a = NULL;
        for (int lane = 0; lane < madi_lanes(s) && !a; lane++) {
            const madi_gate_t *gate = madi_lane_carries(s, lane) ? NULL : madi_peer_gate_find(s, peer, lane);
            a = gate ? carrier(gate) : NULL;
        }
        status = MAD_ERR_AGAIN;
        for (int i = 0; a && i < s->n_adapters; i++)
            if (s->adapters[i] == a) {
                *index = i;
                status = MAD_OK;
            }
    }
    madi_unlock(&s->lock);
    return status;
}

static mad_status_t route(mad_session_t *s, mad_peer_t peer, int lane, char *buf, size_t len)
{
    mad_status_t status = MAD_ERR_INVAL;
    if (madi_session_usable(s))
        return MAD_ERR_FORKED;
    madi_lock(&s->lock);
    if (madi_peer_at(s, peer) && len) {
        const madi_gate_t *gate = madi_peer_gate_find(s, peer, lane);
        status = MAD_ERR_AGAIN;
        if (gate && gate->link && atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP) {
            buf[0] = 0;
            if (s->forward)
                s->forward->route(gate->link, buf, len);
            status = MAD_OK;
        }
    }
    madi_unlock(&s->lock);
    return status;
}

mad_status_t mad_peer_route(mad_session_t *s, mad_peer_t peer, char *buf, size_t len)
{
    return route(s, peer, 0, buf, len);
}

mad_status_t mad_channel_route(mad_channel_t *channel, mad_peer_t peer, char *buf, size_t len)
{
    return route(channel->session, peer, channel->lane, buf, len);
}

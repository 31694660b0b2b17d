/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to a peer: through which of our adapters it can be reached, which is best, and what became of each. */
#include "core/core.h"
#include "base/knob.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 3 /* adapters of one reason that a log text names */

struct madi_failure {
    struct madi_failure *next; /* the one before */
    const madi_adapter_t *adapter;
    bool was_used; /* packets had flowed */
    bool said;     /* in gate->why */
    char reason[];
};

/* ---- Possible paths ------------------------------------------------------------------------------------------- */

/* Given a network in common. */
static bool reachable(mad_session_t *s, int lane, madi_adapter_t *a, const madi_address_entry_t *e, char *reason)
{
    if (lane)
        return s->forward->reachable(s, lane, a, e->bytes, e->len, reason);
    return !a->driver->reachable || a->driver->reachable(a, e->bytes, e->len, reason);
}

static bool has_common(madi_adapter_t *a, const madi_address_entry_t *e)
{
    return !strcmp(e->network, a->network) || (a->driver->common && a->driver->common(a, e->network, e->bytes, e->len));
}

bool madi_way_next(mad_session_t *s, const unsigned char *address, int lane, madi_adapter_t *a, size_t *at,
                   madi_address_entry_t *e, char *reason)
{
    bool me = !memcmp(madi_address_uid(address), s->uid, sizeof s->uid);
    const char *name = a->driver->name;
    bool more = false, common = false;

    if (me != a->caps.self) {
        snprintf(reason, MADI_REASON_MAX, "%s", me ? "messages to oneself go by self" : "reaches only this process");
        return false;
    }
    snprintf(reason, MADI_REASON_MAX, "the peer has no adapter of %s", name);
    while (madi_address_next(address, at, e)) {
        if (strcmp(e->driver, name))
            continue;
        if (has_common(a, e)) {
            common = true;
            if (reachable(s, lane, a, e, reason))
                return true;
        } else if (!common) {
            snprintf(reason, MADI_REASON_MAX, "no network in common: here %s, there %s%s%s%s", a->network, e->network,
                     more ? " and others" : "", a->driver->apart ? "; " : "", a->driver->apart ? a->driver->apart : "");
            more = true;
        }
    }
    return false;
}

bool madi_way_find(mad_session_t *s, const unsigned char *address, int lane, madi_adapter_t *a, madi_address_entry_t *e,
                   char *reason)
{
    size_t at = 0;
    return madi_way_next(s, address, lane, a, &at, e, reason);
}

static bool preferred(const madi_adapter_t *a)
{
    return !strcmp(madi_knob_text(MADI_KNOB_PREFER), a->driver->name);
}

int madi_way_rank(const madi_adapter_t *a)
{
    return a->caps.rank - (preferred(a) ? 1000 : 0);
}

/* Preferred ones first; on a lane the file has an order of networks; then by rank.  Most significant byte first. */
void madi_way_class(mad_session_t *s, int lane, const madi_adapter_t *a, unsigned char class[MADI_WAY_CLASS])
{
    uint32_t part[3] = {preferred(a) ? 0 : 1, lane ? (uint32_t)s->forward->place(s, lane, a) : 0, (uint32_t)a->caps.rank};
    for (int i = 0; i < MADI_WAY_CLASS; i++)
        class[i] = (unsigned char)(part[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- Explanations --------------------------------------------------------------------------------------------- */

void madi_way_failed(madi_gate_t *gate, const madi_adapter_t *a, const char *reason)
{
    size_t len = strnlen(reason, MADI_REASON_MAX - 1);
    struct madi_failure *f = malloc(sizeof *f + len + 1);
    if (!f)
        return;
    f->next = gate->failures;
    f->adapter = a;
    f->said = false;
    f->was_used = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP;
    memcpy(f->reason, reason, len);
    f->reason[len] = 0;
    gate->failures = f;
}

/* The one that came first of those that have not been said; NULL: all have. */
static struct madi_failure *unsaid(const madi_gate_t *gate)
{
    struct madi_failure *first = NULL;
    for (struct madi_failure *f = gate->failures; f; f = f->next)
        if (!f->said && !f->was_used)
            first = f;
    return first;
}

void madi_ways_explain(madi_gate_t *gate)
{
    struct madi_failure *first, *f;
    while ((first = unsaid(gate))) {
        char names[NAMED_MAX * (MADI_NAME_MAX + 2) + 1] = "", others[32] = "";
        int n = 0;
        for (f = first; f; f = unsaid(gate)) {
            if (f->adapter->driver != first->adapter->driver || strcmp(f->reason, first->reason) != 0)
                break; /* the next group */
            f->said = true;
            if (n++ < NAMED_MAX)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", n > 1 ? ", " : "", f->adapter->name);
        }
        if (n > NAMED_MAX)
            snprintf(others, sizeof others, " and %d more", n - NAMED_MAX);
        madi_gate_explain(gate, "%s %s%s rejected: %s", first->adapter->driver->name, names, others, first->reason);
    }
}

void madi_ways_free(madi_gate_t *gate)
{
    for (struct madi_failure *f; (f = gate->failures); free(f))
        gate->failures = f->next;
}

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
    if (used)
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

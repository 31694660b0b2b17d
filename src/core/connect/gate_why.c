/* SPDX-License-Identifier: BSD-3-Clause */
/* The explanation of a gate in one line: how it got its link, or why it has none.  path_explain.c explains the same
 * record path by path. */
#include "base/knob.h"
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/gate.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/connect/text.h"
#include "core/driver.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/wire/address.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMED_MAX 3 /* maximum number of adapters that are named if several have the same reason */
#define LATE_MAX 80 /* maximum number of bytes of the reason for a gate that was not connected in time */

void madi_text_add(madi_text_t *t, const char *format, ...)
{
    char text[512];
    va_list args;
    size_t n;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* the text is escaped, since names of networks come from the peer */
    n = madi_escape(t->at, t->left, text, strlen(text));
    t->at += n;
    t->left -= n;
}

const char *madi_peer_path_name(enum madi_peer_path way)
{
    static const char *const names[] = {[MADI_PEER_PATH_USED] = "used",
                                        [MADI_PEER_PATH_TRIED] = "connecting",
                                        [MADI_PEER_PATH_LOST] = "was used",
                                        [MADI_PEER_PATH_SPARE] = "not needed",
                                        [MADI_PEER_PATH_REJECTED] = "rejected"};
    return names[way];
}

const struct madi_failure *madi_peer_path_failure(const madi_gate_t *gate, const madi_adapter_t *a)
{
    const struct madi_failure *f = gate ? gate->connect->failures : NULL;
    while (f && f->adapter != a)
        f = f->next;
    return f;
}

/* Return the failure that followed `before` in time, of paths that were never used.  before NULL: return the first; NULL:
 * there are no more. */
static const struct madi_failure *failure_next(const madi_gate_t *gate, const struct madi_failure *before)
{
    const struct madi_failure *next = NULL;
    for (const struct madi_failure *f = gate->connect->failures; f != before; f = f->next)
        if (!f->was_used)
            next = f;
    return next;
}

/* True if the two failures are described together. */
static bool failures_alike(const struct madi_failure *a, const struct madi_failure *b)
{
    return a->adapter->driver == b->adapter->driver && !strcmp(a->reason, b->reason);
}

/* Put a separator before the next part, unless it is the first. */
static void write_separator(madi_text_t *t)
{
    if (t->at > t->begin)
        madi_text_add(t, "; ");
}

/* Describe the rejected paths, those of one driver with one reason together: a few are named, the others counted. */
static void write_rejected(madi_text_t *t, const madi_gate_t *gate)
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
        write_separator(t);
        madi_text_add(t, "%s %s%s %s: %s", first->adapter->driver->name, names, others,
                      madi_peer_path_name(MADI_PEER_PATH_REJECTED), first->reason);
    }
}

/* True if no adapter reaches any address of the peer. */
static bool peer_is_unreachable(const madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    const unsigned char *address = madi_peer_address(s, gate->peer);
    char reason[MADI_REASON_MAX];
    madi_address_entry_t e;
    for (int i = 0; i < s->n_adapters; i++)
        if (madi_peer_path_find(s, address, gate->lane, s->adapters[i], &e, reason))
            return false;
    return true;
}

/* Describe the adapters that do not reach the peer.  Adapters whose failure is recorded are described elsewhere. */
static void write_unreachable(madi_text_t *t, const madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX];
        madi_address_entry_t e;
        if (madi_peer_path_failure(gate, a) ||
            madi_peer_path_find(s, madi_peer_address(s, gate->peer), gate->lane, s->adapters[i], &e, reason))
            continue;
        write_separator(t);
        madi_text_add(t, "%s %s %s: %s", a->driver->name, a->name, madi_peer_path_name(MADI_PEER_PATH_REJECTED), reason);
    }
}

static void time_out_text(char text[LATE_MAX])
{
    snprintf(text, LATE_MAX, "no connection within MAD_CONNECT_TIMEOUT (%lld ms)",
             (long long)(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) / 1000000));
}

void madi_peer_path_time_out(madi_gate_t *gate)
{
    char text[LATE_MAX];
    time_out_text(text);
    if (gate->link)
        madi_peer_path_failed(gate, madi_gate_link_adapter(gate), text);
    else
        gate->connect->timed_out = true;
}

/* Describe the outcome: a link that is in use, a link that was lost, or no link in time. */
static void write_outcome(madi_text_t *t, const madi_gate_t *gate)
{
    const struct madi_failure *f = gate->connect->failures;
    bool down = atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_DOWN;
    char late[LATE_MAX];
    while (f && !f->was_used)
        f = f->next;
    if (f) {
        write_separator(t);
        madi_text_add(t, "%s on %s (%s) %s: %s", f->adapter->driver->name, f->adapter->name, f->adapter->network,
                      madi_peer_path_name(MADI_PEER_PATH_LOST), f->reason);
    } else if (gate->link && !down && atomic_load_explicit(&gate->link->state, memory_order_relaxed) == MADI_LINK_UP) {
        const madi_adapter_t *a = gate->link->adapter;
        write_separator(t);
        madi_text_add(t, "%s on %s (%s) is %s", a->driver->name, a->name, a->network,
                      madi_peer_path_name(MADI_PEER_PATH_USED));
    } else if (gate->connect->timed_out) {
        time_out_text(late);
        write_separator(t);
        madi_text_add(t, "%s", late);
    } else if (peer_is_unreachable(gate)) {
        write_unreachable(t, gate);
    }
}

void madi_gate_why(const madi_gate_t *gate, char why[MADI_WHY_MAX])
{
    madi_text_t t = {why, why, MADI_WHY_MAX};
    why[0] = 0;
    if (gate->lane)
        madi_text_add(&t, "channel %s", gate->session->forward->lane_name(gate->session, gate->lane));
    write_rejected(&t, gate);
    write_outcome(&t, gate);
}

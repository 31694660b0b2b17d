/* SPDX-License-Identifier: BSD-3-Clause */
/* Explanations of how a peer is reached: the state of each path, and the route.
 *
 * All explanations are made on request, from one record: the gate's failures (each with its adapter and reason), its link,
 * and its state.  madi_peer_path_explain explains one adapter's path, for mad_peer_explain and mad_info.  madi_gate_why
 * (gate_why.c) explains the gate as a whole, in one line, for log texts and events. */
#include "base/knob.h"
#include "core/connect/connect_gate.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/connect/stopped.h"
#include "core/connect/text.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/wire/address.h"

#include <stdio.h>
#include <string.h>

/* Append where an adapter's device is, if the host has several NUMA nodes. */
static void place_write(const madi_adapter_t *a, char *reason)
{
    size_t len = strlen(reason);
    if (a->node < 0)
        return;
    len += (size_t)snprintf(reason + len, MADI_REASON_MAX - len, "%sNUMA node %d", len ? "; " : "", a->node);
    if (a->distance && len < MADI_REASON_MAX)
        snprintf(reason + len, MADI_REASON_MAX - len, ", distance %d from the process", a->distance);
}

/* True if the adapter leads to other hosts, and not through gateways. */
static bool may_be_rail(const mad_session_t *s, const madi_adapter_t *a)
{
    return !a->caps.self && !a->caps.host && !s->forward->carried(a);
}

/* Append why an adapter is no rail beside the one in use, if that is because of the topology file. */
static void no_rails_write(const mad_session_t *s, const madi_adapter_t *used, const madi_adapter_t *a, char *reason)
{
    size_t len = strlen(reason);
    if (s->forward && madi_knob_int(MADI_KNOB_RAILS) > 1 && may_be_rail(s, used) && may_be_rail(s, a))
        snprintf(reason + len, MADI_REASON_MAX - len, "; in a job with a topology file one network is used at a time");
}

enum madi_peer_path madi_peer_path_explain(mad_session_t *s, mad_peer_t peer, int lane, madi_adapter_t *a, char *reason)
{
    const madi_gate_t *gate = madi_peer_gate_find(s, peer, lane);
    int state = gate ? atomic_load_explicit(&gate->state, memory_order_relaxed) : MADI_GATE_IDLE;
    const struct madi_failure *f = madi_peer_path_failure(gate, a);
    const madi_adapter_t *used = gate ? madi_gate_link_adapter(gate) : NULL;
    madi_address_entry_t e;

    reason[0] = 0;
    if (gate && gate->rails && s->rails->explain((madi_gate_t *)gate, a, reason)) {
        place_write(a, reason);
        return MADI_PEER_PATH_USED;
    }
    if (used == a && state == MADI_GATE_UP) {
        if (s->forward && s->forward->encrypts(gate->link))
            snprintf(reason, MADI_REASON_MAX, "encrypted from end to end");
        place_write(a, reason);
        return MADI_PEER_PATH_USED;
    }
    if (f) {
        snprintf(reason, MADI_REASON_MAX, "%s", f->reason);
        return f->was_used ? MADI_PEER_PATH_LOST : MADI_PEER_PATH_REJECTED;
    }
    if (state == MADI_GATE_CONNECTING && (used == a || madi_hello_tries(gate, a))) {
        char stopped = gate->connect->process ? madi_process_stopped(gate->connect->process) : 0;
        if (stopped)
            snprintf(reason, MADI_REASON_MAX, "process %d is stopped (state %c), and is waited for", gate->connect->process,
                     stopped);
        return MADI_PEER_PATH_TRIED;
    }
    if (!madi_peer_path_find(s, madi_peer_address(s, peer), lane, a, &e, reason))
        return MADI_PEER_PATH_REJECTED;
    if (state == MADI_GATE_DOWN) {
        snprintf(reason, MADI_REASON_MAX, "the peer was lost before this was tried (rank %d)", madi_adapter_rank(a));
    } else if (used) {
        snprintf(reason, MADI_REASON_MAX, "%s on %s comes first (rank %d, this %d)", used->driver->name, used->name,
                 madi_adapter_rank(used), madi_adapter_rank(a));
        no_rails_write(s, used, a, reason);
    } else {
        snprintf(reason, MADI_REASON_MAX, "can be tried (rank %d)", madi_adapter_rank(a));
    }
    place_write(a, reason);
    return MADI_PEER_PATH_SPARE;
}

/* ---- As text -------------------------------------------------------------------------------------------------- */

/* Describe paths to the peer.  If taken is true, describe the paths that the peer's packets use or have used; else
 * describe all other paths. */
static void write_paths(madi_text_t *t, madi_gate_t *gate, bool taken)
{
    mad_session_t *s = gate->session;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX];
        enum madi_peer_path way = madi_peer_path_explain(s, gate->peer, gate->lane, s->adapters[i], reason);
        if ((way == MADI_PEER_PATH_USED || way == MADI_PEER_PATH_LOST) == taken)
            madi_text_add(t, "%s%s on %s (%s) %s%s%s", t->at > t->begin ? "; " : "", a->driver->name, a->name, a->network,
                          madi_peer_path_name(way), reason[0] ? ": " : "", reason);
    }
}

/* Like write_paths, but for the lane of a channel with networks of its own, if communication on that lane has begun. */
static void write_lane(madi_text_t *t, mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_gate_t *gate = madi_peer_gate_find(s, peer, lane);
    madi_text_t own;
    if (!gate)
        return;
    madi_text_add(t, "; channel %s: ", s->forward->lane_name(s, lane));
    own = (madi_text_t){t->at, t->at, t->left};
    write_paths(&own, gate, true);
    write_paths(&own, gate, false);
    *t = (madi_text_t){t->begin, own.at, own.left};
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
        madi_text_t t = {buf, buf, len};
        buf[0] = 0;
        write_paths(&t, gate, true);
        write_paths(&t, gate, false);
        for (int lane = 1; lane < madi_lanes(s); lane++)
            write_lane(&t, s, peer, lane);
    }
    madi_unlock(&s->lock);
    return status;
}

/* Return the adapter that carries the messages to a peer, or did so last; NULL if none. */
static const madi_adapter_t *adapter_in_use(const madi_gate_t *gate)
{
    const struct madi_failure *f = gate->connect->failures;
    if (gate->link && atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP)
        return madi_gate_link_adapter(gate);
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
            a = gate ? adapter_in_use(gate) : NULL;
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

static mad_status_t route_write(mad_session_t *s, mad_peer_t peer, int lane, char *buf, size_t len)
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
    return route_write(s, peer, 0, buf, len);
}

mad_status_t mad_channel_route(mad_channel_t *channel, mad_peer_t peer, char *buf, size_t len)
{
    return route_write(channel->session, peer, channel->lane, buf, len);
}

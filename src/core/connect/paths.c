/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths to a peer: the adapters of this process that reach it, and which path is best. */
#include "base/knob.h"
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/paths.h"
#include "core/driver.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/wire/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Possible paths ------------------------------------------------------------------------------------------- */

/* True if the adapter can reach the entry, given a network in common; false sets reason. */
static bool entry_is_reachable(mad_session_t *s, int lane, madi_adapter_t *a, const madi_address_entry_t *e, char *reason)
{
    if (lane)
        return s->forward->reachable(s, lane, a, e->bytes, e->len, reason);
    return !a->driver->reach.reachable || a->driver->reach.reachable(a, e->bytes, e->len, reason);
}

static bool entry_has_common_network(madi_adapter_t *a, const madi_address_entry_t *e)
{
    return !strcmp(e->network, a->network) ||
           (a->driver->reach.common && a->driver->reach.common(a, e->network, e->bytes, e->len));
}

bool madi_peer_path_next(mad_session_t *s, const unsigned char *address, int lane, madi_adapter_t *a, size_t *at,
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
        if (entry_has_common_network(a, e)) {
            common = true;
            if (entry_is_reachable(s, lane, a, e, reason))
                return true;
        } else if (!common) {
            snprintf(reason, MADI_REASON_MAX, "no network in common: here %s, there %s%s%s%s", a->network, e->network,
                     more ? " and others" : "", a->driver->apart ? "; " : "", a->driver->apart ? a->driver->apart : "");
            more = true;
        }
    }
    return false;
}

bool madi_peer_path_find(mad_session_t *s, const unsigned char *address, int lane, madi_adapter_t *a,
                         madi_address_entry_t *e, char *reason)
{
    size_t at = 0;
    return madi_peer_path_next(s, address, lane, a, &at, e, reason);
}

static bool adapter_is_preferred(const madi_adapter_t *a)
{
    return !strcmp(madi_knob_text(MADI_KNOB_PREFER), a->driver->name);
}

int madi_adapter_rank(const madi_adapter_t *a)
{
    return a->caps.rank - (adapter_is_preferred(a) ? 1000 : 0);
}

/* The order of paths is: the preferred driver first; then, on a lane, the order of networks in the topology file; then by
 * rank.  The most significant byte comes first. */
void madi_peer_path_class(mad_session_t *s, int lane, const madi_adapter_t *a, unsigned char class[MADI_PEER_PATH_CLASS])
{
    uint32_t part[3] = {adapter_is_preferred(a) ? 0 : 1, lane ? (uint32_t)s->forward->place(s, lane, a) : 0,
                        (uint32_t)a->caps.rank};
    for (int i = 0; i < MADI_PEER_PATH_CLASS; i++)
        class[i] = (unsigned char)(part[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- Explanations --------------------------------------------------------------------------------------------- */

void madi_peer_path_failed(madi_gate_t *gate, const madi_adapter_t *a, const char *reason)
{
    size_t len = strnlen(reason, MADI_REASON_MAX - 1);
    struct madi_failure *f = malloc(sizeof *f + len + 1);
    if (!f)
        return;
    f->next = gate->connect->failures;
    f->adapter = a;
    f->was_used = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP;
    memcpy(f->reason, reason, len);
    f->reason[len] = 0;
    gate->connect->failures = f;
}

void madi_peer_paths_free(madi_gate_t *gate)
{
    for (struct madi_failure *f; (f = gate->connect->failures); free(f))
        gate->connect->failures = f->next;
}

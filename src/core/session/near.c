/* SPDX-License-Identifier: BSD-3-Clause */
/* Near and far adapters, on hosts with several NUMA nodes.
 *
 *   node 0: processors 0-15, eth0          a process on node 1 has:  eth1, eth0
 *   node 1: processors 16-31, eth1         so its address lists eth1 first, and peers connect to that
 *
 * Of adapters that are alike otherwise (of one driver, with one rank), the nearer ones come first in the session's list.
 * The order counts twice: the search tries the first of equal paths first, and the address lists adapters in this order.
 * So each end of a link uses its own near adapter, without knowing where the other process is.
 *
 * An adapter whose node is unknown (a bridge, for instance) comes after all adapters of known nodes, even far ones.
 * Without a place of its own (a process on all nodes) the order stays as it was. */
#include "base/knob.h"
#include "base/log.h"
#include "core/connect/paths.h"
#include "core/driver.h"
#include "core/session/session_own.h"
#include "engine/numa.h"

#include <limits.h>

static bool adapter_leads_out(const madi_adapter_t *a)
{
    return !a->caps.self && !a->caps.host;
}

static bool are_alike(const madi_adapter_t *a, const madi_adapter_t *b)
{
    return a->driver == b->driver && a->caps.rank == b->caps.rank && adapter_leads_out(a) && adapter_leads_out(b);
}

static int distance_of(const madi_adapter_t *a)
{
    return a->distance ? a->distance : INT_MAX;
}

/* Sort by insertion: an adapter passes only farther adapters that are equal otherwise (are_alike). */
static void adapters_sort(mad_session_t *s)
{
    for (int i = 1; i < s->n_adapters; i++) {
        madi_adapter_t *moving = s->adapters[i];
        int at = i;
        for (int k = i - 1; k >= 0; k--) {
            madi_adapter_t *before = s->adapters[k];
            if (!are_alike(before, moving))
                continue;
            if (distance_of(before) <= distance_of(moving))
                break;
            s->adapters[at] = before;
            s->adapters[at = k] = moving;
        }
    }
}

/* Return the node of the adapters that are used first; unknown if they belong to several. */
static int first_node(const mad_session_t *s)
{
    int node = MARCELI_NUMA_UNKNOWN, rank = INT_MAX;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        if (!adapter_leads_out(a) || a->node == MARCELI_NUMA_UNKNOWN || madi_adapter_rank(a) > rank)
            continue;
        node = madi_adapter_rank(a) < rank || node == a->node ? a->node : MARCELI_NUMA_UNKNOWN;
        rank = madi_adapter_rank(a);
    }
    return node;
}

void madi_adapters_place(mad_session_t *s)
{
    bool known = false;
    if (!madi_knob_int(MADI_KNOB_NUMA) || marceli_numa_nodes() < 2)
        return;
    for (int i = 0; i < s->n_adapters; i++) {
        madi_adapter_t *a = s->adapters[i];
        a->node = a->device[0] ? marceli_numa_of_device(a->device) : MARCELI_NUMA_UNKNOWN;
        a->distance = marceli_numa_distance(a->node);
        known |= a->distance != 0;
        madi_log(MADI_LOG_DEBUG, a->driver->name, "%s: device %s, NUMA node %d, distance %d", a->name,
                 a->device[0] ? a->device : "none", a->node, a->distance);
    }
    if (known)
        adapters_sort(s);
    if (marceli_numa_of_process() == MARCELI_NUMA_UNKNOWN)
        marceli_progress_near(first_node(s));
}

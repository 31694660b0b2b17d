/* SPDX-License-Identifier: BSD-3-Clause */
/* Report on forwarding for mad_info. */
#include "gateway/gateway.h"
#include "base/knob.h"
#include "core/inspect/query.h"

#include <stdlib.h>
#include <string.h>

/* Gateways on one host, by state. */
typedef struct known {
    int host, up, leaving, lost;
} known_t;

/* Report the gateways that this process has been connected to, by host. */
static void write_gateways(madi_json_t *j, gw_t *gw)
{
    known_t *known;
    int n = 0, i;
    for (const gw_hop_t *hop = gw->hops; hop; hop = hop->next)
        n++;
    known = malloc((size_t)n * sizeof *known + 1);
    n = 0;
    for (const gw_hop_t *hop = known ? gw->hops : NULL; hop; hop = hop->next) {
        int host = hop->forwards ? gw_host_of_peer(gw, hop->gate->peer) : -1;
        for (i = 0; i < n && known[i].host != host; i++)
            ;
        if (host < 0)
            continue;
        if (i == n)
            known[n++] = (known_t){.host = host};
        if (hop->down)
            known[i].lost++;
        else if (hop->moves)
            known[i].leaving++;
        else
            known[i].up += atomic_load_explicit(&hop->gate->state, memory_order_relaxed) == MADI_GATE_UP;
    }
    madi_json_begin(j, madi_counter_groups[MADI_GROUP_GATEWAYS].key, '[');
    for (i = 0; i < n; i++) {
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "host", madi_map_name(gw->map, known[i].host));
        madi_count_write(j, MADI_COUNT_GATEWAYS_up, known[i].up);
        madi_count_write(j, MADI_COUNT_GATEWAYS_leaving, known[i].leaving);
        madi_count_write(j, MADI_COUNT_GATEWAYS_lost, known[i].lost);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
    free(known);
}

/* Report all rows FORWARDING: counters, and values of this moment. ends: number of virtual links; unacked:
 * unacknowledged bytes. */
static void sums_write(madi_json_t *j, const gw_t *gw, int64_t ends, int64_t unacked)
{
    int64_t sums[GW_SUMS];
    memcpy(sums, gw->sums, sizeof sums);
    sums[GW_SUM(virtual_links)] = ends;
    sums[GW_SUM(streams)] = gw->n_transits;
    sums[GW_SUM(credit_stalls)] = (int64_t)atomic_load_explicit(&gw->stalls, memory_order_relaxed);
    sums[GW_SUM(resends)] = (int64_t)atomic_load_explicit(&gw->resends, memory_order_relaxed);
    sums[GW_SUM(draining)] = gw->draining;
    sums[GW_SUM(bytes_unacknowledged)] = unacked;
    sums[GW_SUM(fragments_held)] = gw->n_held;
    sums[GW_SUM(fragments_held_most)] = gw->n_held_most;
    sums[GW_SUM(bytes_held)] = gw->held;
    sums[GW_SUM(bytes_held_most)] = gw->held_most;
    sums[GW_SUM(budget)] = gw->budget_all;
    sums[GW_SUM(budget_left)] = gw->budget;
    for (int i = 0; i < GW_SUMS; i++)
        madi_count_write(j, (madi_counter_id_t)(MADI_COUNT_FORWARDING_virtual_links + i), sums[i]);
}

void gw_report(struct mad_session *session, madi_json_t *j)
{
    gw_t *gw = gw_of_session(session);
    int64_t ends = 0;
    uint64_t unacked = 0;
    for (const gw_end_t *end = gw->ends; end; end = end->next) {
        ends += !end->closed;
        unacked += end->window.bytes; /* read without the lock: a report may be a moment old */
    }
    madi_json_text(j, "host", madi_map_name(gw->map, gw->host));
    madi_json_bool(j, "forwards", gw->forwards);
    madi_json_int(j, "fragment_max", (int64_t)gw->base.caps.chunk_max);
    madi_json_int(j, "window", madi_knob_int(MADI_KNOB_FORWARD_WINDOW));
    sums_write(j, gw, ends, (int64_t)unacked);
    write_gateways(j, gw);
}

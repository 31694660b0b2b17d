/* SPDX-License-Identifier: BSD-3-Clause */
/* Report on forwarding for mad_info. */
#include "gateway/gateway.h"
#include "base/knob.h"
#include "core/inspect/query.h"

#include <stdlib.h>

/* Gateways on one host, by state. */
typedef struct known {
    int host, up, leaving, lost;
} known_t;

/* Write the gateways to which this process has been connected, by host. */
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

void gw_report(struct mad_session *session, madi_json_t *j)
{
    gw_t *gw = gw_of_session(session);
    int64_t ends = 0;
    uint64_t unacked = 0;
    for (const gw_end_t *end = gw->ends; end; end = end->next) {
        ends += !end->closed;
        unacked += end->window.bytes; /* value of the last update: a report for people needs no lock */
    }
    madi_json_text(j, "host", madi_map_name(gw->map, gw->host));
    madi_json_bool(j, "forwards", gw->forwards);
    madi_json_int(j, "fragment_max", (int64_t)gw->base.caps.chunk_max);
    madi_count_write(j, MADI_COUNT_FORWARDING_virtual_links, ends);
    madi_count_write(j, MADI_COUNT_FORWARDING_streams, gw->n_transits);
    madi_count_write(j, MADI_COUNT_FORWARDING_streams_opened, (int64_t)gw->opened);
    madi_count_write(j, MADI_COUNT_FORWARDING_streams_refused, (int64_t)gw->refused);
    madi_count_write(j, MADI_COUNT_FORWARDING_fragments, (int64_t)gw->fragments);
    madi_count_write(j, MADI_COUNT_FORWARDING_bytes, (int64_t)gw->bytes);
    madi_count_write(j, MADI_COUNT_FORWARDING_copies, (int64_t)gw->copies);
    madi_count_write(j, MADI_COUNT_FORWARDING_credit_stalls,
                     (int64_t)atomic_load_explicit(&gw->stalls, memory_order_relaxed));
    madi_count_write(j, MADI_COUNT_FORWARDING_resends, (int64_t)atomic_load_explicit(&gw->resends, memory_order_relaxed));
    madi_count_write(j, MADI_COUNT_FORWARDING_fragments_held, gw->n_held);
    madi_count_write(j, MADI_COUNT_FORWARDING_fragments_held_most, gw->n_held_most);
    madi_count_write(j, MADI_COUNT_FORWARDING_bytes_unacknowledged, (int64_t)unacked);
    madi_json_int(j, "window", madi_knob_int(MADI_KNOB_FORWARD_WINDOW));
    madi_count_write(j, MADI_COUNT_FORWARDING_rerouted, (int64_t)gw->rerouted);
    madi_count_write(j, MADI_COUNT_FORWARDING_links_given_up, (int64_t)gw->given_up);
    madi_count_write(j, MADI_COUNT_FORWARDING_gateways_silent, (int64_t)gw->dead_gateways);
    madi_count_write(j, MADI_COUNT_FORWARDING_draining, gw->draining);
    madi_count_write(j, MADI_COUNT_FORWARDING_bytes_held, gw->held);
    madi_count_write(j, MADI_COUNT_FORWARDING_bytes_held_most, gw->held_most);
    madi_count_write(j, MADI_COUNT_FORWARDING_budget, gw->budget_all);
    madi_count_write(j, MADI_COUNT_FORWARDING_budget_left, gw->budget);
    write_gateways(j, gw);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic counters by route: one row for each route of streams seen here, up to a limit. */
#include "gateway/gateway.h"
#include "core/inspect/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUTES 256 /* rows; all further routes are counted in one common row */

gw_route_t *gw_route_open(gw_t *gw, int lane, int from, int via, int to, bool passes)
{
    gw_route_t *r;
    if (gw->n_routes >= ROUTES) {
        from = via = to = -1;
        lane = 0;
        passes = false;
    }
    for (r = gw->routes; r; r = r->next)
        if (r->lane == lane && r->from == from && r->via == via && r->to == to && r->passes == passes)
            break;
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r)
            return NULL;
        *r = (gw_route_t){.next = gw->routes, .lane = lane, .from = from, .via = via, .to = to, .passes = passes};
        gw->routes = r;
        gw->n_routes++;
    }
    r->opened++;
    return r;
}

void gw_routes_free(gw_t *gw)
{
    for (gw_route_t *r; (r = gw->routes); free(r))
        gw->routes = r->next;
}

void gw_trace(madi_trace_kind_t kind, int64_t began, int64_t end, const gw_side_t *side, uint32_t length)
{
    const madi_gate_t *gate = side->hop ? side->hop->gate : NULL;
    madi_trace_event_t event = {
        .kind = kind, .begin = began, .end = end, .number = side->label, .bytes = length, .passes = side->transit != NULL};
    if (!gate || !gate->link)
        return;
    event.peer = gate->peer;
    event.driver = gate->link->driver->name;
    snprintf(event.channel, sizeof event.channel, "%.25s", side->hop->network ? side->hop->network : "");
    madi_trace_add(&event);
}

/* ---- Counters of sides
 * ------------------------------------------------------------------------------------------------ */

static void count_add(gw_count_t *sum, const gw_count_t *count)
{
    sum->fragments += count->fragments;
    sum->bytes += count->bytes;
}

/* Add the counters of a stream's sides.  there: the side towards the destination; back: the other side.  For a stream
 * that ends here both are the same side. */
static void sides_add(gw_route_t *r, const gw_side_t *there, const gw_side_t *back)
{
    count_add(&r->there, &there->out);
    count_add(&r->back, there == back ? &there->in : &back->out);
    for (int i = 0; i < (there == back ? 1 : 2); i++) {
        const gw_side_t *side = i ? back : there;
        r->stalls += side->stalls;
        r->resends += side->resends;
        if (side->queued_most > r->queued_most)
            r->queued_most = side->queued_most;
        if (side->queued_bytes_most > r->queued_bytes_most)
            r->queued_bytes_most = side->queued_bytes_most;
    }
}

void gw_route_close(gw_route_t *route, const gw_side_t *there, const gw_side_t *back)
{
    if (route)
        sides_add(route, there, back);
}

static void host_text(const gw_t *gw, int host, char *buf, size_t len)
{
    size_t at = strlen(buf);
    snprintf(buf + at, len - at, "%s%s", at ? " " : "", madi_map_name(gw->map, host));
}

/* Write the route: hosts up to the next process, which is known, and from there on the best path of the map. */
void gw_route_text(const madi_link_t *link, char *buf, size_t len)
{
    enum { MOST = 32 };
    const gw_end_t *end = link->driver == &madi_driver_virtual ? ((const gw_link_t *)link)->end : NULL;
    const gw_route_t *r = end ? end->route : NULL;
    int hosts[MOST], n;
    if (!r || r->from < 0 || r->via < 0 || r->to < 0)
        return;
    n = madi_map_path(end->gw->map, r->lane, r->via, r->to, hosts, MOST);
    host_text(end->gw, r->from, buf, len);
    host_text(end->gw, r->via, buf, len);
    for (int i = 0; i < n && i < MOST; i++)
        host_text(end->gw, hosts[i], buf, len);
}

/* ---- Report
 * ------------------------------------------------------------------------------------------------------------ */

/* A row, with its open streams included. */
typedef struct count_log {
    gw_route_t all;
    int64_t open, queued, queued_bytes;
} count_log_t;

/* Copy a side's counters; counters of outgoing traffic need the tx_lock. */
static gw_side_t side_copy(const gw_side_t *side)
{
    madi_lock_t *lock = side->hop ? &side->hop->gate->tx_lock : NULL;
    gw_side_t copy = {.in = side->in};
    if (lock)
        madi_lock(lock);
    copy.out = side->out;
    copy.stalls = side->stalls;
    copy.resends = side->resends;
    copy.queued = side->queued;
    copy.queued_most = side->queued_most;
    copy.queued_bytes = side->queued_bytes;
    copy.queued_bytes_most = side->queued_bytes_most;
    if (lock)
        madi_unlock(lock);
    return copy;
}

static void row_add_open(count_log_t *row, const gw_side_t *there, const gw_side_t *back)
{
    gw_side_t a = side_copy(there), b = there == back ? a : side_copy(back);
    sides_add(&row->all, &a, there == back ? &a : &b);
    row->open++;
    row->queued += a.queued + (there == back ? 0 : b.queued);
    row->queued_bytes += (int64_t)(a.queued_bytes + (there == back ? 0 : b.queued_bytes));
}

static const char *host_name_of(const gw_t *gw, int host)
{
    return host < 0 ? "others" : madi_map_name(gw->map, host);
}

static void write_row(madi_json_t *j, const gw_t *gw, const count_log_t *row)
{
    const gw_route_t *r = &row->all;
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "channel", madi_map_lane_name(gw->map, r->lane));
    madi_json_text(j, "from", host_name_of(gw, r->from));
    madi_json_text(j, "via", host_name_of(gw, r->via));
    madi_json_text(j, "to", host_name_of(gw, r->to));
    madi_json_bool(j, "passes", r->passes);
    madi_count_write(j, MADI_COUNT_ROUTES_streams, row->open);
    madi_count_write(j, MADI_COUNT_ROUTES_streams_opened, (int64_t)r->opened);
    madi_count_write(j, MADI_COUNT_ROUTES_fragments_there, (int64_t)r->there.fragments);
    madi_count_write(j, MADI_COUNT_ROUTES_bytes_there, (int64_t)r->there.bytes);
    madi_count_write(j, MADI_COUNT_ROUTES_fragments_back, (int64_t)r->back.fragments);
    madi_count_write(j, MADI_COUNT_ROUTES_bytes_back, (int64_t)r->back.bytes);
    madi_count_write(j, MADI_COUNT_ROUTES_fragments_queued, row->queued);
    madi_count_write(j, MADI_COUNT_ROUTES_bytes_queued, row->queued_bytes);
    madi_count_write(j, MADI_COUNT_ROUTES_fragments_queued_most, r->queued_most);
    madi_count_write(j, MADI_COUNT_ROUTES_bytes_queued_most, (int64_t)r->queued_bytes_most);
    madi_count_write(j, MADI_COUNT_ROUTES_credit_stalls, (int64_t)r->stalls);
    madi_count_write(j, MADI_COUNT_ROUTES_resends, (int64_t)r->resends);
    madi_json_end(j, '}');
}

void gw_report_routes(struct mad_session *session, madi_json_t *j)
{
    gw_t *gw = gw_of_session(session);
    count_log_t *rows = calloc((size_t)gw->n_routes + 1, sizeof *rows);
    int n = 0;
    for (gw_route_t *r = gw->routes; rows && r; r = r->next) {
        r->row = n;
        rows[n++].all = *r;
    }
    for (const gw_transit_t *t = gw->transits; rows && t; t = t->next)
        if (t->route)
            row_add_open(&rows[t->route->row], &t->side[1], &t->side[0]);
    for (const gw_end_t *end = gw->ends; rows && end; end = end->next)
        if (end->route && end->side)
            row_add_open(&rows[end->route->row], end->side, end->side);
    madi_json_begin(j, madi_counter_groups[MADI_GROUP_ROUTES].key, '[');
    for (int i = 0; i < n; i++)
        write_row(j, gw, &rows[i]);
    madi_json_end(j, ']');
    free(rows);
}

static void counts_add(madi_traffic_t *sum, const gw_count_t *in, const gw_count_t *out)
{
    sum->count[MADI_MOVED_messages_received] += in->fragments;
    sum->count[MADI_MOVED_bytes_received] += in->bytes;
    sum->count[MADI_MOVED_messages_sent] += out->fragments;
    sum->count[MADI_MOVED_bytes_sent] += out->bytes;
}

void gw_traffic(madi_gate_t *gate, madi_traffic_t *ends, madi_traffic_t *passing)
{
    const gw_hop_t *hop = gate->forward;
    madi_lock(&gate->tx_lock);
    counts_add(ends, &hop->in_all[0], &hop->out_all[0]);
    counts_add(passing, &hop->in_all[1], &hop->out_all[1]);
    madi_unlock(&gate->tx_lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Explanations of rails for mad_info and mad_peer_explain.  Under session->lock. */
#include "core/driver.h"
#include "core/rails/rails.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Return the share of a rail in the bytes of pieces that all present rails have sent, in per cent; -1 if none were sent. */
static int share_percent(const madi_rails_t *w, const rail_t *r)
{
    uint64_t all = 0;
    for (const rail_t *other = w->rail; other < w->rail + MADI_RAILS_MOST; other++)
        all += other->state == RAIL_UP ? other->bytes_out : 0;
    return all ? (int)(100 * r->bytes_out / all) : -1;
}

bool madi_rails_explain(madi_gate_t *gate, const madi_adapter_t *adapter, char *reason)
{
    madi_rails_t *w = gate->rails;
    rail_t *r = w->rail;
    int share;
    while (r->state != RAIL_UP || r->adapter != adapter)
        if (++r == w->rail + MADI_RAILS_MOST)
            return false;
    if (!w->tx_on)
        return true;
    madi_lock(&gate->tx_lock);
    share = share_percent(w, r);
    snprintf(reason, MADI_REASON_MAX, "rail %u%s, %" PRId64 " MB/s %s", r->id,
             r == w->first ? " with all short messages" : "", (int64_t)(r->bandwidth + 0.5),
             r->measured ? "measured" : "expected");
    if (share >= 0)
        snprintf(reason + strnlen(reason, MADI_REASON_MAX), MADI_REASON_MAX - strnlen(reason, MADI_REASON_MAX),
                 ", %d %% of the bytes sent of long blocks", share);
    madi_unlock(&gate->tx_lock);
    return true;
}

static void write_rail(madi_rails_t *w, const rail_t *r, madi_json_t *j)
{
    madi_json_begin(j, NULL, '{');
    madi_json_int(j, "rail", r->id);
    madi_json_text(j, "driver", r->adapter->driver->name);
    madi_json_text(j, "adapter", r->adapter->name);
    madi_json_text(j, "network", r->adapter->network);
    madi_json_bool(j, "messages", r == w->first);
    madi_json_int(j, "bandwidth_MBs", (int64_t)r->bandwidth);
    madi_json_bool(j, "measured", r->measured);
    madi_json_int(j, "block_bytes_sent", (int64_t)r->bytes_out);
    madi_json_int(j, "block_bytes_received", (int64_t)r->bytes_in);
    madi_json_int(j, "bytes_in_flight", (int64_t)r->in_flight);
    madi_json_end(j, '}');
}

void madi_rails_write(madi_gate_t *gate, madi_json_t *j)
{
    madi_rails_t *w = gate->rails;
    madi_lock(&gate->tx_lock);
    madi_json_int(j, "rails_lost", (int64_t)gate->counts[MADI_GATE_COUNT_rails_lost]);
    madi_json_int(j, "packets_sent_again", (int64_t)gate->counts[MADI_GATE_COUNT_packets_again]);
    madi_json_begin(j, "rails", '[');
    for (const rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST && w->tx_on; r++)
        if (r->state == RAIL_UP)
            write_rail(w, r, j);
    madi_json_end(j, ']');
    madi_unlock(&gate->tx_lock);
}

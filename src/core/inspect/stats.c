/* SPDX-License-Identifier: BSD-3-Clause */
/* The query "stats": what a session has sent and received so far; one object, whose counters never go down.
 *   ask version pid rank size launcher host clock_ns waiting{} marcel{} (process.c)
 *   traffic[]{driver class peers ...}  by driver and class:
 *     self, job, other     messages to this process, to other processes of the job, to peers added by address
 *     streams, forwarded   fragments of streams that end here, of streams that pass through
 *   networks[]{network driver adapter peers ...}  the same traffic, by network
 *   channels[]{channel ...} channels_left_out
 *   forwarding{... routes[]}
 * Counters are described in counters.h. */
#include "base/clock.h"
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/connect/gate.h"
#include "core/connect/peer.h"
#include "core/inspect/query.h"
#include "core/object/conn.h"
#include "core/object/gate.h"
#include "core/object/tx.h"
#include "core/recv/receive.h"
#include "core/send/send.h"
#include "core/wire/address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GATES_AT_ONCE 64 /* number of gates that are summed up in one piece of the answer */
#define CHANNELS_MAX 128 /* maximum number of channels that are listed one by one */
/* maximum number of rows: more than drivers times classes; further networks are added to the last row */
#define ROWS 64

enum { COUNTS = MADI_COUNT_NETWORKS_peers }; /* number of rows (counters) of a driver's class, and of a network */
static_assert(MADI_COUNT_TRAFFIC_peers == 0 && COUNTS == MADI_COUNT_CHANNELS_peers - MADI_COUNT_NETWORKS_peers,
              "traffic has the first rows, and networks have the same ones");

typedef struct row {
    const madi_driver_t *driver;
    const madi_adapter_t *adapter; /* adapter of a network; NULL for a class */
    const char *name;              /* name of the class or network */
    int64_t count[COUNTS];         /* by MADI_COUNT_TRAFFIC_* */
} row_t;

typedef struct rows {
    int n;
    row_t row[ROWS];
} rows_t;

enum { HEAD, GATES, CHANNELS, REST, END };

typedef struct stats {
    int stage;
    const madi_gate_t *gate;
    uint32_t n_channels;
    rows_t classes, networks;
} stats_t;

/* ---- By driver and class, and by network ------------------------------------------------------------------------ */

/* Return the row with this driver, adapter and name, which is added if it is new.  Names are compared by their addresses. */
static row_t *row_find(rows_t *rows, const madi_driver_t *driver, const madi_adapter_t *adapter, const char *name)
{
    row_t *row = rows->row, *end = row + rows->n;
    while (row < end && (row->driver != driver || row->adapter != adapter || row->name != name))
        row++;
    if (row == end) {
        if (rows->n == ROWS)
            return end - 1;
        rows->n++;
        *row = (row_t){.driver = driver, .adapter = adapter, .name = name};
    }
    return row;
}

static const char *gate_class(const mad_session_t *s, const madi_gate_t *gate)
{
    static const char self[] = "self", job[] = "job", other[] = "other";
    if (madi_gate_adapter(gate)->caps.self)
        return self;
    return madi_address_rank(madi_peer_address(s, gate->peer), s->job) >= 0 ? job : other;
}

static void row_add(row_t *sum, const row_t *row)
{
    for (int i = 0; i < COUNTS; i++)
        sum->count[i] += row->count[i];
}

/* Add the counts of messages and bytes in t, which are also the first counts of a row, in the same order. */
static void row_moved_add(row_t *row, const madi_traffic_t *t)
{
    for (int i = 0; i < MADI_MOVED_COUNTS; i++)
        row->count[i] += (int64_t)t->count[i];
}

/* Add the counts of long blocks, whose bytes are counted as bytes too. */
static void row_blocks_add(row_t *row, const madi_gate_t *gate)
{
    const madi_send_counts_t *out = madi_send_counts(gate);
    const madi_recv_counts_t *in = madi_recv_counts(gate);
    int64_t sent = (int64_t)(out->granted_bytes + out->put_bytes + out->fetched_bytes);
    int64_t received = (int64_t)(in->taken_bytes + in->placed_bytes + in->pulled_bytes);
    row->count[MADI_COUNT_TRAFFIC_blocks_sent] = (int64_t)(out->granted_blocks + out->put_blocks + out->fetched_blocks);
    row->count[MADI_COUNT_TRAFFIC_block_bytes_sent] = sent;
    row->count[MADI_COUNT_TRAFFIC_bytes_sent] += sent;
    row->count[MADI_COUNT_TRAFFIC_blocks_received] = (int64_t)(in->taken_blocks + in->placed_blocks + in->pulled_blocks);
    row->count[MADI_COUNT_TRAFFIC_block_bytes_received] = received;
    row->count[MADI_COUNT_TRAFFIC_bytes_received] += received;
}

static int64_t gate_up_count(const madi_gate_t *gate)
{
    return atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_UP;
}

#define GATE_COUNT_ADD(group, key, kind, unit, column, where, text) \
    row.count[MADI_COUNT_TRAFFIC_##key] += (int64_t)gate->counts[MADI_GATE_COUNT_##key];

static row_t gate_row(madi_gate_t *gate)
{
    row_t row = {.count[MADI_COUNT_TRAFFIC_peers] = gate_up_count(gate)};
    madi_traffic_t moved;
    madi_lock(&gate->tx_lock);
    moved = madi_conns_traffic(gate);
    for (const madi_conn_t *c = gate->conns; c; c = c->next_of_gate)
        for (const madi_tx_t *tx = c->queue; tx; tx = tx->next)
            row.count[MADI_COUNT_TRAFFIC_messages_queued]++;
    row_moved_add(&row, &moved);
    row_blocks_add(&row, gate);
    MADI_COUNTERS_GATE(MADI_COUNTER_NONE, GATE_COUNT_ADD, , , )
    madi_unlock(&gate->tx_lock);
    return row;
}

/* Add the fragments that have gone over a gate.  The peer is not added to the network's row again, because the gate's
 * own row has added it. */
static void forward_add(stats_t *stats, mad_session_t *s, madi_gate_t *gate, row_t *network)
{
    static const char streams[] = "streams", forwarded[] = "forwarded";
    row_t row_ends = {.count[MADI_COUNT_TRAFFIC_peers] = gate_up_count(gate)}, row_passing = row_ends;
    madi_traffic_t ends = {{0}}, passing = {{0}};
    s->forward->traffic(gate, &ends, &passing);
    row_moved_add(&row_ends, &ends);
    row_moved_add(&row_passing, &passing);
    if (ends.count[MADI_MOVED_messages_sent] || ends.count[MADI_MOVED_messages_received])
        row_add(row_find(&stats->classes, madi_gate_adapter(gate)->driver, NULL, streams), &row_ends);
    if (passing.count[MADI_MOVED_messages_sent] || passing.count[MADI_MOVED_messages_received])
        row_add(row_find(&stats->classes, madi_gate_adapter(gate)->driver, NULL, forwarded), &row_passing);
    if (network) {
        row_moved_add(network, &ends);
        row_moved_add(network, &passing);
    }
}

/* Return the row of the gate's network; NULL: its packets go over other adapters (virtual), or over none. */
static row_t *network_row(stats_t *stats, mad_session_t *s, const madi_gate_t *gate)
{
    const madi_adapter_t *adapter = madi_gate_adapter(gate);
    const char *name = s->forward ? s->forward->network(gate) : NULL;
    if (adapter->caps.self || (s->forward && s->forward->carried(adapter)))
        return NULL;
    return row_find(&stats->networks, adapter->driver, adapter, name ? name : adapter->network);
}

static void gate_add(stats_t *stats, mad_session_t *s, madi_gate_t *gate)
{
    row_t row, *network;
    if (!madi_gate_adapter(gate))
        return;
    row = gate_row(gate);
    network = network_row(stats, s, gate);
    row_add(row_find(&stats->classes, madi_gate_adapter(gate)->driver, NULL, gate_class(s, gate)), &row);
    if (network)
        row_add(network, &row);
    if (gate->forward)
        forward_add(stats, s, gate, network);
}

/* Add some gates.  A gate that was released meanwhile has no peer, and is followed by other released gates only. */
static void gates_add(stats_t *stats, mad_session_t *s)
{
    for (int i = 0; i < GATES_AT_ONCE && stats->gate; i++) {
        madi_gate_t *gate = (madi_gate_t *)stats->gate;
        if (gate->peer >= 0)
            gate_add(stats, s, gate);
        stats->gate = gate->next;
    }
}

struct madi_stats_kept {
    stats_t stats;
};

void madi_stats_keep(mad_session_t *s, madi_gate_t *gate)
{
    if (!s->kept)
        s->kept = calloc(1, sizeof *s->kept);
    if (s->kept)
        gate_add(&s->kept->stats, s, gate);
}

void madi_stats_free(mad_session_t *s)
{
    free(s->kept);
}

static void write_rows(madi_json_t *j, madi_counter_group_id_t group, const rows_t *rows)
{
    madi_counter_id_t first = group == MADI_GROUP_NETWORKS ? MADI_COUNT_NETWORKS_peers : MADI_COUNT_TRAFFIC_peers;
    madi_json_begin(j, madi_counter_groups[group].key, '[');
    for (const row_t *row = rows->row; row < rows->row + rows->n; row++) {
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "driver", row->driver->name);
        if (row->adapter)
            madi_json_text(j, "adapter", row->adapter->name);
        madi_json_text(j, row->adapter ? "network" : "class", row->name);
        for (int i = 0; i < COUNTS; i++)
            madi_count_write(j, (madi_counter_id_t)(first + i), row->count[i]);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

/* ---- By channel ------------------------------------------------------------------------------------------------- */

static void write_channel_counts(madi_json_t *j, const mad_channel_t *channel)
{
    madi_traffic_t moved = {{0}};
    int64_t starved = 0;
    for (const madi_conn_t *c = channel->all; c; c = c->next_of_channel) {
        moved.count[MADI_MOVED_peers]++;
        madi_lock(&c->gate->tx_lock);
        madi_conn_traffic(c, &moved);
        moved.count[MADI_MOVED_bytes_sent] += c->block_bytes_out;
        moved.count[MADI_MOVED_bytes_received] += c->block_bytes_in;
        starved += c->queue && c->starved;
        for (const madi_tx_t *tx = c->queue; tx; tx = tx->next)
            moved.count[MADI_MOVED_messages_queued]++;
        madi_unlock(&c->gate->tx_lock);
    }
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "channel", channel->name);
    for (int i = 0; i < MADI_MOVED_COUNTS; i++)
        madi_count_write(j, (madi_counter_id_t)(MADI_COUNT_CHANNELS_peers + i), (int64_t)moved.count[i]);
    madi_count_write(j, MADI_COUNT_CHANNELS_messages_waiting,
                     atomic_load_explicit(&((mad_channel_t *)channel)->n_ready, memory_order_relaxed));
    madi_count_write(j, MADI_COUNT_CHANNELS_peers_out_of_credit, starved);
    madi_json_end(j, '}');
}

/* ---- The answer in pieces --------------------------------------------------------------------------------------- */

static void write_stats_end(madi_json_t *j, mad_session_t *s, const stats_t *stats)
{
    int64_t left_out = 0;
    for (const mad_channel_t *c = s->channels; c; c = c->next)
        left_out++;
    left_out -= stats->n_channels;
    madi_json_int(j, "channels_left_out", left_out > 0 ? left_out : 0);
    if (s->forward) {
        madi_json_begin(j, madi_counter_groups[MADI_GROUP_FORWARDING].key, '{');
        s->forward->write(s, j);
        s->forward->write_routes(s, j);
        madi_json_end(j, '}');
    }
    madi_json_end(j, '}');
}

bool madi_stats_begin(madi_answer_t *a)
{
    a->state = calloc(1, sizeof(stats_t));
    return a->state != NULL;
}

bool madi_stats_more(madi_answer_t *a)
{
    stats_t *stats = a->state;
    mad_session_t *s = a->session;
    madi_json_t *j = &a->json;
    const mad_channel_t *channel;
    switch (stats->stage) {
    case HEAD:
        madi_json_begin(j, NULL, '{');
        madi_process_write(j, s);
        madi_json_int(j, "clock_ns", madi_now());
        if (s->kept) {
            stats->classes = s->kept->stats.classes;
            stats->networks = s->kept->stats.networks;
        }
        stats->gate = s->gates;
        stats->stage = GATES;
        break;
    case GATES:
        gates_add(stats, s);
        if (!stats->gate) {
            write_rows(j, MADI_GROUP_TRAFFIC, &stats->classes);
            write_rows(j, MADI_GROUP_NETWORKS, &stats->networks);
            madi_json_begin(j, madi_counter_groups[MADI_GROUP_CHANNELS].key, '[');
            stats->stage = CHANNELS;
        }
        break;
    case CHANNELS:
        channel = stats->n_channels < CHANNELS_MAX ? madi_channel_at(s, stats->n_channels) : NULL;
        if (channel) {
            write_channel_counts(j, channel);
            stats->n_channels++;
            break;
        }
        madi_json_end(j, ']');
        stats->stage = REST;
        break;
    case REST:
        write_stats_end(j, s, stats);
        stats->stage = END;
        break;
    default: return false;
    }
    return true;
}

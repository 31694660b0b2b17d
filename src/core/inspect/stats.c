/* SPDX-License-Identifier: BSD-3-Clause */
/* The question "stats": what a session has moved so far; one object, whose counters never go down.
 *   ask version pid rank size launcher host clock_ns waiting{} marcel{} (process.c)
 *   traffic[]{driver class peers ...}  by driver, and by whose it is:
 *     self, job, other     messages to this process, to others of the job, to peers added by address
 *     streams, forwarded   fragments of virtual links that end here, of such as pass through
 *   networks[]{network driver adapter peers ...}  all of that, by the network that carried it
 *   channels[]{channel ...} channels_left_out
 *   forwarding{... routes[]} */
#include "base/clock.h"
#include "core/inspect/query.h"

#include <stdlib.h>
#include <string.h>

#define GATES_AT_ONCE 64 /* summed up before others get their turn */
#define CHANNELS_MAX 128 /* number of channels that are listed one by one */
#define ROWS 64          /* drivers times classes, and some; networks: further ones are in the last */

typedef struct row {
    const madi_driver_t *driver;
    const madi_adapter_t *adapter; /* of a network; else NULL */
    const char *name;              /* of the class, or network */
    int64_t peers, queued;
    madi_traffic_t moved;
    uint64_t blocks_out, block_bytes_out, blocks_in, block_bytes_in, refused;
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

/* Names are compared by where they stand. */
static row_t *row_of(rows_t *rows, const madi_driver_t *driver, const madi_adapter_t *adapter, const char *name)
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

static const char *class_of(const mad_session_t *s, const madi_gate_t *gate)
{
    static const char self[] = "self", job[] = "job", other[] = "other";
    if (gate->adapter->caps.self)
        return self;
    return madi_address_rank(madi_peer_address(s, gate->peer), s->job) >= 0 ? job : other;
}

static void traffic_add(madi_traffic_t *sum, const madi_traffic_t *t)
{
    sum->messages_out += t->messages_out;
    sum->bytes_out += t->bytes_out;
    sum->messages_in += t->messages_in;
    sum->bytes_in += t->bytes_in;
}

static void row_add(row_t *sum, const row_t *row)
{
    sum->peers += row->peers;
    sum->queued += row->queued;
    traffic_add(&sum->moved, &row->moved);
    sum->blocks_out += row->blocks_out;
    sum->block_bytes_out += row->block_bytes_out;
    sum->blocks_in += row->blocks_in;
    sum->block_bytes_in += row->block_bytes_in;
    sum->refused += row->refused;
}

static row_t gate_row(madi_gate_t *gate)
{
    row_t row = {.peers = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP};
    madi_lock(&gate->tx_lock);
    row.moved = gate->before;
    for (const madi_conn_t *c = gate->conns; c; c = c->next_of_gate) {
        madi_conn_traffic(c, &row.moved);
        for (const madi_tx_t *tx = c->queue; tx; tx = tx->next)
            row.queued++;
    }
    row.blocks_out = gate->granted_blocks + gate->put_blocks + gate->fetched_blocks;
    row.block_bytes_out = gate->granted_bytes + gate->put_bytes + gate->fetched_bytes;
    row.blocks_in = gate->taken_blocks + gate->placed_blocks + gate->pulled_blocks;
    row.block_bytes_in = gate->taken_bytes + gate->placed_bytes + gate->pulled_bytes;
    row.refused = gate->refused;
    madi_unlock(&gate->tx_lock);
    return row;
}

/* The network is counted once: peers are those of the gate. */
static void forward_add(stats_t *stats, mad_session_t *s, madi_gate_t *gate, row_t *network)
{
    static const char streams[] = "streams", forwarded[] = "forwarded";
    row_t ends = {.peers = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP}, passing = ends;
    s->forward->traffic(gate, &ends.moved, &passing.moved);
    if (ends.moved.messages_out || ends.moved.messages_in)
        row_add(row_of(&stats->classes, gate->adapter->driver, NULL, streams), &ends);
    if (passing.moved.messages_out || passing.moved.messages_in)
        row_add(row_of(&stats->classes, gate->adapter->driver, NULL, forwarded), &passing);
    if (network) {
        traffic_add(&network->moved, &ends.moved);
        traffic_add(&network->moved, &passing.moved);
    }
}

/* NULL: what goes there goes over others (virtual), or over none. */
static row_t *network_of(stats_t *stats, mad_session_t *s, const madi_gate_t *gate)
{
    const madi_adapter_t *adapter = gate->adapter;
    const char *name = s->forward ? s->forward->network(gate) : NULL;
    if (adapter->caps.self || (s->forward && s->forward->carried(adapter)))
        return NULL;
    return row_of(&stats->networks, adapter->driver, adapter, name ? name : adapter->network);
}

static void gate_add(stats_t *stats, mad_session_t *s, madi_gate_t *gate)
{
    row_t row, *network;
    if (!gate->adapter)
        return;
    row = gate_row(gate);
    network = network_of(stats, s, gate);
    row_add(row_of(&stats->classes, gate->adapter->driver, NULL, class_of(s, gate)), &row);
    if (network)
        row_add(network, &row);
    if (gate->forward)
        forward_add(stats, s, gate, network);
}

/* One that was forgotten meanwhile has no adapter, and leads to others like it. */
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

static void say_moved(madi_json_t *j, const madi_traffic_t *t)
{
    madi_json_int(j, "messages_sent", (int64_t)t->messages_out);
    madi_json_int(j, "bytes_sent", (int64_t)t->bytes_out);
    madi_json_int(j, "messages_received", (int64_t)t->messages_in);
    madi_json_int(j, "bytes_received", (int64_t)t->bytes_in);
}

static void say_rows(madi_json_t *j, const char *key, const rows_t *rows)
{
    madi_json_begin(j, key, '[');
    for (const row_t *row = rows->row; row < rows->row + rows->n; row++) {
        madi_traffic_t all = row->moved;
        all.bytes_out += row->block_bytes_out;
        all.bytes_in += row->block_bytes_in;
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "driver", row->driver->name);
        if (row->adapter)
            madi_json_text(j, "adapter", row->adapter->name);
        madi_json_text(j, row->adapter ? "network" : "class", row->name);
        madi_json_int(j, "peers", row->peers);
        say_moved(j, &all);
        madi_json_int(j, "messages_queued", row->queued);
        madi_json_int(j, "blocks_sent", (int64_t)row->blocks_out);
        madi_json_int(j, "block_bytes_sent", (int64_t)row->block_bytes_out);
        madi_json_int(j, "blocks_received", (int64_t)row->blocks_in);
        madi_json_int(j, "block_bytes_received", (int64_t)row->block_bytes_in);
        madi_json_int(j, "times_full", (int64_t)row->refused);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

/* ---- By channel ------------------------------------------------------------------------------------------------- */

static void say_channel(madi_json_t *j, const mad_channel_t *channel)
{
    madi_traffic_t moved = {0};
    int64_t peers = 0, queued = 0, starved = 0;
    for (const madi_conn_t *c = channel->all; c; c = c->next_of_channel) {
        peers++;
        madi_lock(&c->gate->tx_lock);
        madi_conn_traffic(c, &moved);
        moved.bytes_out += c->block_bytes_out;
        moved.bytes_in += c->block_bytes_in;
        starved += c->queue && c->starved;
        for (const madi_tx_t *tx = c->queue; tx; tx = tx->next)
            queued++;
        madi_unlock(&c->gate->tx_lock);
    }
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "channel", channel->name);
    madi_json_int(j, "peers", peers);
    say_moved(j, &moved);
    madi_json_int(j, "messages_queued", queued);
    madi_json_int(j, "messages_waiting", atomic_load_explicit(&((mad_channel_t *)channel)->n_ready, memory_order_relaxed));
    madi_json_int(j, "peers_out_of_credit", starved);
    madi_json_end(j, '}');
}

/* ---- The answer in pieces --------------------------------------------------------------------------------------- */

static void say_rest(madi_json_t *j, mad_session_t *s, const stats_t *stats)
{
    int64_t left_out = 0;
    for (const mad_channel_t *c = s->channels; c; c = c->next)
        left_out++;
    left_out -= stats->n_channels;
    madi_json_int(j, "channels_left_out", left_out > 0 ? left_out : 0);
    if (s->forward) {
        madi_json_begin(j, "forwarding", '{');
        s->forward->say(s, j);
        s->forward->say_routes(s, j);
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
        madi_say_process(j, s);
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
            say_rows(j, "traffic", &stats->classes);
            say_rows(j, "networks", &stats->networks);
            madi_json_begin(j, "channels", '[');
            stats->stage = CHANNELS;
        }
        break;
    case CHANNELS:
        channel = stats->n_channels < CHANNELS_MAX ? madi_channel_at(s, stats->n_channels) : NULL;
        if (channel) {
            say_channel(j, channel);
            stats->n_channels++;
            break;
        }
        madi_json_end(j, ']');
        stats->stage = REST;
        break;
    case REST:
        say_rest(j, s, stats);
        stats->stage = END;
        break;
    default:
        return false;
    }
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The query "explain": the state of a session, as one object:
 *   ask version pid rank size launcher host waiting{categories[]} marcel{} (process.c) credit_budget peers_known
 *   ledger{} numa{} drivers[] modules[] adapters[] knobs[] channels[] peers[]{ways[] connections[]} forwarding{} */
#include "base/knob.h"
#include "core/conn/channel.h"
#include "core/conn/credit.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/inspect/query.h"
#include "core/link/ledger.h"
#include "core/object/gate.h"
#include "core/object/rx.h"
#include "core/object/session.h"
#include "core/object/tx.h"
#include "core/recv/receive.h"
#include "core/security/protection.h"
#include "core/wire/drivers.h"
#include "core/send/send.h"
#include "engine/numa.h"

#include <stdlib.h>
#include <string.h>

/* ---- The process ---------------------------------------------------------------------------------------------- */

static void write_settings(madi_json_t *j, const mad_session_t *s)
{
    madi_json_int(j, "credit_budget", madi_credit_budget(s));
    madi_json_int(j, "peers_known", madi_peers_known(s));
    madi_json_begin(j, "ledger", '{');
    madi_ledger_write_sum(s, j);
    madi_json_end(j, '}');
}

/* NUMA nodes, by the kernel's numbers: how many there are, and where this process and its progress thread belong. */
static void write_numa(madi_json_t *j)
{
    madi_json_begin(j, "numa", '{');
    madi_json_int(j, "nodes", marceli_numa_nodes());
    madi_json_bool(j, "used", madi_knob_int(MADI_KNOB_NUMA));
    if (marceli_numa_of_process() >= 0)
        madi_json_int(j, "process_node", marceli_numa_of_process());
    if (marceli_progress_node() >= 0)
        madi_json_int(j, "progress_node", marceli_progress_node());
    madi_json_end(j, '}');
}

static void write_drivers(madi_json_t *j, const mad_session_t *s)
{
    const madi_driver_t *driver;
    madi_json_begin(j, "drivers", '[');
    for (int i = 0; (driver = madi_driver_at(i)); i++) {
        int open = 0, left_out = 0;
        for (int k = 0; k < s->n_adapters; k++)
            open += !strcmp(s->adapters[k]->driver->name, driver->name);
        for (const madi_left_out_t *l = s->left_out; l; l = l->next)
            left_out += l->driver == driver;
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "driver", driver->name);
        madi_json_int(j, "abi", driver->abi);
        madi_json_bool(j, "on_request", driver->on_request);
        madi_json_int(j, "adapters", open);
        madi_json_int(j, "left_out", left_out);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

static void write_modules(madi_json_t *j)
{
    madi_module_record_t module;
    madi_json_begin(j, "modules", '[');
    for (int i = 0; madi_module_record_at(i, &module); i++) {
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "module", module.name);
        madi_json_text(j, "path", module.path);
        madi_json_bool(j, "loaded", module.driver != NULL);
        if (!module.driver)
            madi_json_text(j, "reason", module.reason);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

static void write_caps(madi_json_t *j, const madi_caps_t *caps)
{
    madi_json_int(j, "packet_max", (int64_t)caps->packet_max);
    madi_json_int(j, "chunk_max", (int64_t)caps->chunk_max);
    madi_json_int(j, "grant_min", (int64_t)caps->rdv_min);
    madi_json_int(j, "read_min", (int64_t)caps->direct_min);
    madi_json_int(j, "ahead_of_grant", (int64_t)caps->rdv_eager);
    madi_json_int(j, "gather_max", caps->gather_max);
    madi_json_real(j, "latency_us", caps->latency_us);
    madi_json_real(j, "bandwidth_MBs", caps->bandwidth_MBs);
}

static void write_adapters(madi_json_t *j, const mad_session_t *s)
{
    madi_json_begin(j, "adapters", '[');
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_adapter_t *a = s->adapters[i];
        char security[120];
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "driver", a->driver->name);
        madi_json_text(j, "adapter", a->name);
        madi_json_bool(j, "open", true);
        madi_json_text(j, "network", a->network);
        madi_json_int(j, "rank", madi_adapter_rank(a));
        madi_security_text(a, security, sizeof security);
        madi_json_text(j, "security", madi_security_name(a->security));
        madi_json_text(j, "protection", security);
        if (a->device[0])
            madi_json_text(j, "device", a->device);
        if (a->node >= 0)
            madi_json_int(j, "numa_node", a->node);
        if (a->distance)
            madi_json_int(j, "numa_distance", a->distance);
        if (*a->remark)
            madi_json_text(j, "remark", a->remark);
        write_caps(j, &a->caps);
        madi_json_end(j, '}');
    }
    for (const madi_left_out_t *l = s->left_out; l; l = l->next) {
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "driver", l->driver->name);
        madi_json_text(j, "adapter", l->name);
        madi_json_bool(j, "open", false);
        madi_json_text(j, "reason", l->reason);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

static void write_knobs(madi_json_t *j)
{
    madi_json_begin(j, "knobs", '[');
    for (int i = 0; i < MADI_KNOB_COUNT; i++) {
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "knob", madi_knobs[i].name);
        madi_json_text(j, "value", madi_knob_text((madi_knob_id_t)i));
        madi_json_text(j, "origin", madi_knob_origin((madi_knob_id_t)i) ? "environment" : "default");
        madi_json_text(j, "default", madi_knobs[i].def);
        madi_json_text(j, "help", madi_knobs[i].help);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

static void write_channel(madi_json_t *j, const mad_channel_t *c)
{
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "channel", c->name);
    madi_json_bool(j, "open", c->is_open);
    madi_json_bool(j, "handler", c->handler != NULL);
    madi_json_int(j, "messages_waiting", atomic_load_explicit(&c->n_ready, memory_order_relaxed));
    madi_json_end(j, '}');
}

/* ---- Peers ---------------------------------------------------------------------------------------------------- */

static const char *state_name(const madi_gate_t *gate)
{
    static const char *const names[] = {[MADI_GATE_IDLE] = "not spoken to",
                                        [MADI_GATE_CONNECTING] = "connecting",
                                        [MADI_GATE_UP] = "connected",
                                        [MADI_GATE_DOWN] = "lost"};
    int state = gate ? atomic_load_explicit(&gate->state, memory_order_relaxed) : MADI_GATE_IDLE;
    return state == MADI_GATE_DOWN && gate->bye_received ? "has ended" : names[state];
}

static void write_peer_paths(madi_json_t *j, mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_json_begin(j, "ways", '[');
    for (int i = 0; i < s->n_adapters && madi_peer_address(s, peer); i++) {
        madi_adapter_t *a = s->adapters[i];
        char reason[MADI_REASON_MAX];
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "driver", a->driver->name);
        madi_json_text(j, "adapter", a->name);
        madi_json_text(j, "network", a->network);
        madi_json_text(j, "security", madi_security_name(a->security));
        madi_json_text(j, "way", madi_peer_path_name(madi_peer_path_explain(s, peer, lane, a, reason)));
        madi_json_text(j, "reason", reason);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
}

static int64_t tx_list_length(const madi_tx_t *tx)
{
    int64_t n = 0;
    for (; tx; tx = tx->next)
        n++;
    return n;
}

/* Under gate->tx_lock too. */
static void write_connection(madi_json_t *j, const madi_conn_t *c)
{
    int64_t waiting = 0;
    for (const madi_rx_msg_t *m = c->ready; m; m = m->next)
        waiting++;
    madi_json_begin(j, NULL, '{');
    madi_json_text(j, "channel", c->channel->name);
    madi_json_int(j, "messages_sent", (int64_t)c->tx_seq);
    madi_json_int(j, "messages_queued", tx_list_length(c->queue) + tx_list_length(c->deferred));
    madi_json_int(j, "unasked_bytes_sent", (int64_t)madi_credit_used(c));
    madi_json_int(j, "credit", (int64_t)(c->credit_left + c->fast_credits));
    madi_json_bool(j, "waits_for_credit", c->queue && c->starved);
    madi_json_int(j, "unasked_bytes_received", (int64_t)madi_credit_consumed(c));
    madi_json_int(j, "messages_waiting", waiting);
    madi_json_bool(j, "receive_posted", c->posted != NULL);
    madi_json_end(j, '}');
}

static void write_traffic(madi_json_t *j, madi_gate_t *gate)
{
    const madi_send_counts_t *sent = madi_send_counts(gate);
    const madi_recv_counts_t *received = madi_recv_counts(gate);
    madi_lock(&gate->tx_lock);
    madi_json_int(j, "packets_refused", (int64_t)gate->counts[MADI_GATE_COUNT_times_full]);
    madi_json_int(j, "granted_blocks_sent", (int64_t)sent->granted_blocks);
    madi_json_int(j, "granted_bytes_sent", (int64_t)sent->granted_bytes);
    madi_json_int(j, "written_blocks", (int64_t)sent->put_blocks);
    madi_json_int(j, "written_bytes", (int64_t)sent->put_bytes);
    madi_json_int(j, "read_blocks", (int64_t)received->pulled_blocks);
    madi_json_int(j, "read_bytes", (int64_t)received->pulled_bytes);
    madi_json_int(j, "shared_blocks_sent", (int64_t)sent->shared_blocks);
    madi_json_int(j, "shared_blocks_received", (int64_t)received->shared_blocks);
    madi_json_begin(j, "ledger", '{');
    madi_ledger_write(gate, j);
    madi_json_end(j, '}');
    madi_json_begin(j, "connections", '[');
    for (const madi_conn_t *c = gate->conns; c; c = c->next_of_gate)
        write_connection(j, c);
    madi_json_end(j, ']');
    madi_unlock(&gate->tx_lock);
}

static void write_peer(madi_json_t *j, mad_session_t *s, mad_peer_t peer, int lane)
{
    bool known = madi_peer_address(s, peer) != NULL;
    madi_gate_t *gate = known ? madi_peer_gate_find(s, peer, lane) : NULL;
    madi_json_begin(j, NULL, '{');
    madi_json_int(j, "peer", peer);
    if (lane)
        madi_json_text(j, "channel", s->forward->lane_name(s, lane));
    madi_json_text(j, "state", known ? state_name(gate) : "address not asked for yet");
    if (gate && gate->status)
        madi_json_text(j, "error", mad_status_text(gate->status));
    if (known)
        write_peer_paths(j, s, peer, lane);
    if (gate)
        write_traffic(j, gate);
    if (gate && gate->rails)
        s->rails->write(gate, j);
    madi_json_end(j, '}');
}

/* ---- The answer in pieces ------------------------------------------------------------------------------------- */

enum { HEAD, CHANNELS, PEERS, TAIL, END };

typedef struct explain {
    int stage;
    mad_peer_t only; /* the peer in the question; -1 for all peers that have a gate */
    bool written;    /* the gate of peer `only` on lane 0 was written */
    madi_gate_t *gate;
    uint32_t n_channels; /* number of channels written */
} explain_t;

bool madi_explain_begin(madi_answer_t *a)
{
    explain_t *e = calloc(1, sizeof *e);
    if (e)
        e->only = a->peer;
    a->state = e;
    return e != NULL;
}

static void write_beginning(madi_json_t *j, const mad_session_t *s)
{
    madi_json_begin(j, NULL, '{');
    madi_process_write(j, s);
    write_settings(j, s);
    write_numa(j);
    write_drivers(j, s);
    write_modules(j);
    write_adapters(j, s);
    write_knobs(j);
    madi_json_begin(j, "channels", '[');
}

/* Write the next part.  Gates are not freed before the end of the session, so the position in their list stays valid
 * until the next call. */
bool madi_explain_more(madi_answer_t *a)
{
    explain_t *e = a->state;
    mad_session_t *s = a->session;
    madi_json_t *j = &a->json;
    const mad_channel_t *channel;
    switch (e->stage) {
    case HEAD:
        write_beginning(j, s);
        e->stage = CHANNELS;
        break;
    case CHANNELS:
        channel = madi_channel_at(s, e->n_channels);
        if (channel) {
            write_channel(j, channel);
            e->n_channels++;
            break;
        }
        madi_json_end(j, ']');
        madi_json_begin(j, "peers", '[');
        e->gate = s->gates;
        e->stage = PEERS;
        break;
    case PEERS:
        if (e->only >= 0 && !e->written) {
            write_peer(j, s, e->only, 0);
            e->written = true;
            break;
        }
        /* skip gates that were released meanwhile, or that connect a rail */
        while (e->gate && (e->gate->peer < 0 || e->gate->rail_of))
            e->gate = e->gate->next;
        while (e->gate && e->only >= 0 && (e->gate->peer != e->only || !e->gate->lane))
            e->gate = e->gate->next;
        if (e->gate) {
            write_peer(j, s, e->gate->peer, e->gate->lane);
            e->gate = e->gate->next;
            break;
        }
        madi_json_end(j, ']');
        if (s->forward) {
            madi_json_begin(j, "forwarding", '{');
            s->forward->write(s, j);
            madi_json_end(j, '}');
        }
        e->stage = TAIL;
        break;
    case TAIL:
        madi_json_end(j, '}');
        e->stage = END;
        break;
    default: return false;
    }
    return true;
}

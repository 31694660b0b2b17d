/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger of peers; see ledger.h. */
#include "base/clock.h"
#include "base/log.h"
#include "core/link/ledger.h"
#include "core/link/link.h"

#include <inttypes.h>
#include <stdio.h>

#define KB INT64_C(1024)
#define MB (KB * 1024)

/* A correct peer stays far below the bounds of packets that wait for it to read (ctrl, answers).  A process that sends also
 * reads, in the same round of progress.  The answers that it can leave unread are limited: 65,535 CLOSE cost 40 bytes of
 * memory each, for CLOSED.  Messages are limited by credit: an announced block takes 16 bytes of credit, and its answer 48
 * bytes, so a full window of 1 MiB causes 3 MiB.  The credit of a stream is reported at most twice in a window.
 * The alternative, to stop reading from the peer, would deadlock: two processes that both did so would wait for each other
 * for ever. */
madi_bound_t madi_bounds[MADI_CHARGES] = {
    [MADI_CHARGE_CTRL] = {"ctrl", "bytes of control packets wait for it to read", 8 * MB, 64 * MB, true,
                          "it sends, and does not read what it is answered: end it, or look why it is stuck"},
    [MADI_CHARGE_ANSWERS] = {"answers", "bytes of answers about streams wait for it to read", 1 * MB, 16 * MB, true,
                             "it sends, and does not read what it is answered: end it, or look why it is stuck"},
    [MADI_CHARGE_CHANNELS] = {"channels", "channels that are not open here", 4096, 65536, true,
                              "open channels before peers send on them, or use fewer names"},
    [MADI_CHARGE_WAITING] = {"waiting", "bytes of messages wait on channels that are not open here", 64 * MB, 256 * MB, true,
                             "open channels before peers send that much on them"},
    [MADI_CHARGE_STREAMS] = {"streams", "streams are open from it", 16384, 65536, false,
                             "further ones are refused: use more gateways, or close peers that are not needed"},
    [MADI_CHARGE_HANDSHAKES] = {"handshakes", "streams from it are not connected yet", 1024, 4096, false,
                                "further ones are refused, and may come again"},
    [MADI_CHARGE_PEERS] = {"peers", "bytes of addresses are known from it alone", 256 * KB, 1 * MB, false,
                           "further ones are ignored: name the job's processes to the gateway (a launcher, MAD_GATEWAYS)"},
    [MADI_CHARGE_DIALS] = {"dials", "calls are under way for it", 16, 64, false,
                           "further ones are refused, and may come again: name the job's processes to the gateway (a "
                           "launcher, mad_peer_add)"},
    [MADI_CHARGE_BORROWED] = {"borrowed", "bytes of borrowed blocks are received for it", 64 * MB, 256 * MB, false,
                              "further ones wait, and longer ones are refused: unpack them"},
};

#define LINES 256                  /* maximum number of log lines about peers that may be written in a burst */
#define LINE_NS INT64_C(250000000) /* ns after which one more log line about peers may be written */

/* ---- Charges ---------------------------------------------------------------------------------------------------- */

int64_t madi_ledger_bound(const mad_session_t *s, madi_charge_t what)
{
    return s->ledger.most[what] ? s->ledger.most[what] : madi_bounds[what].sum;
}

/* Return the charge up to which a peer is not at fault when all peers together have passed the bound. */
static int64_t fair_share(const mad_session_t *s, madi_charge_t what)
{
    int64_t most = madi_ledger_bound(s, what);
    return (most < madi_bounds[what].peer ? most : madi_bounds[what].peer) / 16;
}

/* True if the charge is made although all peers together have passed the bound, because this peer is charged for
 * little.  For kinds whose bound ends a connection, the connection of the peer with the largest charge ends instead.
 * PEERS are never spared: what is known from a peer stays when the peer is gone. */
static bool peer_is_spared(mad_session_t *s, madi_charge_t what, int64_t of_peer)
{
    if (what == MADI_CHARGE_PEERS || of_peer > fair_share(s, what))
        return false;
    if (madi_bounds[what].ends)
        atomic_fetch_or_explicit(&s->ledger.over, 1 << what, memory_order_relaxed);
    return true;
}

bool madi_charge(madi_gate_t *gate, madi_charge_t what, int64_t n)
{
    mad_session_t *s = gate->session;
    int64_t of_peer = atomic_fetch_add_explicit(&gate->ledger.held[what], n, memory_order_relaxed) + n;
    int64_t of_all = atomic_fetch_add_explicit(&s->ledger.held[what], n, memory_order_relaxed) + n;
    if (of_peer <= madi_bounds[what].peer && (of_all <= madi_ledger_bound(s, what) || peer_is_spared(s, what, of_peer)))
        return true;
    madi_uncharge(gate, what, n);
    return false;
}

void madi_uncharge(madi_gate_t *gate, madi_charge_t what, int64_t n)
{
    atomic_fetch_sub_explicit(&gate->ledger.held[what], n, memory_order_relaxed);
    atomic_fetch_sub_explicit(&gate->session->ledger.held[what], n, memory_order_relaxed);
}

void madi_charge_orphan(madi_gate_t *gate, madi_charge_t what, int64_t n)
{
    atomic_fetch_sub_explicit(&gate->ledger.held[what], n, memory_order_relaxed);
}

void madi_uncharge_orphan(mad_session_t *s, madi_charge_t what, int64_t n)
{
    atomic_fetch_sub_explicit(&s->ledger.held[what], n, memory_order_relaxed);
}

/* ---- Past a bound ------------------------------------------------------------------------------------------------ */

void madi_ledger_pass(madi_gate_t *gate, madi_charge_t what)
{
    int none = 0;
    if (atomic_compare_exchange_strong_explicit(&gate->ledger.past, &none, (int)what + 1, memory_order_relaxed,
                                                memory_order_relaxed))
        madi_gate_work(gate);
}

void madi_ledger_explain(const madi_gate_t *gate, madi_charge_t what, char text[MADI_LEDGER_TEXT])
{
    const madi_bound_t *bound = &madi_bounds[what];
    int64_t own = madi_ledger_held(&gate->ledger.held[what]), all = madi_ledger_held(&gate->session->ledger.held[what]);
    /* true if this peer is charged for little, so that all peers together have passed the bound */
    bool of_sum = own <= bound->peer / 2;
    snprintf(text, MADI_LEDGER_TEXT, "%" PRId64 " %s%s, %" PRId64 " are allowed (\"%s\" in doc/limits.md); %s",
             of_sum ? all : own, bound->what, of_sum ? " or others" : "",
             of_sum ? madi_ledger_bound(gate->session, what) : bound->peer, bound->name, bound->past);
}

void madi_ledger_refused(madi_gate_t *gate, madi_charge_t what)
{
    char text[MADI_LEDGER_TEXT];
    if (gate->ledger.warned & 1u << what || !madi_ledger_line(gate->session, MADI_LOG_WARN))
        return;
    gate->ledger.warned |= 1u << what;
    madi_ledger_explain(gate, what, text);
    madi_log(MADI_LOG_WARN, "core", "peer %d: %s", gate->peer, text);
}

bool madi_ledger_line(mad_session_t *s, madi_log_level_t level)
{
    madi_ledger_sum_t *l = &s->ledger;
    int64_t now = madi_now(), more = l->lines_at ? (now - l->lines_at) / LINE_NS : LINES;
    if (!madi_log_shows(level))
        return false;
    if (more > 0) {
        l->lines = l->lines + more < LINES ? l->lines + more : LINES;
        l->lines_at = now;
    }
    if (!l->lines) {
        l->lines_left_out++;
        return false;
    }
    l->lines--;
    if (l->lines_left_out)
        madi_log(MADI_LOG_WARN, "core", "%" PRId64 " lines about peers were left out: more than %d at once",
                 l->lines_left_out, LINES);
    l->lines_left_out = 0;
    return true;
}

/* ---- As mad_info shows it ------------------------------------------------------------------------------------------ */

void madi_ledger_write(const madi_gate_t *gate, madi_json_t *json)
{
    for (int i = 0; i < MADI_CHARGES; i++)
        madi_json_int(json, madi_bounds[i].name, madi_ledger_held(&gate->ledger.held[i]));
}

void madi_ledger_write_sum(const mad_session_t *s, madi_json_t *json)
{
    for (int i = 0; i < MADI_CHARGES; i++) {
        madi_json_begin(json, madi_bounds[i].name, '{');
        madi_json_int(json, "held", madi_ledger_held(&s->ledger.held[i]));
        madi_json_int(json, "most_of_one_peer", madi_bounds[i].peer);
        madi_json_int(json, "most_of_all", madi_ledger_bound(s, (madi_charge_t)i));
        madi_json_end(json, '}');
    }
}

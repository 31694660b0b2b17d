/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger: what peers make this process keep or do, each kind with a bound for one peer and one for all together.
 *
 * Whatever a peer can cause without a call of the program is charged to the peer's gate before it is kept, and uncharged
 * when it is released.  Messages and granted blocks are not charged: the credits of the program's own channels bound them
 * already.  A peer that passes a bound is in error, and its connection ends with MAD_ERR_PROTOCOL.  Where a peer may act for
 * others behind it (streams through gateways), its request is refused instead.  The table of bounds is in ledger.c;
 * doc/limits.md explains it.
 *
 * A charge may be made under any lock: the counts are atomic, and order nothing. */
#ifndef MADI_LEDGER_H
#define MADI_LEDGER_H

#include "base/json.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum madi_charge {
    MADI_CHARGE_CTRL,       /* bytes: control packets that wait for the peer to read */
    MADI_CHARGE_ANSWERS,    /* bytes: control packets about streams (credit, refusals, signs of life) that wait for the peer
                             * to read */
    MADI_CHARGE_CHANNELS,   /* channels that the peer has announced and the program has not opened */
    MADI_CHARGE_WAITING,    /* bytes: messages on these channels */
    MADI_CHARGE_STREAMS,    /* streams that the peer opened over its link to this process */
    MADI_CHARGE_HANDSHAKES, /* streams that the peer opened, that end here, and that are not connected yet */
    MADI_CHARGE_PEERS,      /* bytes: records of processes that only this peer has announced */
    MADI_CHARGE_DIALS,      /* connection attempts on the peer's behalf, to an address that only peers have named */
    MADI_CHARGE_BORROWED,   /* bytes: blocks that are received into the library's memory, for mad_unpack_borrow */
    MADI_CHARGES
} madi_charge_t;

typedef struct madi_bound {
    const char *name; /* the name of the kind in the output of mad_info */
    const char *what; /* text that follows a number: "bytes of ..." */
    int64_t peer, sum;
    bool ends;        /* if the bound is exceeded: true if the connection ends, false if a request is refused */
    const char *past; /* end of a log text: the consequence of passing the bound, and the remedy */
} madi_bound_t;

extern madi_bound_t madi_bounds[MADI_CHARGES]; /* constant, except that tests lower the bounds */

typedef struct madi_ledger {
    _Atomic(int64_t) held[MADI_CHARGES];
    _Atomic(int) past; /* 1 + the madi_charge_t whose bound the peer has passed; 0 if it has passed none */
    unsigned warned;   /* bits: kinds of which a refusal was logged.  Under the session's lock */
} madi_ledger_t;

/* Charges of all peers together.  Under the session's lock, except held. */
typedef struct madi_ledger_sum {
    _Atomic(int64_t) held[MADI_CHARGES];
    _Atomic(int) over;          /* bits: kinds whose common bound is passed, so that one peer has to be ended */
    int64_t most[MADI_CHARGES]; /* bound for all peers together, if MAD_FORWARD_BUDGET lowers it; else 0 */
    int64_t lines, lines_at;    /* number of log lines that may be written, and time of its last increase (ns) */
    int64_t lines_left_out;
} madi_ledger_sum_t;

struct madi_gate;
struct mad_session;

/* Return the amount that is charged to a peer, or to all. */
static inline int64_t madi_ledger_held(const _Atomic(int64_t) *held)
{
    return atomic_load_explicit((_Atomic(int64_t) *)held, memory_order_relaxed);
}
/* Return the bound for all peers together. */
int64_t madi_ledger_bound(const struct mad_session *session, madi_charge_t what);
#define MADI_LEDGER_TEXT 320 /* bytes of the text that describes a passed bound */
/* Write the amount that is charged to the peer, the bound, and the remedy. */
void madi_ledger_explain(const struct madi_gate *gate, madi_charge_t what, char text[MADI_LEDGER_TEXT]);

/* Charge n to a peer.  If that would exceed a bound, charge nothing, and return false. */
bool madi_charge(struct madi_gate *gate, madi_charge_t what, int64_t n);
void madi_uncharge(struct madi_gate *gate, madi_charge_t what, int64_t n);

/* Move a charge from a peer to the sum alone, for something that outlives the peer's gate.  The second call ends the
 * charge in the sum. */
void madi_charge_orphan(struct madi_gate *gate, madi_charge_t what, int64_t n);
void madi_uncharge_orphan(struct mad_session *session, madi_charge_t what, int64_t n);

/* Log, once for each kind, that something was refused to a peer whose connection goes on.  Under the session's lock. */
void madi_ledger_refused(struct madi_gate *gate, madi_charge_t what);
/* Mark a peer that has passed this bound.  The next round of progress ends the peer's connection.  Any lock. */
void madi_ledger_pass(struct madi_gate *gate, madi_charge_t what);
/* True if one more line of this level about peers may be logged now.  Lines that are left out are counted, and the next one
 * that is logged says how many.  Under the session's lock. */
bool madi_ledger_line(struct mad_session *session, madi_log_level_t level);

/* Write members of a JSON object for mad_info: for each kind of charge, the amounts of one peer and of all peers, with
 * the bounds. */
void madi_ledger_write(const struct madi_gate *gate, madi_json_t *json);
void madi_ledger_write_sum(const struct mad_session *session, madi_json_t *json);

#endif

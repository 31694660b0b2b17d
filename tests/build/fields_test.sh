#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Fields of an object that belong to one folder of the core are used in that folder only (fields.py).
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

check "private fields are used in their own folder" "" "$(python3 "$src/tests/build/fields.py" "$src" 2>&1)"

# ---- The check itself is tested with a small core of two folders, first without a breach.
core=$work/src/core
mkdir -p "$core/object" "$core/send" "$core/recv"
cat >"$core/object/gate.h" <<'C'
typedef struct madi_gate madi_gate_t;
struct madi_gate {
    struct madi_send_gate *send; /* send: what waits */
    int state;                   /* under session->lock */
};
C
cat >"$core/send/send_gate.h" <<'C'
/* The part of a gate that belongs to this folder.
 * Private to src/core/send. */
#include "core/object/gate.h"
struct madi_send_gate {
    int n_queued;
};
C
cat >"$core/send/queue.c" <<'C'
#include "core/send/send_gate.h"
int madi_send_waits(madi_gate_t *gate) { return gate->state && gate->send->n_queued; }
C
# recv LINE...: writes a folder recv with these lines, and prints what the check finds
recv() {
    check=$1 expected=$2
    shift 2
    printf '%s\n' "$@" >"$core/recv/block.c"
    check "$check" "$expected" "$(python3 "$src/tests/build/fields.py" "$work" | sed 's/^.*: \(uses\|includes\|only\) \([^ ,]*\).*/\1 \2/')"
}
good='int madi_recv_state(const madi_gate_t *gate) { return gate->state; }'
recv "nothing is found" "" "$good"
recv "a private field is found" "uses n_queued" "$good" 'int f(madi_gate_t *g) { return g->send->n_queued; }'
recv "so is one behind a function" "uses n_queued" "$good" 'madi_gate_t *gate_of(int n);' \
    'int f(int n) { return gate_of(n)->send->n_queued; }'
recv "so is one behind a variable of the private type" "uses n_queued" "$good" \
    'int f(struct madi_send_gate *waits) { return (*waits).n_queued; }'
recv "so is one of an object whose type is not known" "uses n_queued" "$good" \
    'int f(void *p) { return PART(p)->n_queued; }'
recv "so is one in a macro" "uses n_queued" "$good" '#define QUEUED(g) ((g)->send->n_queued)'
recv "so is a private header" "includes core/send/send_gate.h" '#include "core/send/send_gate.h"' "$good"
recv "so is a shared field that one folder uses" "only send" 'int f(madi_gate_t *gate) { return 0; }'
cat >>"$core/object/gate.h" <<'C'
#define GATE_STATE(gate) gate_state(gate)
static inline int gate_state(const madi_gate_t *gate) { return gate->state; }
C
recv "an inlined function is a use where it is called" "" 'int f(madi_gate_t *gate) { return GATE_STATE(gate); }'
recv "and only there" "only send" 'int f(madi_gate_t *gate) { return 0; }'
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names that do not tell what they stand for become fewer (names.py), and no limit lets a new one pass.
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

python3 "$src/tests/build/ratchet.py" --check names >"$work/log" || failures=1
cat "$work/log"

# ---- The check itself is tested: each rule is broken once in a small copy.
tree=$work/tree
mkdir -p "$tree/tests/build" "$tree/src/core" "$tree/src/tools"
cat >"$tree/src/core/clean.c" <<'EOF'
typedef struct madi_link madi_link_t;
struct madi_link {
    int fd;
};
typedef struct gate {
    int n;
} gate_t;
static int link_fd(madi_link_t *l) { return l->fd; }
static int gate_n(gate_t *g) { return g->n; }
int madi_sum(madi_link_t *l, gate_t *g) { return link_fd(l) + gate_n(g); }
EOF
echo 'int main(void) { return 0; }' | tee "$tree/src/tools/one.c" >"$tree/src/tools/two.c"
ratchet() { python3 "$src/tests/build/ratchet.py" --root "$tree" "$@"; }
if ratchet --check names >"$work/log"; then ok "a copy without breaches passes"; else not_ok "a copy without breaches passes" "$(cat "$work/log")"; fi
# seed RULE CODE: writes a file with code that breaks this rule and no other
seed() {
    printf '%s\n' "$2" >"$tree/src/core/seed.c"
    check "a breach is found: $1" "not ok names $1 src" \
        "$(ratchet --check names | grep '^not ok' | sed 's/:.*//')"
    rm "$tree/src/core/seed.c"
}
seed type-twice 'typedef struct gate { char c; } gate_t;'
seed type-twice 'typedef int (*gate_t)(void);'
seed type-twice 'typedef struct other gate_t;'
seed external-twice 'int madi_sum(int a) { return a; }'
seed static-twice 'static int gate_n(int a) { return a; }'
seed prefix 'int sum(int a) { return a; }'
seed one-word 'struct a { int x; };
struct b { int x; };
static int find(struct a *a) { return a->x; }
static int find_b(struct b *b) { return b->x; }'
[ $failures = 0 ]

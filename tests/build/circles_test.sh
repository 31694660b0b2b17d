#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Circles of files that call each other in the core stay within their limits, and so do calls from lower folders to
# higher ones (circles.py).
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

limits=$src/tests/build/circles_limits
python3 "$src/tests/build/circles.py" "$src" --explain >"$work/log" || not_ok "the core is read"
for name in largest-circle backward-edges; do
    limit=$(sed -n "s/^$name //p" "$limits") count=$(sed -n "s/^$name //p" "$work/log")
    if [ "$count" = "$limit" ]; then
        ok "$name: $count"
    elif [ "$count" -lt "$limit" ]; then
        not_ok "$name: $count" "lower its limit in tests/build/circles_limits from $limit"
    else
        not_ok "$name: $count, at most $limit" "$(grep -E -- ' -> |circle of' "$work/log")"
    fi
done

# ---- The check itself is tested with a small core of two files, first without a circle.
core=$work/tree/src/core
mkdir -p "$core/wire" "$core/link" "$core/send"
echo 'int madi_low(int a) { return a; }' >"$core/wire/low.c"
echo 'int madi_high(int a) { return madi_low(a); }' >"$core/send/high.c"
found() {
    check "$1" "$2" "$(python3 "$src/tests/build/circles.py" "$work/tree" | tr '\n' ' ')"
}
found "calls downwards" "largest-circle 1 backward-edges 0 "
{
    echo 'static int low_inside(int a) { return a ? madi_high(a - 1) : 0; }'
    echo 'int madi_low(int a) { return low_inside(a); }'
} >"$core/wire/low.c"
found "a call upwards is found, and a circle" "largest-circle 2 backward-edges 1 "
echo 'high_t *madi_low(void) { return madi_high; }' >"$core/wire/low.c"
found "so is an address that is taken" "largest-circle 2 backward-edges 1 "
echo 'int madi_low(int a) { return madi_inlined(a); }' >"$core/wire/low.c"
echo 'static inline int madi_inlined(int a) { return madi_high(a); }' >"$core/link/inlined.h"
found "so is a call through a header" "largest-circle 2 backward-edges 1 "
printf '#define MADI_INLINED(a) \\\n    madi_high(a)\n' >"$core/link/inlined.h"
echo 'int madi_low(int a) { return MADI_INLINED(a); }' >"$core/wire/low.c"
found "so is a call through a macro of a header" "largest-circle 2 backward-edges 1 "
[ $failures = 0 ]

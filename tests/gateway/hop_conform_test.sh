#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The conformance suite through one gateway, three processes on this host (ways.sh), over each pair of drivers; encrypted,
# over the library's own drivers only.  LONG=1: each test in a run of its own; encrypted over all pairs, too.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
. "$here/ways.sh"

[ -z "$ENCRYPT" ] || [ -n "$LONG" ] || fabric_ways=
tests=all
[ -z "$LONG" ] || tests=$("$BUILD/tests/conform" --list | awk '$2 == 2 { print $1 }')
for way in $ways $fabric_ways; do
    for t in $tests; do
        if MAD_PREFER=virtual on "$way" 3 "$BUILD/tests/conform" "$t" >"$dir/out" 2>&1; then
            ok "conform-$t-$way"
        else
            not_ok "conform-$t-$way (exit status $?)" "$(grep -v 'message: warning' "$dir/out" | tail -20)"
        fi
    done
done
if [ -n "$LONG" ] && [ -z "$ENCRYPT" ]; then
    sh "$0" encrypt || failures=1
fi
[ $failures = 0 ]

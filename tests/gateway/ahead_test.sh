#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Blocks that do not wait for a grant, through one gateway, three processes on this host (ways.sh; ahead.c prints the
# results).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"

. "$here/ways.sh"

# Fragments are long if all networks are tcp and none is declared slow.
case $ways in *tcp-tcp*) ;; *) echo "skipped: no IPv6 loopback here"; exit 77 ;; esac

# ahead NAME LINES ENVIRONMENT...: runs ahead.c, which must print LINES lines of "ok"
ahead() {
    name=$1 lines=$2
    shift 2
    (export "$@" && on tcp-tcp 3 "$BUILD/tests/ahead" "$name") >"$dir/out" 2>&1
    check "$name: ran" 0 $?
    check_lines "$name: all is so" "$lines" '^ok ' "$dir/out"
    check_lines "$name: nothing is not" 0 '^not ok ' "$dir/out"
}
# Each of the two ends reports two numbers: one about the lengths, and one about the rest.
ahead free 24 MAD_CREDIT_FLOOR=2M
ahead poor 22 MAD_CREDIT_FLOOR=64K MAD_CREDIT_BUDGET=0
[ $failures = 0 ]

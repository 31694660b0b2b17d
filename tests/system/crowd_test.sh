#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many more processes than cores, which all connect to each other at the same time: every message arrives, and a peer of
# short messages costs little memory.  BUILD=<build folder> crowd_test.sh
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
. "$here/../harness/checks.sh"

# crowd PROCESSES LENGTH KIB
crowd() {
    told=$(within 300 "$BUILD/madrun" -n "$1" "$BUILD/tests/crowd" "$2" 2>&1)
    status=$?
    kib=$(echo "$told" | sed -n 's/.* processes: [0-9.]* s, \([0-9]*\) KiB a peer$/\1/p')
    if [ $status = 0 ] && [ -n "$kib" ]; then
        ok "$1 processes, $2 bytes"
        echo "# $told"
    else
        not_ok "$1 processes, $2 bytes" "exit code $status" "$told"
    fi
    check "$1 processes, $2 bytes: at most $3 KiB a peer" 1 $((${kib:-$3 + 1} <= $3))
}

crowd 48 8 48
crowd 48 1000 64
[ $failures = 0 ]

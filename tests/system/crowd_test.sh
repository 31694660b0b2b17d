#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many more processes than cores, which all connect to each other at the same time: every message arrives, and a peer of
# short messages costs little memory.  BUILD=<build folder> crowd_test.sh
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
. "$here/../harness/checks.sh"

# crowd LENGTH KIB: checks an exchange of 48 processes; KIB: most memory of a process for each of its peers, besides 1 MiB
crowd() {
    told=$(within 300 "$BUILD/madrun" -n 48 "$BUILD/tests/across" all 2 "$1" 2>&1)
    status=$?
    hundredths=$(echo "$told" | sed -n 's/.*memory of a process: \([0-9]*\)\.\([0-9][0-9]\) MiB.*/\1\2/p')
    if [ $status = 0 ] && [ -n "$hundredths" ]; then
        ok "$1 bytes to all"
        echo "# $told"
    else
        not_ok "$1 bytes to all" "exit code $status" "$told"
    fi
    check "$1 bytes to all: at most $2 KiB a peer" 1 $((${hundredths:-99999} * 1024 <= (1024 + 47 * $2) * 100))
}

crowd 24 48
crowd 1000 64
[ $failures = 0 ]

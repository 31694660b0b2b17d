#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A program may open and close channels any number of times: BUILD=<build folder> channel_churn_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}

# churn DRIVER ROUNDS RANKS: runs it; rank 0 prints a line for each part
churn() {
    out=$(MAD_PREFER=$1 within 170 "$BUILD/madrun" -n "$3" "$BUILD/tests/channel_churn" "$2" 2>&1)
    rc=$?
    [ $rc -eq 0 ] && ok "$1: channels opened and closed $2 times" ||
        not_ok "$1: channels opened and closed $2 times (exit status $rc)" "$(echo "$out" | head -20)"
}

churn shm 200000 2
churn tcp 70000 2
churn self 70000 1
[ "$failures" = 0 ]

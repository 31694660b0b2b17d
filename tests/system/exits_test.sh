#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that exit without mad_exit, in the middle of handshakes, do not crash: BUILD=<build folder> exits_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}

for round in 1 2 3 4 5 6 7 8; do
    out=$(MAD_DRIVERS=self,tcp within 60 "$BUILD/madrun" --keep-going -n 12 "$BUILD/tests/exits" $round 2>&1)
    rc=$?
    check "exits, round $round: exit code" 7 $rc
    check "exits, round $round: nobody by a signal" "" "$(echo "$out" | grep signal)"
done
[ "$failures" = 0 ]

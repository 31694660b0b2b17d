#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packets that a driver holds leave even if the program makes no call: BUILD=<build folder> left_behind_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}

# All packets are delayed, so that the driver still holds them when their sender computes again.
for driver in shm tcp; do
    out=$(MAD_DRIVERS=fault MAD_FAULT=$driver MAD_FAULT_DELAY=100 MAD_FAULT_DELAY_US=20000 MAD_FAULT_SEED=1 \
        within 30 "$BUILD/madrun" -n 2 "$BUILD/tests/left_behind" 2>&1)
    rc=$?
    [ $rc -eq 0 ] && ok "$driver: what it holds leaves" ||
        not_ok "$driver: what it holds leaves (exit status $rc)" "$(echo "$out" | head -20)"
done
[ "$failures" = 0 ]

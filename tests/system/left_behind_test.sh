#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a driver holds leaves though nobody calls the library: BUILD=<build folder> left_behind_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}

# All packets are late, so that they are still there when their sender has gone on.
for driver in shm tcp; do
    out=$(MAD_DRIVERS=fault MAD_FAULT=$driver MAD_FAULT_DELAY=100 MAD_FAULT_DELAY_US=20000 MAD_FAULT_SEED=1 \
        within 30 "$BUILD/madrun" -n 2 "$BUILD/tests/left_behind" 2>&1)
    rc=$?
    [ $rc -eq 0 ] && ok "$driver: what it holds leaves" ||
        not_ok "$driver: what it holds leaves (exit status $rc)" "$(echo "$out" | head -20)"
done
[ "$failures" = 0 ]

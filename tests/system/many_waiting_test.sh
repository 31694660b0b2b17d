#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# 10,000 user-level threads wait for messages: BUILD=<build folder> many_waiting_test.sh [DRIVER...]
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP
. "$here/../harness/checks.sh"

[ $# -gt 0 ] || set -- self shm tcp
for driver; do
    launcher="$BUILD/madrun -n 2"
    [ "$driver" != self ] || launcher=
    # shellcheck disable=SC2086
    if within 170 env MAD_PREFER="$driver" $launcher "$BUILD/tests/many_waiting" >"$log" 2>&1; then
        ok "many-waiting-$driver"
    else
        not_ok "many-waiting-$driver" "$(tail -20 "$log")"
    fi
done
[ $failures = 0 ]

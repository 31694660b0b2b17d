#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Peers that are stopped before communication with them begins: BUILD=<build folder> stopped_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=$(cd "${BUILD:?}" && pwd)
dir=$(mktemp -d) || exit 1
chmod 700 "$dir"
trap 'rm -rf "$dir"' EXIT
for driver in shm tcp; do
    MAD_SHM_DIR=$dir MAD_DRIVERS=$driver within 120 "$BUILD/tests/stopped" >"$dir/out" 2>&1
    rc=$?
    [ $rc -eq 0 ] && ok "$driver" || not_ok "$driver (exit status $rc)" "$(head -20 "$dir/out")"
    check_has "$driver: it is logged" "is stopped (state T), by a signal; it is waited for until it goes on" "$dir/out"
done
[ "$failures" = 0 ]

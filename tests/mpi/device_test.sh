#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The matching device between two processes: in each mode of progress, over each network, and with the driver fault.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
export MAD_SHM_DIR="$dir/shm"
limit=150

# passes NAME MODE
passes() {
    within $limit "$BUILD/tests/device" "$2" >"$dir/out" 2>"$dir/err"
    rc=$?
    sed "s/^\(not ok\|ok\) /&$1: /" "$dir/out"
    if [ $rc = 0 ] && grep -q '^ok death' "$dir/out" && ! grep -q '^not ok' "$dir/out"; then
        ok "$1"
    else
        not_ok "$1: exit code $rc" "$(head -c 3000 "$dir/err")"
    fi
}
for mode in polled threaded handled; do
    passes "shm, $mode" $mode
    MAD_DRIVERS=self,tcp passes "tcp, $mode" $mode
done
for mode in polled handled; do
    MAD_DRIVERS=self,fault MAD_FAULT=shm passes "shm behind faults, $mode" $mode
    MAD_DRIVERS=self,fault MAD_FAULT=tcp passes "tcp behind faults, $mode" $mode
done
for drivers in self,shm self,tcp; do
    MAD_DRIVERS=$drivers within $limit "$BUILD/tests/device" keys >"$dir/out" 2>"$dir/err"
    check "$drivers, two keys: exit code" 0 $?
    check_has "$drivers, two keys: what needs the other fails" "ok keys" "$dir/out"
    check_has "$drivers, two keys: and the cause is said" "key" "$dir/err"
done
[ $failures = 0 ]

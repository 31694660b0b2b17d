#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fork in a process with a session: BUILD=<build folder> forks_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=$(cd "${BUILD:?}" && pwd)
dir=$(mktemp -d) || exit 1
chmod 700 "$dir"
trap 'rm -rf "$dir"' EXIT

# one DRIVER CASE
one() {
    mkdir -m 700 "$dir/shm"
    MAD_SHM_DIR=$dir/shm MAD_DRIVERS=$1,self within 150 "$BUILD/tests/forks" "$2" >"$dir/out" 2>&1
    rc=$?
    [ $rc -eq 0 ] && ok "$1 $2" || not_ok "$1 $2 (exit status $rc)" "$(head -20 "$dir/out")"
}
for driver in shm tcp; do
    for c in fork thread user-level twice exec vfork spawn; do
        one $driver $c
        rm -rf "$dir/shm"
    done
    [ $driver != shm ] || one shm clone
    rm -rf "$dir/shm"
    for c in uses own busy commands; do
        one $driver $c
        check "$driver $c: sockets that are left" 0 "$(ls "$dir/shm" | wc -l)"
        [ $c != uses ] || check_lines "$driver $c: logged once by each child" 3 "MAD_ERR_FORKED; let it open" "$dir/out"
        rm -rf "$dir/shm"
    done
done
[ "$failures" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fork in a process with a session: BUILD=<build folder> forks_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=$(cd "${BUILD:?}" && pwd)
dir=$(mktemp -d) || exit 1
chmod 700 "$dir"
trap 'rm -rf "$dir"' EXIT

# ---- In the code ------------------------------------------------------------------------------------------------

# plain FILES...: prints static mutexes that a child of fork would find locked for ever
plain() {
    grep -nE '^ *static +pthread_mutex_t ' "$@" /dev/null
}
cd "$here" || exit 1
# base/static_mutex.c and fork.c reset their own ones; the plugs for MPI libraries have no sessions in a child
# shellcheck disable=SC2046
check "static mutexes are those of base/static_mutex.h" "" "$(plain $(find src -name '*.c' ! -path 'src/tools/*' ! -path 'src/mpi/*' \
    ! -path src/base/static_mutex.c ! -path src/core/session/fork.c))"
echo 'static pthread_mutex_t m;' >"$dir/trial.c"
check "a plain static mutex is found" "$dir/trial.c:1:static pthread_mutex_t m;" "$(plain "$dir/trial.c")"

# ---- Of processes -----------------------------------------------------------------------------------------------

# one DRIVER CASE
one() {
    mkdir -m 700 "$dir/shm"
    MAD_SHM_DIR=$dir/shm MAD_DRIVERS=$1,self within 150 "$BUILD/tests/forks" "$2" >"$dir/out" 2>&1
    rc=$?
    [ $rc -eq 0 ] && ok "$1 $2" || not_ok "$1 $2 (exit status $rc)" "$(grep -v 'MAD_ERR_FORKED; let it' "$dir/out" | head -20)"
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

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The memory that a server keeps for clients that come and go: BUILD=<build folder> growth_test.sh
#   LONG=1: 100,000 clients over each driver (otherwise 2,000)
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=$(cd "${BUILD:?}" && pwd)
dir=$(mktemp -d) || exit 1
chmod 700 "$dir"
trap 'rm -rf "$dir"' EXIT
clients=${LONG:+100000}
seconds=${LONG:+3000}
echo 'networks = { x = { driver = "shm"; hosts = "a,g"; }; y = { driver = "tcp"; hosts = "g,b"; }; };' >"$dir/two.cfg"
for driver in shm tcp gateway; do
    by=
    if [ $driver = gateway ]; then
        export MAD_TOPOLOGY="$dir/two.cfg" MAD_TCP_INTERFACES=lo
        by=gateway
    fi
    MAD_SHM_DIR=$dir MAD_DRIVERS=$driver within "$((${seconds:-180} + 10))" "$BUILD/tests/growth" "${clients:-2000}" \
        "${seconds:-180}" $by >"$dir/out" 2>&1
    rc=$?
    [ $rc -eq 0 ] && ok "$driver: $(grep '^#' "$dir/out")" || not_ok "$driver (exit status $rc)" "$(head -20 "$dir/out")"
done
[ "$failures" = 0 ]

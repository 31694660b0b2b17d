#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Gateways die, hang, and leave under load: every message comes once, in order, and whole.  failover.c does it, with
# a -(tcp over IPv4 loopback)- g1, g2 -(tcp over IPv6 loopback)- b.  KILLS=N: so many times of each.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd) || exit 1
. "$here/../harness/checks.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
echo 'networks = { x = { driver = "tcp"; hosts = "a,g1,g2"; }; y = { driver = "tcp"; hosts = "g1,g2,b"; }; };' >"$dir/two"
echo 'networks = { x = { driver = "tcp"; hosts = "a,g1"; }; y = { driver = "tcp"; hosts = "g1,b"; }; };' >"$dir/one"

MAD_TOPOLOGY=$dir/two MAD_HOST=a "$BUILD/tests/world" listen >"$dir/out" 2>&1
if grep -q 'without libconfig\|not supported' "$dir/out"; then
    echo "skipped: this build cannot read topology files (package libconfig-dev)"
    exit 77
fi
if ! ip -6 addr show dev lo 2>/dev/null | grep -q '::1'; then
    echo "skipped: no IPv6 loopback here"
    exit 77
fi
export MAD_DRIVERS=self,tcp,virtual
for who in A:a:lo B:b:lo/6 G1:g1:lo,lo/6 G2:g2:lo,lo/6; do
    role=${who%%:*} rest=${who#*:}
    export "FAILOVER_MAD_HOST_$role=${rest%%:*}" "FAILOVER_MAD_TCP_INTERFACES_$role=${rest#*:}"
done

# run FILE MODE [N]
run() {
    MAD_TOPOLOGY=$dir/$1
    export MAD_TOPOLOGY
    shift
    within "${TIME:-100}" "$BUILD/tests/failover" "$@" >"$dir/out" 2>"$dir/err" || not_ok "failover $1 (exit status $?)"
    grep '^\(ok\|not ok\)' "$dir/out"
    if grep -q '^not ok' "$dir/out"; then
        failures=$((failures + 1))
        tail -20 "$dir/err" | sed 's/^/  /'
    fi
}

run two kill "${KILLS:-10}"
MAD_FORWARD_DETECT=500 run two stop "${KILLS:-4}"
run two leave "${KILLS:-4}"
run one back
MAD_FORWARD_DEADLINE=1500 run one one 10
[ $failures = 0 ]

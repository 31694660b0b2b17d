#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Gateways die, hang, and leave under load: every message arrives once, in order, and whole.  failover.c does it, with a
# -(tcp over IPv4 loopback)- g1, g2 -(tcp over IPv6 loopback)- b, and one more gateway on the longer path.  Each case
# runs a few times; KILLS=N: N times; LONG=1: a thousand kills, and hundreds of each other case.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
echo 'networks = { x = { driver = "tcp"; hosts = "a,g1,g2"; }; y = { driver = "tcp"; hosts = "g1,g2,b"; }; };' >"$dir/two"
echo 'networks = { x = { driver = "tcp"; hosts = "a,g1"; }; y = { driver = "tcp"; hosts = "g1,b"; }; };' >"$dir/one"
echo 'networks = { x = { driver = "tcp"; hosts = "a,g1"; }; y = { driver = "tcp"; hosts = "g1,g2,g3"; };
    z = { driver = "shm"; hosts = "g2,g3,b"; }; };' >"$dir/behind"

with_encryption "$dir/two" "$dir/one" "$dir/behind"
needs_topology "$dir/two" a
needs_loopback6
export MAD_DRIVERS=self,tcp,virtual
for who in A:a:lo B:b:lo/6 G1:g1:lo,lo/6 G2:g2:lo,lo/6; do
    role=${who%%:*} rest=${who#*:}
    export "FAILOVER_MAD_HOST_$role=${rest%%:*}" "FAILOVER_MAD_TCP_INTERFACES_$role=${rest#*:}"
done

# run FILE MODE [N [MS]]: runs failover.c in this mode
run() {
    MAD_TOPOLOGY=$dir/$1
    export MAD_TOPOLOGY
    shift
    # Only the long form shows the reports of progress.
    { within "${TIME:-$limit_s}" "$BUILD/tests/failover" "$@" 2>"$dir/err"; echo $? >"$dir/rc"; } | tee "$dir/out" |
        sed -n "$show"
    rc=$(cat "$dir/rc")
    [ "$rc" = 0 ] || not_ok "failover $1 (exit status $rc)"
    if [ "$rc" != 0 ] || grep -q '^not ok' "$dir/out"; then
        failures=$((failures + 1))
        tail -20 "$dir/err" | sed 's/^/  /'
    fi
}

kills=${KILLS:-10} hangs=${KILLS:-4} leaves=${KILLS:-4} limit_s=100 show='/^\(ok\|not ok\) /p'
if [ -n "$LONG" ]; then
    kills=${KILLS:-1000} hangs=${KILLS:-200} leaves=${KILLS:-200} limit_s=3600 show=p
fi
run two kill "$kills"
# bench/figures failover measures how long this takes.  Here the test checks only that a missing sign of life suffices,
# without a report of the kernel about the connection, which takes most of a minute.
MAD_FORWARD_DETECT=1000 run two stop "$hangs" 20000
run two leave "$leaves"
run one back
MAD_FORWARD_DEADLINE=1500 run one one 10
MAD_FORWARD_DETECT=500 MAD_FORWARD_DEADLINE=1500 run one mute 10
MAD_FORWARD_DETECT=2000 MAD_FORWARD_DEADLINE=3000 run one wait 20
MAD_FORWARD_DETECT=2000 run one pause 2000
MAD_FORWARD_DEADLINE=4000 run one still 5000
FAILOVER_MAD_DRIVERS_B=self,shm,virtual FAILOVER_MAD_TCP_INTERFACES_G2=lo/6 FAILOVER_MAD_TCP_INTERFACES_G3=lo/6
FAILOVER_MAD_DRIVERS_G2=self,tcp,shm,virtual FAILOVER_MAD_DRIVERS_G3=self,tcp,shm,virtual FAILOVER_MAD_HOST_G3=g3
export FAILOVER_MAD_DRIVERS_B FAILOVER_MAD_TCP_INTERFACES_G2 FAILOVER_MAD_TCP_INTERFACES_G3 FAILOVER_MAD_HOST_G3 \
    FAILOVER_MAD_DRIVERS_G2 FAILOVER_MAD_DRIVERS_G3
MAD_FORWARD_DETECT=500 run behind behind 500
[ $failures = 0 ]

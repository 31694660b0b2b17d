#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Gateways die, hang, and leave under load: every message arrives once, in order, and whole.  failover.c does it, with a
# -(tcp over IPv4 loopback)- g1, g2 -(tcp over IPv6 loopback)- b, and one more gateway on the longer path.
# Each case runs a few times; KILLS=N: N times; LONG=1: a thousand kills, and hundreds of each other case.
# MODES="kill one": these cases only.
# WAY=DRIVER-DRIVER: a -(the first driver)- g1, g2 -(the second driver)- b, instead of tcp-tcp.  eth needs the namespace of
# ethernet.sh; mpi is not possible, as this test starts processes at any time.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
way=${WAY:-tcp-tcp}
first=${way%-*} second=${way#*-}
echo "networks = { x = { driver = \"$first\"; hosts = \"a,g1,g2\"; }; y = { driver = \"$second\"; hosts = \"g1,g2,b\"; }; };" >"$dir/two"
echo "networks = { x = { driver = \"$first\"; hosts = \"a,g1\"; }; y = { driver = \"$second\"; hosts = \"g1,b\"; }; };" >"$dir/one"
echo 'networks = { x = { driver = "tcp"; hosts = "a,g1"; }; y = { driver = "tcp"; hosts = "g1,g2,g3"; };
    z = { driver = "shm"; hosts = "g2,g3,b"; }; };' >"$dir/behind"

with_encryption "$dir/two" "$dir/one" "$dir/behind"
needs_topology "$dir/two" a
lo=lo lo_b=lo failover=failover_modules
if [ $way = tcp-tcp ]; then
    needs_loopback6
    lo=lo,lo/6 lo_b=lo/6 failover=failover
fi
export MAD_OFI_PROVIDERS=tcp+rxm UCX_TLS=tcp MAD_MODULES="${MAD_MODULES-$BUILD/drivers/.libs}"
case $way in
*verbs*)
    soft_verbs_make || { echo "skipped: the driver verbs is not a module here"; exit 77; }
    export LD_LIBRARY_PATH="$dir/soft"
    ;;
esac
# role ROLE HOST DRIVERS INTERFACES PORT: sets the knobs of the processes of this role
role() {
    export "FAILOVER_MAD_HOST_$1=$2" "FAILOVER_MAD_DRIVERS_$1=self,$3,virtual" "FAILOVER_MAD_TCP_INTERFACES_$1=$4" \
        "FAILOVER_MAD_ETH_INTERFACES_$1=$5"
}
role A a "$first" lo port0
role B b "$second" $lo_b port1
role G1 g1 "$first,$second" $lo port2
role G2 g2 "$first,$second" $lo port3

# run FILE MODE [N [MS]]: runs failover.c in this mode, if $MODES has it or is not set
run() {
    case " ${MODES-$2} " in *" $2 "*) ;; *) return 0 ;; esac
    MAD_TOPOLOGY=$dir/$1
    export MAD_TOPOLOGY
    shift
    # Only the long form shows the reports of progress.
    { within "${TIME:-$limit_s}" "$BUILD/tests/$failover" "$@" 2>"$dir/err"; echo $? >"$dir/rc"; } | tee "$dir/out" |
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
case $way in
*ofi*) echo "# no stop over ofi: the adapter ends with a stopped peer from which it reads a block (madeleine-ofi(7))" ;;
*) MAD_FORWARD_DETECT=1000 run two stop "$hangs" 20000 ;;
esac
run two leave "$leaves"
run one back
MAD_FORWARD_DEADLINE=1500 run one one 10
MAD_FORWARD_DETECT=500 MAD_FORWARD_DEADLINE=1500 run one mute 10
MAD_FORWARD_DETECT=2000 MAD_FORWARD_DEADLINE=3000 run one wait 20
MAD_FORWARD_DETECT=2000 run one pause 2000
MAD_FORWARD_DEADLINE=4000 run one still 5000
[ $way = tcp-tcp ] || exit $((failures != 0)) # the other case has networks of its own
FAILOVER_MAD_DRIVERS_B=self,shm,virtual FAILOVER_MAD_TCP_INTERFACES_G2=lo/6 FAILOVER_MAD_TCP_INTERFACES_G3=lo/6
FAILOVER_MAD_DRIVERS_G2=self,tcp,shm,virtual FAILOVER_MAD_DRIVERS_G3=self,tcp,shm,virtual FAILOVER_MAD_HOST_G3=g3
export FAILOVER_MAD_DRIVERS_B FAILOVER_MAD_TCP_INTERFACES_G2 FAILOVER_MAD_TCP_INTERFACES_G3 FAILOVER_MAD_HOST_G3 \
    FAILOVER_MAD_DRIVERS_G2 FAILOVER_MAD_DRIVERS_G3
MAD_FORWARD_DETECT=500 run behind behind 500
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Paths whose hops use different drivers, of any two or three networks (ways.sh): the conformance suite through one gateway,
# and through two in a row; then failover_test.sh, where one of two gateways is killed, stopped, or ends in mid-stream.
# All processes are on this host, in a network namespace of their own (ethernet.sh).
# The short form runs some tests of the suite over two ways, and kills three gateways on each.
#   WAYS="ofi-ucx verbs-eth"      the whole suite, over these ways only
#   FAILOVERS="ofi-ucx"           all of failover_test.sh, over these ways only
#   LONG=1                        both, over all pairs, and the suite over three ways of three networks
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/ethernet.sh"
ethernet_enter "$0" "$@"
. "$here/start.sh"
. "$here/ways.sh"
within_s=300
[ -n "$ethernet" ] || echo "# no network namespace with a bridge here: eth is left out"

# usable DRIVER
usable() {
    case $1 in
    tcp | shm) ;;
    eth) [ -n "$ethernet" ] && [ -e "$MAD_MODULES/eth.so" ] ;;
    verbs) [ -e "$dir/soft/libibverbs.so.1" ] ;;
    mpi) case $fabric_ways in *mpi-*) ;; *) return 1 ;; esac ;;
    *) [ -e "$MAD_MODULES/$1.so" ] ;;
    esac
}
# usable_way WAY
usable_way() {
    for driver in $(echo "$1" | tr - ' '); do
        usable "$driver" || { echo "# $1 is left out: no driver $driver here"; return 1; }
    done
}

mixed_ways="ofi-tcp-ucx verbs-eth" failovers="ofi-ucx verbs-eth"
tests="modes_between blocks_many requests_many posted_mixed handlers_reply mismatch_late memory_both"
if [ -z "$LONG${WAYS+set}${FAILOVERS+set}" ]; then
    export MODES=kill KILLS=3
else
    tests=all
fi
if [ -n "$LONG" ]; then
    mixed_ways="ofi-ucx verbs-eth shm-ofi shm-ucx shm-eth shm-verbs eth-tcp eth-ofi eth-ucx verbs-ofi verbs-ucx mpi-ofi mpi-ucx mpi-eth
        mpi-verbs mpi-shm ofi-tcp-ucx shm-ofi-eth verbs-eth-mpi"
    failovers="ofi-ucx verbs-eth shm-ofi eth-tcp ofi-tcp ucx-tcp eth-ofi verbs-tcp"
fi
for way in ${WAYS-$mixed_ways}; do
    usable_way "$way" || continue
    way_file "$way"
    # An interface of ofi is only a part of the adapter's name.
    sed -i 's/driver = "ofi";/& interface = "lo";/' "$dir/$way.cfg"
    case $way in *-*-*) n=4 ;; *) n=3 ;; esac
    if MAD_PREFER=virtual on "$way" $n "$BUILD/tests/conform" ${TESTS:-$tests} >"$dir/out" 2>&1; then
        ok "conform-$way"
    else
        not_ok "conform-$way (exit status $?)" "$(grep -v 'message: warning' "$dir/out" | tail -20)"
    fi
done
for way in ${FAILOVERS-$failovers}; do
    usable_way "$way" || continue
    WAY=$way LONG='' KILLS=${KILLS:-${LONG:+20}} sh "$here/failover_test.sh" >"$dir/out" 2>&1
    rc=$?
    grep '^\(ok\|not ok\|#\|  \)' "$dir/out" | sed "s/ok /ok $way: /"
    [ $rc = 0 ] || not_ok "failover-$way (exit status $rc)"
done
[ $failures = 0 ]

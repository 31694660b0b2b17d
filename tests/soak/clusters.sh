#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Six clusters around one, so that three hops lead from each outer cluster to the next, through two gateways.  madrun starts
# 60 processes (LONG=1: 200) from a host on none of the networks, and each exchanges messages with all others.  Prints the
# times of the start and of the first round, and the memory of processes and gateways.  Then six clusters with two gateways
# each around a network of gateways: one of each two gateways is killed, and then the other, while all processes connect to
# all.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd) || exit 1
. "$here/../harness/checks.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
ranks=60 most=120
[ -z "$LONG" ] || ranks=200 most=400

{
    echo 'networks = { c0 = { driver = "tcp"; hosts = "c0h[0-1], gate[1-5]"; };'
    for c in 1 2 3 4 5; do echo "c$c = { driver = \"tcp\"; hosts = \"c${c}h[0-1], gate$c\"; };"; done
    echo '};'
} >star.conf
within 30 "$BUILD/madlab" run star.conf --quiet -- true >out 2>&1
rc=$?
if [ $rc -ne 0 ]; then
    echo "skipped: no lab here: $(tail -1 out)"
    exit 77
fi
# All processes connect to all others at the same time, on few cores, so a connection may wait for its turn.
export MAD_CONNECT_TIMEOUT=${most}000
within $((most + 20)) "$BUILD/madlab" run star.conf --quiet --share "$here/../.." --timeout $((most + 10)) -- sh -c '
    exec "$1" -v -n "$2" --topology star.conf --launch-agent "$MADLAB_AGENT" --timeout "$3" "$4" all 3' \
    job "$BUILD/madrun" $ranks $most "$BUILD/tests/across" >out 2>err
rc=$?
check "$ranks processes in six clusters: exit code" 0 $rc
[ $rc = 0 ] || grep -v '^madrun: rank [0-9]* is process' err | head -40
check_has "all have talked to all" "all-to-all: $ranks ranks, 3 rounds" out
check_lines "gateways: five, and all end well" 5 '^\[gateway gate[1-5]\] madgw: host gate[1-5]: drained, ends' err
sed -n 's/^\[0\] all-to-all: /# /p' out
sed -n 's/^\[gateway \(.*\)\] madgw: .*\(at most .*\)/# gateway \1: \2/p' err

{
    echo 'networks = { middle = { driver = "tcp"; hosts = "gate[1-6]a, gate[1-6]b"; };'
    for c in 1 2 3 4 5 6; do echo "c$c = { driver = \"tcp\"; hosts = \"c${c}h[0-1], gate${c}a, gate${c}b\"; };"; done
    echo '};'
} >pairs.conf
kills=
for c in 1 2 3 4 5 6; do kills="$kills --at 1.$c:kill:madgw@gate${c}a --at 2.$c:kill:madgw@gate${c}b"; done
export MAD_FORWARD_DEADLINE=$MAD_CONNECT_TIMEOUT
for round in 1 ${LONG:+2 3 4 5 6 7 8 9 10}; do
    # shellcheck disable=SC2086
    within $((most + 20)) "$BUILD/madlab" run pairs.conf --quiet --share "$here/../.." --timeout $((most + 10)) $kills -- sh -c '
        exec "$1" -n 60 --topology pairs.conf --launch-agent "$MADLAB_AGENT" --timeout "$2" "$3" all 2' \
        job "$BUILD/madrun" $most "$BUILD/tests/across" >out 2>err
    rc=$?
    check "gateways are killed while all call all, $round: exit code" 0 $rc
    [ $rc = 0 ] || grep -v 'core: warning' err out | head -40
    check_has "all have talked to all, $round" "all-to-all: 60 ranks, 2 rounds" out
done
[ $failures = 0 ]

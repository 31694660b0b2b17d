#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tcp driver in rare situations: ends with bytes in flight, long waits, many links, no free descriptors, a range of
# ports without a free one.
#   CALLERS=N processes that connect, send, and end (300; LONG=1: 2000)     LINKS=N   idle links (200)
# A cut link is in hosts_test.sh.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
dir=$(mktemp -d) || exit 1
jobs=
trap 'for j in $jobs; do kill "$j" 2>/dev/null; done; rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
load=$BUILD/tests/tcp_load
export MAD_DRIVERS=tcp MAD_TCP_INTERFACES=lo

# Each client ends as soon as its last message has left, with answers unread: none of its messages may be lost.
test_ends() {
    callers=${CALLERS:-${LONG:+2000}}
    callers=${callers:-300}
    within 600 "$load" hub ends "$callers" >hub 2>hub-err &
    jobs="$jobs $!"
    hub=$!
    wait_for test -s ends
    seq 0 $((callers - 1)) | within 600 xargs -P 8 -I ID "$load" call ends ID >calls 2>&1
    check "ends: the callers" 0 $?
    check "ends: they say nothing" "" "$(head -5 calls)"
    wait $hub
    check "ends: all was heard" 0 $?
    sed 's/^/# /' hub
}

# cost NAME FILE: checks that at most 2 % of a processor were used
cost() {
    ms=$(sed -n 's/.*: \([0-9]*\) ms of processor.*/\1/p' "$2")
    seconds=$(sed -n 's/.* \([0-9]*\) s: .*/\1/p' "$2")
    if [ -n "$ms" ] && [ "$ms" -le $((seconds * 20)) ]; then ok "$1"; else not_ok "$1" "$(cat "$2")"; fi
    sed 's/^/# /' "$2"
}

# idle HOW LINKS SECONDS [VARIABLE=VALUE]: connects that number of clients, with this variable, to a process that only
# waits; exit statuses in $waiter_code and $caller_code, output of the waiting process in ./waited and ./waited-err
idle() {
    mkfifo stay
    within 60 "$load" "$1" "$1" "$2" "$3" >waited 2>waited-err &
    waiter=$!
    jobs="$jobs $waiter"
    wait_for test -s "$1"
    within 60 ${4:+env "$4"} "$load" links "$1" "$2" <stay >links 2>&1 &
    caller=$!
    jobs="$jobs $caller"
    exec 4>stay
    wait $waiter
    waiter_code=$?
    exec 4>&-
    wait $caller
    caller_code=$?
    rm -f stay
}

test_links() {
    links=${LINKS:-200}
    idle wait "$links" 5
    check "$links links: a long wait" 0 $waiter_code
    check "$links links: the other side" 0 $caller_code
    cost "$links links: it costs no processor" waited
}

test_descriptors() {
    idle few 20 6 MAD_CONNECT_TIMEOUT=40000
    check "no descriptors: all are heard in the end" 0 $waiter_code
    check "no descriptors: the callers" 0 $caller_code
    cost "no descriptors: it does not spin" waited
    check_lines "no descriptors: said once" 1 'callers on lo are turned away: Too many open files; raise the limit' waited-err
}

# A range of one port, and two sessions: the second session reports the cause, and has no tcp.
test_ports() {
    port=$((20000 + $$ % 10000))
    MAD_TCP_PORTS=$port-$port within 60 "$load" wait port-a 0 3 >port-out 2>&1 &
    jobs="$jobs $!"
    waiter=$!
    wait_for test -s port-a
    MAD_TCP_PORTS=$port-$port within 60 "$load" wait port-b 0 0 >full 2>&1
    check_has "ports: a full range" "all ports of MAD_TCP_PORTS=$port-$port are in use on 127.0.0.1 (lo); widen" full
    wait $waiter
    check "ports: the first is not disturbed" 0 $?
    for bad in 7000-6999 0-5 70000 x 7000-; do
        MAD_TCP_PORTS=$bad within 60 "$load" wait port-c 0 0 >bad 2>&1
        check_has "ports: '$bad'" "MAD_TCP_PORTS: '$bad' is not a range of ports" bad
    done
}

for t in ${TESTS:-ends links descriptors ports}; do
    "test_$t"
done
[ $failures -eq 0 ]

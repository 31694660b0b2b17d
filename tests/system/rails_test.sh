#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rails: two networks between two hosts, each of a limited rate, used together.  Long blocks take both; a network that is
# cut loses nothing, and is used again when it is back.  BUILD: the folder with the built programs.
#   SECONDS_LOAD=N   seconds of the load under which networks are cut (12; LONG=1: 120)     SEED=N   of the schedule
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LAB_SOURCE=${LAB_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export BUILD LAB_SOURCE
. "$LAB_SOURCE/tests/lab/lab.sh"
command -v tc >/dev/null || { echo "skipped: no tc command (Debian package iproute2)"; exit 77; }
lab_start "$0" "$@"
. "$LAB_SOURCE/tests/harness/checks.sh"
load=$BUILD/tests/rails_load
block=67108864 # bytes

# run ARGUMENTS...: runs rails_load on the two hosts; exit status in $code, output in ./out and ./err
run() {
    within $limit "$BUILD/madrun" -n 2 --hosts one,two --launch-agent "$LAB/agent" --env MAD_PEER_TIMEOUT=3000 "$@" >out 2>err </dev/null
    code=$?
}
# begin ARGUMENTS...: like run, but in the background, until both ranks have begun; the job is $job.  A load whose last
# argument is $stop ends when `ended` is called, or after its seconds.
stop=$LAB/stop
begin() {
    rm -f out "$stop"
    run_in_background "$@"
    wait_for both_begun
}
run_in_background() {
    within $limit "$BUILD/madrun" -n 2 --hosts one,two --launch-agent "$LAB/agent" --env MAD_PEER_TIMEOUT=3000 "$@" >out 2>err </dev/null &
    job=$!
}
both_begun() { [ "$(grep -c begins out)" = 2 ]; }
ended() {
    : >"$stop"
    wait $job
    code=$?
}
# rate N RATE: gives network N of both hosts a rate, in both directions
rate() {
    for h in one two; do
        tc qdisc replace dev $h.$1 root tbf rate "$2" burst 256k latency 50ms || { echo "skipped: this kernel has no tbf"; exit 77; }
        lab_in $h tc qdisc replace dev eth$1 root tbf rate "$2" burst 256k latency 50ms
    done
}
cut() { ip link set "one.$1" nomaster; }
mend() { ip link set "one.$1" master "net$1"; }
# Wait until both networks have carried 4 MiB from now on: then both are rails.  The loss of the only rail is the loss of
# the peer.
both_carry() {
    for n in 0 1; do
        most=$(($(carried $n) + 4194304))
        wait_for has_carried $n $most || return
    done
}
carried() { tc -s qdisc show dev "one.$1" | sed -n 's/.*Sent \([0-9]*\) bytes.*/\1/p'; }
has_carried() { [ "$(carried "$1")" -gt "$2" ]; }
is_logged() { grep -q "is lost: " err; }
speed() { sed -n 's/.*stream: \([0-9]*\)\..* MB.s.*/\1/p' out; }
# rails N: the number of ranks whose explanation has N rails
rails() { grep -cE "explained: (.*rail [0-9]+[, ]){$1}" out; }

test_stream() {
    rate 0 400mbit
    rate 1 400mbit
    run --env MAD_RAILS=1 "$load" stream 5 $block
    check "one network: exit code" 0 $code
    one=$(speed)
    run "$load" stream 5 $block
    check "two rails: exit code" 0 $code
    two=$(speed)
    echo "# stream of 64 MiB blocks: $one MB/s over one network, $two MB/s over two"
    check "two rails: both are explained" 2 "$(rails 2)"
    # The ratio of the rates is a figure (bench/figures rails-1M).
    check "two rails: each carries 40 % of the bytes or more" 2 \
        "$(grep -o '[0-9]* % of the bytes sent of long blocks' out | awk '$1 >= 40' | wc -l)"
    rate 1 133mbit
    run "$load" stream 5 $block
    echo "# networks of 50 and 16.6 MB/s: $(speed) MB/s"
    check "unequal rails: exit code" 0 $code
    check "unequal rails: the quicker one carries 60 to 90 % of the bytes" 1 \
        "$(grep -o '[0-9]* % of the bytes sent of long blocks' out | awk '$1 >= 60 && $1 <= 90' | wc -l)"
}

# cut_and_mend N: cuts network N in the middle of a block, and mends it when the loss has been noticed; then waits until it
# is used again
cut_and_mend() {
    both_carry
    cut "$1"
    wait_for is_logged
    mend "$1"
    both_carry
}
# cut_one NAME N
cut_one() {
    rate 0 400mbit
    rate 1 400mbit
    begin "$load" load $limit $block "$stop"
    cut_and_mend "$2"
    ended
    check "$1: exit code" 0 $code
    check_lines "$1: nothing is lost" 2 'load: [0-9]+ messages .* each once, in order' out
    check_lines "$1: no event" 0 'event:' out
    check_has "$1: is logged" "is lost: " err
    check "$1: used again" 2 "$(rails 2)"
    sed 's/^/# /' out
}
test_cut() {
    cut_one "the second rail is cut" 1
    cut_one "the first rail is cut" 0
}

# Sealed networks: each rail is sealed by itself.
test_seal() {
    sealed=MAD_TCP_SECURITY=seal
    rate 0 400mbit
    rate 1 400mbit
    begin --env $sealed "$load" load $limit $block "$stop"
    cut_and_mend 1
    ended
    check "sealed rails: exit code" 0 $code
    check_lines "sealed rails: nothing is lost" 2 'load: [0-9]+ messages .* each once, in order' out
    check_lines "sealed rails: no event" 0 'event:' out
    check_has "sealed rails: the cut is logged" "is lost: " err
    check "sealed rails: used again" 2 "$(rails 2)"
    # One network is sealed, and the other one is not: the second one is no rail of the sealed one.
    run --env MAD_TCP_SECURITY=eth0=seal,eth1=auth "$load" load 2 $block
    check "a network that is protected less: exit code" 0 $code
    check "a network that is protected less: no rail of the sealed one" 0 "$(grep -cE 'explained: tcp on eth0 .*rail [0-9]+[, ].*rail [0-9]+[, ]' out)"
    sed 's/^/# /' out
}

# The driver fault disturbs each rail: packets wait, sends are refused, bodies are lent or not.
disturb() {
    run --env MAD_DRIVERS=self,fault --env MAD_FAULT=tcp --env MAD_FAULT_SEED="$1" --env "$2" "$load" load "$3" 4194304
    lost=$(grep -c 'is lost: ' err)
}
test_fault() {
    rate 0 400mbit
    rate 1 400mbit
    seed=${SEED:-$(($(date +%s) % 10000))}
    disturb "$seed" MAD_FAULT_CUT=0 5
    check "behind fault: exit code" 0 $code
    check "behind fault: two rails" 2 "$(rails 2)"
    check_lines "behind fault: nothing is lost" 2 'load: [0-9]+ messages .* each once, in order' out
    sed 's/^/# /' out
    # Rails are cut at random.  Only if the last rail is cut before another one is back, the peer is lost.
    survived=0
    for i in 1 2 3; do
        disturb $((seed + i)) MAD_FAULT_CUT_ONE_IN=5000 4
        echo "# seed $((seed + i)): exit code $code, $lost rails lost"
        if [ $code = 0 ] && [ "$(grep -cE 'load: [0-9]+ messages .* each once, in order' out)" = 2 ]; then
            survived=$((survived + (lost > 0)))
        elif [ $code -ge 124 ] || ! grep -qE 'the peer died or its connection was lost: cut by the driver fault' err ||
            grep -vE 'MAD_ERR_PEER, not MAD_OK' out err | grep -q 'rails_load.c:'; then
            not_ok "rails that are cut, seed $((seed + i))" "$(cat out)" "$(head -20 err)"
        fi
    done
    echo "# $survived jobs lost a rail and went on"
    [ $failures != 0 ] || ok "rails that are cut"
}

# A job with a topology file uses one network at a time, and says so.
test_topology() {
    cat >two.cfg <<'EOF'
networks = {
    first = { driver = "tcp"; hosts = ({ hosts = "one"; address = "10.77.1.1"; }, { hosts = "two"; address = "10.77.1.2"; }); };
    second = { driver = "tcp"; hosts = ({ hosts = "one"; address = "10.77.2.1"; }, { hosts = "two"; address = "10.77.2.2"; }); };
};
EOF
    run --env MAD_TOPOLOGY="$LAB/two.cfg" "$load" load 2 $block
    check "topology file: exit code" 0 $code
    check "topology file: no rails" 0 "$(rails 1)"
    check_lines "topology file: explained" 2 'comes first .*; in a job with a topology file one network is used at a time' out
    sed 's/^/# /' out
}

# Networks are cut and mended at random, never both at a time; and connections of the library are reset.
test_schedule() {
    seconds=${SECONDS_LOAD:-${LONG:+120}}
    seconds=${seconds:-12}
    seed=${SEED:-$(($(date +%s) % 10000))}
    echo "# seed $seed"
    rate 0 400mbit
    rate 1 400mbit
    limit=$((seconds + 60)) begin "$load" load $((seconds + 60)) 4194304 "$stop"
    end=$(($(now_ms) + seconds * 1000 - 4000))
    cuts=0
    while [ "$(now_ms)" -lt $end ]; do
        both_carry || break
        seed=$(((seed * 1103515245 + 12345) % 2147483648))
        n=$((seed / 65536 % 2))
        pause=$((seed / 131072 % 15 + 1))
        if [ $((seed / 4194304 % 3)) = 0 ]; then
            lab_in one ss -K dst 10.77.$((n + 1)).2 >/dev/null 2>&1
        else
            cut $n
            sleep "$((pause / 10)).$((pause % 10))"
            mend $n
        fi
        cuts=$((cuts + 1))
        sleep "1.$((pause % 10))"
    done
    ended
    check "schedule: exit code" 0 $code
    check_lines "schedule: nothing is lost" 2 'load: [0-9]+ messages .* each once, in order' out
    check_lines "schedule: no event" 0 'event:' out
    echo "# $cuts cuts; $(grep -c 'is lost: ' err) rails lost"
    sed 's/^/# /' out
    [ $code = 0 ] || head -20 err
}

for h in one two; do lab_host $h; done
lab_attach one net0=10.77.1.1/24 net1=10.77.2.1/24
lab_attach two net0=10.77.1.2/24 net1=10.77.2.2/24

for t in ${TESTS:-stream cut seal fault topology schedule}; do
    "test_$t"
done
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver eth when the kernel fails (eth_fault.c), and when the MTU is lowered: another driver serves where the start fails,
# what fails later is repeated or reported with its cause, and nothing hangs or is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/eth.so" ] || { echo "skipped: the driver eth is not a module here"; exit 77; }
grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { echo "skipped: sanitizers have to be loaded first"; exit 77; }
. "$here/../harness/veth.sh"
fault=$BUILD/tests/.libs/eth_fault.so

# falls FAULT TEXT: ping goes on over tcp, the log has the reason, and nothing is left
falls() {
    job --env LD_PRELOAD="$fault" --env FAULT_ETH="$1" --env FAULT_ETH_RANK=0 --env MAD_DRIVERS=self,eth,tcp --env MAD_PREFER=eth \
        "$BUILD/examples/ping"
    if [ $code = 0 ] && grep -q 'the number came back as 5' out && grep -qF -- "$2" out && grep -q 'eth_fault: [1-9][0-9]* faults' out &&
        ! grep -q 'eth_fault: .* [1-9][0-9]* left' out; then
        ok "$1: tcp serves"
    else
        not_ok "$1" "exit status $code, wanted: $2" "$(head -c 2000 out)"
    fi
}
# ---- The start: the handshakes' socket is the first one, the ring's the second one
for n in 1 2; do
    falls "socket $n 1 24" "no packet socket on va: Too many open files"
    falls "bind $n 1 19" "no packet socket on va: No such device"
    falls "setsockopt $n 1 12" "no packet socket on va: Cannot allocate memory"
    falls "epoll_ctl $n 1 28" "the packet sockets cannot be watched: No space left on device"
done
falls "socket 1 1 1" "needs the capability CAP_NET_RAW"
falls "setsockopt 3 1 22" "no ring of received frames (MAD_ETH_RING) on va: Invalid argument"
falls "setsockopt 4 1 12" "no ring of received frames (MAD_ETH_RING) on va: Cannot allocate memory"
falls "mmap 1 1 12" "no ring of received frames (MAD_ETH_RING) on va: Cannot allocate memory"

# ---- Later
# perf FAULT ARGUMENT...: blocks over eth alone, with the fault in rank 0
perf() {
    faults=$1
    shift
    job --env LD_PRELOAD="$fault" --env FAULT_ETH="$faults" --env FAULT_ETH_RANK=0 --env MAD_DRIVERS=self,eth --env MAD_PEER_TIMEOUT=3000 \
        --env MAD_CONNECT_TIMEOUT=3000 "$@" "$BUILD/mad_perf" pingpong --driver eth --sizes 8,64K,1M --iters 10 --batches 2
}
# goes_on FAULT: the job ends well
goes_on() {
    perf "$1"
    if [ $code = 0 ] && grep -q 'eth_fault: [1-9][0-9]* faults, 0 left' out; then
        ok "$1: goes on"
    else
        not_ok "$1" "exit status $code" "$(head -c 2000 out)"
    fi
}
# reports NAME TEXT: the job has ended by itself, with that text
reports() {
    if [ $code -gt 0 ] && [ $code -lt 124 ] && grep -qF -- "$2" out; then
        ok "$1: reports it"
    else
        not_ok "$1" "exit status $code, wanted: $2" "$(head -c 2000 out)"
    fi
}
goes_on "setsockopt 5 1 1" # the size of the send buffer
for error in 11 100 105 90 5; do
    goes_on "sendmsg 5 1 $error"
    goes_on "sendmsg 40 20 $error"
done
perf "sendmsg 1 0 5"
reports "no frame can be sent" "va: frames are not sent: Input/output error"
perf "sendmsg 60 0 5"
reports "no frame can be sent any more" "va: frames are not sent: Input/output error"

# ---- An MTU is lowered while a connection is in use
sent_is_above() { [ "$(cat /sys/class/net/va/statistics/tx_bytes)" -gt "$1" ]; }
# lowered NAME TEST TEXT COMMAND...: the command runs while blocks of this test of mad_perf pass, and the job reports the text
lowered() {
    name=$1 test=$2 text=$3
    shift 3
    mtu 9000
    before=$(cat /sys/class/net/va/statistics/tx_bytes)
    (
        job --env MAD_DRIVERS=self,eth --env MAD_PEER_TIMEOUT=3000 "$BUILD/mad_perf" "$test" --driver eth --sizes 1M --iters 100000 \
            --batches 2
        echo $code >code
    ) &
    one=$!
    wait_for sent_is_above $((before + 20000000))
    "$@"
    wait $one
    code=$(cat code)
    reports "$name" "$text"
}
lowered "the sender's MTU is lowered" bandwidth "the MTU of va was lowered to 1500 while a connection used frames of 9000 bytes" \
    ip link set va mtu 1500
lowered "the receiver's MTU is lowered" bandwidth "no segment was acknowledged for 3000 ms (MAD_PEER_TIMEOUT), though the peer" \
    ip -n b link set vb mtu 1500
[ $failures = 0 ]

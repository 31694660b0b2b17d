#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver eth over AF_XDP (MAD_ETH_RINGS=xdp): the conformance suite; several processes on one interface; the program goes
# with its process; what fails at the start leaves AF_PACKET, with the reason in mad_info.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/eth.so" ] || { echo "skipped: the driver eth is not a module here"; exit 77; }
. "$here/../harness/veth.sh"
info() { env MAD_DRIVERS=self,eth MAD_ETH_RINGS=xdp "$@" "$BUILD/mad_info" >out 2>&1; }
info
grep -q "eth va: frames come over AF_XDP" out ||
    { echo "skipped: AF_XDP is not permitted here: $(grep 'eth va' out)"; exit 77; }
ok "mad_info reports AF_XDP"
MAD_DRIVERS=self,eth "$BUILD/mad_info" >out 2>&1
check "AF_PACKET without the knob" 0 "$(grep -c "eth va:" out)"
info MAD_ETH_RINGS=both
check_has "an unknown value is reported" "MAD_ETH_RINGS is both: set packet or xdp" out

# passes NAME ARGUMENT...: a job over eth with AF_XDP ends with 0
passes() {
    name=$1
    shift
    job --env MAD_DRIVERS=self,eth --env MAD_ETH_RINGS=xdp "$@"
    if [ $code = 0 ]; then ok "$name"; else not_ok "$name: $code" "$(tail -12 out)"; fi
}
# programs: prints the number of programs on both interfaces
programs() { { ip -d link show va; ip -n b -d link show vb; } | grep -c 'prog/xdp'; }
no_program_left() { [ "$(programs)" = 0 ]; }
passes "conformance" "$BUILD/tests/conform" all
check "no program is left" 0 "$(programs)"
mtu 65535
passes "blocks where the MTU is longer than a chunk" "$BUILD/mad_perf" mixed --driver eth --iters 20 --batches 2
mtu 1500
passes "conformance with loss, repeated and reordered frames" --env LD_PRELOAD="$BUILD/tests/.libs/eth_lossy.so" \
    --env "ETH_LOSSY=30 10 30 10" "$BUILD/tests/conform" all
passes "blocks of mixed lengths, with few chunks" --env MAD_ETH_RING=256K "$BUILD/mad_perf" mixed --driver eth --iters 20 --batches 2
job --env MAD_DRIVERS=self,eth --env MAD_ETH_RINGS=xdp "$BUILD/mad_perf" idle --driver eth --sizes 8 --iters 1 --batches 1
busy=$(sed -n 's/.*"cpu_us_per_s": \([0-9]*\).*/\1/p' out)
if [ "${busy:-1000000}" -lt 200000 ]; then
    ok "a process that waits sleeps"
else
    not_ok "a process that waits uses ${busy:-?} us of a processor in a second" "$(tail -5 out)"
fi

# ---- Several processes on one interface: the second one has AF_PACKET
within 170 "$BUILD/madrun" --no-label -n 4 --bind none --hosts a:2,b:2 --launch-agent ./agent --env MAD_MODULES="$MAD_MODULES" \
    --env MAD_DRIVERS=self,eth,shm --env MAD_ETH_RINGS=xdp "$BUILD/tests/conform" all >out 2>&1 </dev/null
check "conformance of two processes on each interface" 0 $?
mkfifo hold
MAD_DRIVERS=self,eth MAD_ETH_RINGS=xdp "$BUILD/tests/world" serve address sixteen-bytes-key <hold >serve.out 2>&1 &
first=$!
exec 4>hold
one_program() { [ "$(programs)" = 1 ]; }
if wait_for one_program; then ok "one program is attached"; else not_ok "no program is attached" "$(cat serve.out)"; fi
info
check_has "a second process reports why it has AF_PACKET" \
    "eth va: frames come over AF_PACKET: another process has a program of XDP" out
kill -9 $first
wait $first 2>/dev/null
exec 4>&-
if wait_for no_program_left; then ok "the program goes with a process that is killed"; else not_ok "the program stays"; fi

# ---- Calls of the kernel that fail
grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { [ $failures = 0 ]; exit; }
# falls FAULT TEXT: mad_info reports AF_PACKET with the reason, and nothing is left
falls() {
    info LD_PRELOAD="$BUILD/tests/.libs/eth_fault.so" FAULT_ETH="$1"
    if grep -qF "eth va: frames come over AF_PACKET: $2" out && grep -q 'eth_fault: [1-9][0-9]* faults, 0 left' out; then
        ok "$1: AF_PACKET serves"
    else
        not_ok "$1" "wanted: $2" "$(head -c 2000 out)"
    fi
}
falls "bpf 1 1 1" "AF_XDP needs the capabilities CAP_BPF and CAP_NET_ADMIN"
falls "bpf 1 1 12" "no table of sockets: Cannot allocate memory"
falls "bpf 2 1 22" "the program was not loaded: Invalid argument"
falls "bpf 3 2 95" "the program was not attached: Operation not supported"
falls "bpf 4 1 7" "the socket was not bound: Argument list too long"
falls "socket 3 1 97" "no socket of AF_XDP: Address family not supported by protocol"
falls "bind 3 1 19" "the socket was not bound: No such device"
falls "bind 3 0 16" "another process has a program of XDP"
falls "mmap 2 1 12" "no queues of frames (MAD_ETH_RING): Cannot allocate memory"
falls "mmap 3 1 12" "no queues of frames (MAD_ETH_RING): Cannot allocate memory"
for n in 6 7 8 9; do
    falls "setsockopt $n 1 105" "no "
done
info LD_PRELOAD="$BUILD/tests/.libs/eth_fault.so" FAULT_ETH="bpf 3 1 95"
check_has "a card's driver that runs no programs" "eth va: frames come over AF_XDP" out
[ $failures = 0 ]

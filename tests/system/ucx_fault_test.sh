#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver ucx when UCX fails (ucx_fault.c): another driver serves where the start fails, what fails later is reported, and
# nothing hangs, crashes, or leaves an object of UCX open.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/ucx.so" ] || { echo "skipped: the driver ucx is not a module here"; exit 77; }
real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libucp\.so\.0 .*=> //p' | head -1)
[ -n "$real" ] || { echo "skipped: libucp.so.0 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir fault broken empty
cp "$BUILD/tests/.libs/ucx_fault.so" fault/libucp.so.0 || exit 1
echo "no library" >broken/libucp.so.0
cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
echo "int nothing = 1;" >nothing.c
$cc -shared -fPIC -o empty/libucp.so.0 nothing.c || exit 1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_PREFER=ucx UCX_TLS=tcp UCX_NET_DEVICES=lo REAL_UCX="$real" MAD_PEER_TIMEOUT=5000

# start FOLDER VARIABLE=VALUE...: ping with that libucp; tcp is there, too
start() {
    folder=$1
    shift
    within 30 env LD_LIBRARY_PATH="$work/$folder" MAD_DRIVERS=self,ucx,tcp "$@" "$BUILD/madrun" --no-label -n 2 \
        "$BUILD/examples/ping" >out 2>&1
    code=$?
}
# falls NAME TEXT: what start has run went on over tcp, and said why
falls() {
    if [ $code = 0 ] && grep -q 'the number came back as 5' out && grep -qF -- "$2" out && ! grep -q ' [1-9][0-9]* objects' out; then
        ok "$1"
    else
        not_ok "$1" "exit status $code, wanted: $2" "$(head -c 2000 out)"
    fi
}
# perf FAULT TEST [VARIABLE=VALUE...]: mad_perf over ucx alone, with the fault in rank 1
perf() {
    fault=$1 test=$2
    shift 2
    within 60 env LD_LIBRARY_PATH="$work/fault" MAD_DRIVERS=self,ucx FAULT_UCX="$fault" FAULT_UCX_RANK=1 "$@" "$BUILD/madrun" \
        --keep-going -n 2 "$BUILD/mad_perf" "$test" --driver ucx --sizes 8,1K,64K,1M --iters "${iterations:-20}" --batches 2 >out 2>&1
    code=$?
}
left_nothing() { ! grep -q 'ucx_fault: .* [1-9][0-9]* objects' out && [ "$(grep -c 'ucx_fault: .* 0 objects' out)" = 2 ]; }
# True if UCX has ended a process by an assertion of its own.
ucx_ended() { grep -Eq "[a-z_]+\.(c|inl):[0-9]+ +Assertion .* failed" out; }
struck() { grep -q 'ucx_fault: [1-9]' out; }
# bears FAULT TEST [VARIABLE=VALUE...]: the messages arrive all the same
bears() {
    perf "$@"
    if [ $code = 0 ] && struck && left_nothing; then ok "$1: bears it"; else not_ok "$1: exit status $code" "$(tail -n 12 out)"; fi
}
# survives FAULT TEST [VARIABLE=VALUE...]: like bears, but a worker may stay open, with an endpoint that UCX does not close
survives() {
    perf "$@"
    if [ $code = 0 ] && struck; then ok "$1, $4: survives it"; else not_ok "$1, $4: exit status $code" "$(tail -n 12 out)"; fi
}
# reports FAULT TEST TEXT [VARIABLE=VALUE...]: the processes end by themselves, and the text is in what they say
reports() {
    text=$3 first=$1 second=$2
    shift 3
    perf "$first" "$second" "$@"
    if [ $code -gt 0 ] && [ $code -lt 124 ] && struck && left_nothing && grep -qF -- "$text" out; then
        ok "$first: reports it"
    else
        not_ok "$first: exit status $code, wanted: $text" "$(tail -n 12 out)"
    fi
}

# ---- The start -------------------------------------------------------------------------------------------------------

start broken
falls "a library that cannot be opened" "libucp.so.0: file too short; install UCX"
start empty
falls "a library without the functions" "libucp.so.0 lacks ucp_get_version: install UCX"
start fault OLD_UCX=1
falls "an old library" "UCX is version 1.9: install UCX"
for call in config_read config_modify init worker_create get_address get_efd set_handler; do
    start fault FAULT_UCX="$call,1,0,-4"
    falls "$call fails" "Out of memory"
done
start fault FAULT_UCX=ep_create,1,0,-4
falls "no address is taken" "ucx_fault: 1 faults"
start fault UCX_TLS=nowhere
falls "a transport that is not there" "UCX cannot be opened"

# ---- Later -----------------------------------------------------------------------------------------------------------

perf none,1,0,0 pingpong
if [ $code = 0 ] && left_nothing; then ok "without faults nothing is left"; else not_ok "without faults" "$(tail -n 12 out)"; fi
bears send,20,200,-4 pingpong # no memory for a while
bears arm,1,0,-3 idle         # a process that waits polls
bears ep_close,1,0,-4 pingpong MAD_LOG=info
if grep -qF "UCX does not release an endpoint: Out of memory" out; then ok "ep_close: reports it"; else not_ok "ep_close" "$(tail -n 12 out)"; fi
# Frames of a stranger, HELLO and then PROOF, whose addresses are damaged, or other bytes.  The other process survives, and
# answers what is whole.
for tls in tcp posix,cma; do
    for frame in 1 2; do
        survives "damage,$frame,500,$frame" pingpong UCX_NET_DEVICES="$([ $tls = tcp ] && echo lo || echo all)" UCX_TLS=$tls
    done
done
for tls in tcp posix,cma; do
    net=$([ $tls = tcp ] && echo lo || echo all)
    reports send,20,0,-3 pingpong "UCX has lost the peer over device" UCX_TLS=$tls UCX_NET_DEVICES=$net
    reports recv,1,0,-3 pingpong "UCX has lost the peer over device" UCX_TLS=$tls UCX_NET_DEVICES=$net
    reports comp_send,1,0,-3 pingpong "UCX has lost the peer over device" UCX_TLS=$tls UCX_NET_DEVICES=$net
    reports comp_recv,1,0,-3 pingpong "UCX has lost the peer over device" UCX_TLS=$tls UCX_NET_DEVICES=$net
    # Without a failure this would send messages long after the call of UCX that fails.  Rank 1 ends while rank 0 connects to
    # it again, and then UCX 1.13 may end rank 0 (madeleine-ucx(7)).
    iterations=400
    before=$failures
    reports ep_error,2000,1,-25 pingpong "UCX has lost the peer over device" UCX_TLS=$tls UCX_NET_DEVICES=$net >report
    iterations=
    if [ $failures -gt "$before" ] && ucx_ended; then
        failures=$before
        echo "# ep_error over $tls: UCX has ended rank 0"
    else
        cat report
    fi
done
[ $failures = 0 ]

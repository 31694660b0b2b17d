#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver ofi when libfabric fails (ofi_fault.c): another driver serves where the start fails, what fails later is
# reported, and nothing hangs, crashes, or leaves an object of libfabric open.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/ofi.so" ] || { echo "skipped: the driver ofi is not a module here"; exit 77; }
real=$(ldconfig -p 2>/dev/null | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -1)
[ -n "$real" ] || { echo "skipped: libfabric.so.1 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir fault broken empty
cp "$BUILD/tests/.libs/ofi_fault.so" fault/libfabric.so.1 || exit 1
echo "no library" >broken/libfabric.so.1
cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
echo "int nothing = 1;" >nothing.c
$cc -shared -fPIC -o empty/libfabric.so.1 nothing.c || exit 1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_PREFER=ofi MAD_OFI_PROVIDERS=tcp+rxm OFI_REAL="$real" MAD_PEER_TIMEOUT=5000

# start FOLDER VARIABLE=VALUE...: ping with that libfabric; tcp is there, too
start() {
    folder=$1
    shift
    within 30 env LD_LIBRARY_PATH="$work/$folder" MAD_DRIVERS=self,ofi,tcp "$@" "$BUILD/madrun" --no-label -n 2 \
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
# perf FAULT TEST [VARIABLE=VALUE...]: mad_perf over ofi alone, with the fault in rank 1
perf() {
    fault=$1 test=$2
    shift 2
    within 60 env LD_LIBRARY_PATH="$work/fault" MAD_DRIVERS=self,ofi OFI_FAULT="$fault" OFI_FAULT_RANK=1 "$@" "$BUILD/madrun" \
        --keep-going -n 2 "$BUILD/mad_perf" "$test" --driver ofi --sizes 8,1K,64K,1M --iters 20 --batches 2 >out 2>&1
    code=$?
}
left_nothing() { ! grep -q 'ofi_fault: .* [1-9][0-9]* objects' out && [ "$(grep -c 'ofi_fault: .* 0 objects' out)" = 2 ]; }
struck() { grep -q 'ofi_fault: [1-9]' out; }
# bears FAULT: the messages arrive all the same
bears() {
    perf "$@"
    if [ $code = 0 ] && struck && left_nothing; then ok "$1: bears it"; else not_ok "$1: exit status $code" "$(tail -n 12 out)"; fi
}
# copies FAULT TEST [VARIABLE=VALUE...]: likewise, and one line of the log of this process says that blocks are copied
copies() {
    perf "$@"
    if [ $code = 0 ] && struck && left_nothing && ! grep -q 'without registration' out &&
        [ "$(grep -c 'the memory of a block cannot be registered: .* is copied' out)" = 1 ]; then
        ok "$1 ${3:+$3 }$2: blocks are copied"
    else
        not_ok "$1 ${3:+$3 }$2: exit status $code, wanted: blocks are copied, one line" "$(tail -n 12 out)"
    fi
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
falls "a library that cannot be opened" "libfabric.so.1: file too short; install libfabric"
start empty
falls "a library without the functions" "libfabric.so.1 lacks fi_getinfo: install libfabric"
start fault OFI_OLD=1
falls "an old library" "libfabric is older than 1.17"
for call in getinfo,1 fabric,1 domain,1 av_open,1 endpoint,1 bind,2 enable,1 getname,1; do
    start fault OFI_FAULT="$call,$([ $call = bind,2 ] && echo 1 || echo 0),12"
    falls "$call fails" "Cannot allocate memory"
done
start fault OFI_FAULT=dupinfo,1,0,12
falls "dupinfo fails" "Cannot allocate memory"
start fault OFI_FAULT=cq_open,1,0,12
falls "cq_open fails, with a descriptor and without" "a completion queue of tcp+rxm"
start fault OFI_FAULT=recv,1,0,12
falls "no receive buffer can be posted" "no receive buffer could be posted"
start fault OFI_FAULT=mr_reg,1,0,12 OFI_LOCAL=1
falls "no memory can be registered" "no receive buffer could be posted"
start fault OFI_FAULT=av_insert,1,0,12
falls "no address is taken" "ofi_fault: 2 faults"
start fault MAD_OFI_PROVIDERS=nowhere
falls "a provider that is not there" "libfabric offers no provider nowhere here"
start fault MAD_OFI_PROVIDERS=mad
falls "our own provider" "provider mad is this library itself"

# ---- Later -----------------------------------------------------------------------------------------------------------

perf none,1,0,0 pingpong
if [ $code = 0 ] && left_nothing; then ok "without faults nothing is left"; else not_ok "without faults" "$(tail -n 12 out)"; fi
for call in inject send read; do
    bears $call,20,2000,11 pingpong
done
bears cq_open,1,1,38 pingpong # polls by a timer
bears trywait,1,0,22 idle
bears getwait,1,1,38 idle # polls by a timer
# releases CALL WHAT: what libfabric does not release is logged, and all messages have arrived
releases() {
    bears "$1,1,1,16" pingpong
    if grep -qF "libfabric does not release $2: Device or resource busy" out; then ok "$1: reports it"; else not_ok "$1: reports it" "$(tail -n 12 out)"; fi
}
releases close_mr "registered memory"
releases close_ep "an endpoint"
releases close_av "an address vector"
releases close_cq "a completion queue"
releases close_domain "a domain"
releases close_fabric "a fabric"
releases av_remove "the address of a peer"
bears comp_send,1,1,89 pingpong
for call in inject send; do
    reports $call,20,0,5 pingpong "provider tcp;ofi_rxm has failed: Input/output error"
done
reports read,2,0,5 pingpong "could not read the body"
reports comp_recv,50,1,5 pingpong "a message was lost: Input/output error"
reports comp_send,1,0,5 pingpong "the fault of a test"
reports comp_read,1,1,5 pingpong "could not read the body"
reports cq_read,200,0,5 pingpong "the completion queue cannot be read: Input/output error"
reports readerr,1,0,5 pingpong "the completion queue cannot be read: Input/output error"

# ---- Memory that cannot be registered -----------------------------------------------------------------------------

for test in pingpong mixed; do
    copies mr_reg,1,0,12 $test
    copies mr_reg,3,5,11 $test
    copies mr_long,1,0,14 $test OFI_LOCAL=1
    copies mr_bind,1,0,12 $test
    copies mr_enable,1,0,12 $test
    copies mr_reg,76,0,12 $test OFI_LOCAL=1 # the driver's own memory is registered before that
    copies read_long,1,0,14 $test
    copies read_long,3,2,12 $test OFI_LOCAL=1
done
within 120 env LD_LIBRARY_PATH="$work/fault" MAD_DRIVERS=self,ofi OFI_FAULT=mr_long,1,0,14 OFI_LOCAL=1 "$BUILD/madrun" -n 2 \
    "$BUILD/tests/conform" all >out 2>&1
code=$?
if [ $code = 0 ] && left_nothing; then
    ok "the conformance suite where no memory of the program can be registered"
else
    not_ok "the conformance suite where no memory of the program can be registered: exit status $code" "$(tail -n 12 out)"
fi

# ---- Registered local memory -----------------------------------------------------------------------------------------

for test in pingpong mixed; do
    perf none,1,0,0 $test OFI_LOCAL=1
    if [ $code = 0 ] && left_nothing && ! grep -q 'without registration' out; then
        ok "$test with FI_MR_LOCAL: all memory is registered"
    else
        not_ok "$test with FI_MR_LOCAL: exit status $code" "$(tail -n 12 out)"
    fi
done
[ $failures = 0 ]

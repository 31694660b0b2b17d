#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver verbs over a device in software (soft_verbs.c): another driver serves where the start fails or a limit is reached.
# Blocks are copied where their memory cannot be registered.  The death of a peer is reported, and no object is left.
# Registrations of blocks are kept, and none outlives its memory.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/verbs.so" ] || { echo "skipped: the driver verbs is not a module here"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir soft broken
cp "$BUILD/tests/.libs/soft_verbs.so" soft/libibverbs.so.1 && ln -s libibverbs.so.1 soft/librdmacm.so.1 || exit 1
mkdir no_cm && cp soft/libibverbs.so.1 no_cm/ && echo "no library" >no_cm/librdmacm.so.1 || exit 1
echo "no library" >broken/libibverbs.so.1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_PREFER=verbs MAD_LOG=info

# start FOLDER VARIABLE=VALUE...: ping with that libibverbs; tcp is there, too
start() {
    folder=$1
    shift
    within 30 env LD_LIBRARY_PATH="$work/$folder" MAD_DRIVERS=self,verbs,tcp "$@" "$BUILD/madrun" --no-label -n 2 \
        "$BUILD/examples/ping" >out 2>&1
    code=$?
}
# went NAME DRIVER TEXT: what start has run went over that driver, and said why
went() {
    if [ $code = 0 ] && grep -q 'the number came back as 5' out && grep -q "$2 on .* is used" out && grep -qF -- "$3" out &&
        ! grep -q 'has left' out; then
        ok "$1"
    else
        not_ok "$1" "exit status $code, wanted: $2, $3" "$(head -c 2000 out)"
    fi
}
start soft
went "a device in software" verbs "roce:127.0.0.0/8"
start broken
went "a library that cannot be opened" tcp "libibverbs.so.1: file too short; install libibverbs"

# fails DRIVER CALL TEXT: that call fails, another driver serves where this one cannot, and the log has the text
fails() {
    start soft SOFT_VERBS_FAIL="$2"
    went "$2 fails: $3" "$1" "$3"
}
# Without the list of adapters: the calls of a start.
fails tcp get_device_list:1 "this host has no RDMA device"
fails tcp get_device_list:2 "RDMA devices cannot be listed: Cannot allocate memory"
fails verbs open_device:1 ""
fails tcp open_device:2 "device soft0 cannot be opened: Cannot allocate memory"
fails verbs query_device:1 ""
fails tcp query_device:2 "the limits of soft0:1 cannot be read: Cannot allocate memory"
fails verbs query_port:1 ""
fails tcp query_port:2 "the state of port soft0:1 cannot be read: Cannot allocate memory"
fails verbs query_gid:1 ""
fails tcp query_gid:2 "no GID of RoCE version 2 of soft0:1 is an IP address of this host"
fails tcp alloc_pd:1 "a protection domain of soft0:1: Cannot allocate memory"
fails tcp create_comp_channel:1 "a completion channel of soft0:1: Cannot allocate memory"
fails tcp create_cq:1 "a completion queue of soft0:1: Cannot allocate memory"
fails tcp create_srq:1 "a shared receive queue of soft0:1: Cannot allocate memory"
fails tcp reg_mr:1 "bytes cannot be registered with soft0:1: Cannot allocate memory"
# The calls of a connection: it is tried again, or made by tcp.
fails "[a-z]*" reg_mr:2 "bytes cannot be registered with soft0:1: Cannot allocate memory"
fails "[a-z]*" create_qp:1 "soft0:1 gives no queue pair: Cannot allocate memory"
fails "[a-z]*" modify_qp:1 "soft0:1 gives no queue pair: Cannot allocate memory"
fails "[a-z]*" modify_qp:2 "a queue pair of soft0:1 cannot be made ready to receive: Cannot allocate memory"
fails "[a-z]*" modify_qp:3 "a queue pair of soft0:1 cannot be made ready to send: Cannot allocate memory"

# The calls that release objects: the job ends well, and the log has what stays with the device.  (An acknowledgement returns
# nothing; the library counts those that are missing as objects that are left.)
released() {
    fails verbs "$1" "soft0:1: the device does not release $2: Device or resource busy"
}
released destroy_qp:1 "a queue pair"
released destroy_srq:1 "the shared receive queue"
released destroy_cq:1 "the completion queue"
released destroy_comp_channel:1 "the completion channel"
released dereg_mr:1 "the memory of a connection"
released dereg_mr:2 "memory of messages"
released dealloc_pd:1 "the protection domain"
fails verbs close_device:1 "" # of the list of adapters, which needs the device no more
released close_device:2 "its context"

# ---- rdma_cm: on RoCE by the knob, and on iWARP

# by_cm DRIVER CALL TEXT: like fails, but rdma_cm connects queue pairs
by_cm() {
    start soft MAD_VERBS_CM=yes ${2:+SOFT_VERBS_FAIL="$2"}
    went "MAD_VERBS_CM=yes${2:+, $2 fails}: $3" "$1" "$3"
}
by_cm verbs "" "roce:127.0.0.0/8"
start no_cm MAD_VERBS_CM=yes
went "librdmacm cannot be opened" tcp "librdmacm.so.1: file too short; install librdmacm"
start no_cm
went "without librdmacm, pairs are connected by GIDs" verbs "roce:127.0.0.0/8"
by_cm tcp cm_create_event_channel:1 "no event channel of rdma_cm for soft0:1: Cannot allocate memory"
by_cm tcp cm_create_id:1 "rdma_cm cannot listen for connections of soft0:1: Cannot allocate memory"
by_cm tcp cm_bind_addr:1 "rdma_cm cannot listen for connections of soft0:1: Cannot allocate memory"
by_cm tcp cm_listen:1 "rdma_cm cannot listen for connections of soft0:1: Cannot allocate memory"
# Those of a connection: it is tried again, or made by tcp.  One process of the two makes each of these calls.
by_cm "[a-z]*" cm_create_id:2 "a connection of soft0:1 by rdma_cm cannot be made: Cannot allocate memory"
by_cm "[a-z]*" cm_resolve_addr:1 "a connection of soft0:1 by rdma_cm cannot be made: Cannot allocate memory"
by_cm "[a-z]*" cm_address:1 "by rdma_cm: address not resolved: No such device"
by_cm "[a-z]*" cm_resolve_route:1 "no route to the other end: Cannot allocate memory"
by_cm "[a-z]*" cm_route:1 "by rdma_cm: route not resolved: Connection timed out"
by_cm "[a-z]*" cm_connect:1 "it cannot be requested: Cannot allocate memory"
by_cm "[a-z]*" cm_answer:1 "by rdma_cm: unreachable: Connection timed out"
by_cm "[a-z]*" cm_accept:1 "a request cannot be accepted: Cannot allocate memory"
by_cm "[a-z]*" cm_init_qp_attr:1 "its queue pair cannot be made ready to receive: Cannot allocate memory"
by_cm "[a-z]*" cm_init_qp_attr:2 "its queue pair cannot be made ready to send: Cannot allocate memory"
by_cm "[a-z]*" cm_establish:1 "it cannot be completed: Cannot allocate memory"
by_cm "[a-z]*" cm_get_cm_event:1 "the events of rdma_cm cannot be read: Cannot allocate memory"
by_cm verbs cm_destroy_id:1 "soft0:1: the device does not release an identifier of rdma_cm: Device or resource busy"
by_cm verbs cm_ack_cm_event:1 "roce:127.0.0.0/8"
start soft MAD_VERBS_CM=yes SOFT_VERBS_STRANGER=1
went "a request with another key is rejected" verbs "rejected a request of rdma_cm that no peer of this job sends"
start soft MAD_VERBS_CM=yes SOFT_VERBS_STRANGER=1 SOFT_VERBS_FAIL=cm_reject:1
went "the same if that fails" verbs "rejected a request of rdma_cm that no peer of this job sends"
# shellcheck disable=SC2016
within 30 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs,tcp "$BUILD/madrun" --no-label -n 2 \
    sh -c 'MAD_VERBS_CM=$PMI_RANK exec "$@"' sh "$BUILD/examples/ping" >out 2>&1
code=$?
went "one end alone connects by rdma_cm" tcp "only one end connects by rdma_cm: set MAD_VERBS_CM"
address=$(ip -o -4 address show scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
if [ -n "$address" ]; then
    start soft SOFT_VERBS_IWARP="$address"
    went "iWARP" verbs "iwarp:"
    start no_cm SOFT_VERBS_IWARP="$address"
    went "iWARP without librdmacm" tcp "librdmacm.so.1: file too short; install librdmacm"
    start soft SOFT_VERBS_IWARP="$address" SOFT_VERBS_FAIL=cm_bind_addr:2
    went "iWARP: the address is not found" tcp "no IP address of this host is one of soft0:1 by rdma_cm"
else
    echo "# no address but loopback here: iWARP is not tried"
fi

# ---- Of two devices, the one near the processors of the processes is used

if grep -q '^HWLOC_LIBS = .' "$BUILD/Makefile" && taskset -c 0,1 true 2>/dev/null && [ "$(nproc)" -ge 2 ]; then
    . "$here/../harness/two_nodes.sh"
    TYPE=3 two_nodes soft0 soft1 >two.xml
    for n in 0 1; do
        within 30 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs,tcp SOFT_VERBS_DEVICES=2 HWLOC_XMLFILE="$work/two.xml" \
            "$BUILD/madrun" --no-label --bind none -n 2 taskset -c $n "$BUILD/examples/ping" >out 2>&1
        code=$?
        went "two devices, on node $n" verbs "soft$n:1 (roce:127.0.0.0/8) is used"
    done
    start soft SOFT_VERBS_DEVICES=2
    went "two devices, on one node" verbs "soft0:1 (roce:127.0.0.0/8) is used"
else
    echo "# without hwloc, or with one processor, no device is near"
fi

# breaks CALL TEXT: that call fails in the middle of a job over verbs alone, which ends with that error, and leaves nothing
breaks() {
    within 60 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs MAD_EXIT_TIMEOUT=1000 SOFT_VERBS_FAIL="$1" \
        "$BUILD/madrun" -n 2 "$BUILD/mad_perf" pingpong --driver verbs --sizes 8,64K --iters 2000 --batches 20 >out 2>&1
    code=$?
    if [ $code != 0 ] && [ $code != 124 ] && grep -qF -- "$2" out && ! grep -q 'has left' out; then
        ok "$1 fails: $2"
    else
        not_ok "$1 fails" "exit status $code, wanted: $2" "$(head -c 2000 out)"
    fi
}
breaks post_send:500 "soft0:1 cannot send: Cannot allocate memory"
breaks post_srq_recv:20 "no receive can be posted: Cannot allocate memory"
breaks poll_cq:3000 "the completion queue cannot be read: Input/output error"
breaks req_notify_cq:1 "the completion queue cannot be armed: Cannot allocate memory"
breaks get_cq_event:1 "the completion channel cannot be read: Cannot allocate memory"
SOFT_VERBS_EVENT=18 breaks get_async_event:1 "the events of the device cannot be read: Cannot allocate memory"
SOFT_VERBS_EVENT=8 breaks none:1 "the device has failed: local catastrophic error"
breaks completion:300 "the queue pair of soft0:1 has failed: fatal error"

start soft SOFT_VERBS_PAIRS=-1
went "no queue pairs" tcp "gives no queue pair"
start soft SOFT_VERBS_MEMORY=600000
went "too little memory for a connection" tcp "raise the limit of locked memory"

# perf MEMORY TEST SIZES: mad_perf over verbs alone
perf() {
    within 60 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs SOFT_VERBS_MEMORY="$1" "$BUILD/madrun" -n 2 \
        "$BUILD/mad_perf" "$2" --driver verbs --sizes "$3" --iters 20 --batches 2 >out 2>&1
    code=$?
    if [ $code = 0 ] && ! grep -q 'has left' out; then ok "$2 of $3 with $1 bytes registered"; else not_ok "$2 with $1 bytes: $code" "$(tail -n 12 out)"; fi
}
perf 0 pingpong 8,16K,1M
perf 800000 pingpong 8,16K,1M # no block can be registered
perf 866000 bidirectional 60K # one can, of those that go both ways

# ---- Posts, each of which rings a device's doorbell, and copies

# count SIZE ITERATIONS: sets posts, sent, read and registered to what rank 0 has posted for that number of round trips
count() {
    within 60 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs SOFT_VERBS_COUNT=1 "$BUILD/madrun" -n 2 \
        "$BUILD/mad_perf" pingpong --driver verbs --sizes "$1" --iters "$2" --batches 2 >out 2>&1
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^\[0\] soft_verbs: \([0-9]*\) posts, \([0-9]*\) bytes sent, \([0-9]*\) bytes read, \([0-9]*\) registrations$/\1 \2 \3 \4/p' out) 0 0 0 0
    posts=$1 sent=$2 read=$3 registered=$4
}
count 8 100
before=$posts
count 8 1100
posts=$((posts - before)) # for 3000 round trips: one batch is not measured
if [ $posts -ge 3000 ] && [ $posts -le 3030 ]; then ok "a short message is one post"; else not_ok "3000 messages: $posts posts"; fi
count 1M 10
before_read=$read before_sent=$sent before_registered=$registered
count 1M 30
read=$((read - before_read)) sent=$((sent - before_sent)) # of 60 round trips
if [ $read = $((60 << 20)) ] && [ $sent -le $((60 * 2048)) ]; then
    ok "a block of 1 MiB is read, and not copied"
else
    not_ok "60 blocks of 1 MiB: $read bytes were read, $sent sent"
fi

# ---- Registrations

# kept: true if this process may learn what is unmapped
kept() {
    ! grep -q 'blocks are registered for each transfer' out
}
if ! kept; then
    echo "# userfaultfd is not permitted here: registrations are not kept"
elif [ "$registered" = "$before_registered" ]; then
    ok "a block that is sent again is not registered again"
else
    not_ok "20 more round trips of blocks: $((registered - before_registered)) registrations more"
fi
MAD_REGISTER_CACHE=0
export MAD_REGISTER_CACHE
count 1M 30
unset MAD_REGISTER_CACHE
if [ "$registered" -ge 120 ]; then ok "MAD_REGISTER_CACHE=0 keeps none"; else not_ok "without a cache: $registered registrations"; fi

# remap NAME VARIABLE=VALUE...: blocks in memory that comes and goes
remap() {
    name=$1
    shift
    within 60 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs MAD_REGISTER_CHECK=yes SOFT_VERBS_CHECK=1 "$@" \
        "$BUILD/madrun" -n 2 "$BUILD/tests/remap" >out 2>&1
    code=$?
    if [ $code = 0 ] && ! grep -qE 'has left|was replaced' out; then ok "$name"; else not_ok "$name: $code" "$(tail -n 12 out)"; fi
}
remap "blocks in memory that comes and goes"
remap "the same with a small cache" MAD_REGISTER_CACHE=256K

# ---- A peer that dies

env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs "$BUILD/madrun" --keep-going -n 2 sh -c 'echo $$ >"pid.$MAD_RANK.$$"
    exec "$@"' sh "$BUILD/mad_perf" pingpong --driver verbs --sizes 1M --iters 1000 --batches 100000 >out 2>&1 &
job=$!
limit=30
wait_for grep -q measuring out
set -- pid.*
kill -9 "$(cat "$2")"
wait $job
if grep -qE 'connection closed by peer|transport retry counter exceeded' out && grep -q 'was ended by signal 9' out; then
    ok "the death of a peer is reported"
else
    not_ok "the death of a peer is reported" "$(tail -n 12 out)"
fi
[ $failures = 0 ]

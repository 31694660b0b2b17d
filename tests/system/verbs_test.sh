#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver verbs over a device in software (soft_verbs.c): another driver serves where the start fails or a limit is reached.
# Blocks are copied where their memory cannot be registered.  The death of a peer is reported, and no object is left.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/verbs.so" ] || { echo "skipped: the driver verbs is not a module here"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir soft broken
cp "$BUILD/tests/.libs/soft_verbs.so" soft/libibverbs.so.1 || exit 1
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

# The calls that make objects, in their order: the first opens the device for the list of adapters.
n=2
for text in "device soft0 cannot be opened" "a protection domain of" "a completion channel of" "a completion queue of" \
    "a shared receive queue of" "cannot be registered with"; do
    start soft SOFT_VERBS_FAIL=$n
    went "call $n fails: $text" tcp "$text"
    n=$((n + 1))
done
# Those of a connection: it is tried again.
for text in "cannot be registered with" "gives no queue pair" "gives no queue pair" "cannot be made ready to receive" \
    "cannot be made ready to send"; do
    start soft SOFT_VERBS_FAIL=$n
    went "call $n fails: $text" "[a-z]*" "$text"
    n=$((n + 1))
done
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

# count SIZE ITERATIONS: sets posts, sent and read to what rank 0 has posted for that number of round trips
count() {
    within 60 env LD_LIBRARY_PATH="$work/soft" MAD_DRIVERS=self,verbs SOFT_VERBS_COUNT=1 "$BUILD/madrun" -n 2 \
        "$BUILD/mad_perf" pingpong --driver verbs --sizes "$1" --iters "$2" --batches 2 >out 2>&1
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^\[0\] soft_verbs: \([0-9]*\) posts, \([0-9]*\) bytes sent, \([0-9]*\) bytes read$/\1 \2 \3/p' out) 0 0 0
    posts=$1 sent=$2 read=$3
}
count 8 100
before=$posts
count 8 1100
posts=$((posts - before)) # for 3000 round trips: one batch is not measured
if [ $posts -ge 3000 ] && [ $posts -le 3030 ]; then ok "a short message is one post"; else not_ok "3000 messages: $posts posts"; fi
count 1M 10
before_read=$read before_sent=$sent
count 1M 30
read=$((read - before_read)) sent=$((sent - before_sent)) # of 60 round trips
if [ $read = $((60 << 20)) ] && [ $sent -le $((60 * 2048)) ]; then
    ok "a block of 1 MiB is read, and not copied"
else
    not_ok "60 blocks of 1 MiB: $read bytes were read, $sent sent"
fi

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

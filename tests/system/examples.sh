#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples run and print what they promise, over each driver that can carry them.
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"

# prints NAME EXPECTED COMMAND...: checks that all lines of EXPECTED are in the output, and that the exit status is 0
prints() {
    name=$1 expected=$2
    shift 2
    out=$(within 30 "$@" 2>&1)
    rc=$?
    missing=$(printf '%s\n' "$expected" | while IFS= read -r line; do
        printf '%s\n' "$out" | grep -qxF -- "$line" || printf '%s\n' "$line"
    done)
    if [ $rc -eq 0 ] && [ -z "$missing" ]; then
        ok "$name"
    else
        not_ok "$name: exit status $rc" "missing: $missing" "output: $out"
    fi
}

for driver in shm tcp; do
    export MAD_PREFER=$driver
    run="$BUILD/madrun --no-label -n"
    prints "ping over $driver" "the number came back as 5" $run 2 "$BUILD/examples/ping"
    text="a text over $driver"
    prints "string over $driver" "received $((${#text} + 1)) bytes: $text" $run 2 "$BUILD/examples/string" "$text"
    prints "modes over $driver" "SAFER/EXPRESS: 'at pack' when mad_unpack returns
CHEAPER/EXPRESS: 'at pack' when mad_unpack returns
LATER/EXPRESS: 'at the end' when mad_unpack returns
SAFER/EXPRESS: 'at pack' at the end
SAFER/CHEAPER: 'at pack' at the end
CHEAPER/EXPRESS: 'at pack' at the end
CHEAPER/CHEAPER: 'at pack' at the end
LATER/EXPRESS: 'at the end' at the end
LATER/CHEAPER: 'at the end' at the end" $run 2 "$BUILD/examples/modes"
    prints "gather over $driver" "column 1: 1 11 21 31
in t|wo pieces" $run 2 "$BUILD/examples/gather"
    prints "server over $driver" "served 3 clients, all numbers make 6135" $run 4 "$BUILD/examples/server"
    prints "memory over $driver" "4 ranks have written squares, with the sum 14" $run 4 "$BUILD/examples/memory"
    prints "message_threads over $driver" "200 requests of 2 clients, a thread for each" \
        $run 3 "$BUILD/examples/message_threads"
    prints "posted over $driver" "rank 0 has 2 of 2 blocks
rank 1 has 2 of 2 blocks
rank 2 has 2 of 2 blocks" $run 3 "$BUILD/examples/posted"
    prints "handler over $driver" "handled 4 short texts, parked 4 long ones, 4 of them complete" \
        $run 2 "$BUILD/examples/handler"
    prints "threads over $driver" "received 4000 messages by 4 threads, sum 6001998000" $run 2 "$BUILD/examples/threads"
    prints "dynamic over $driver" "the other said: good day to you too" "$BUILD/examples/dynamic"
done
prints "parallel" "the numbers below 100000 make 4999950000" "$BUILD/examples/parallel"
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Short runs of messages to oneself between user-level threads, some beside each other: BUILD=<build folder> short_test.sh
# Threads and handlers, the workers and the progress thread take turns in leading, and a wake-up that is lost ends a run
# for good.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

# run SEED: its log stays if it is not good
run() {
    timeout -k 5 60 "$BUILD/tests/soak/soak" --driver self --messages 4000 --threads 3 --user-level --seed "$1" --quiet \
        >"$logs/$1" 2>&1 && grep -q '^soak: good' "$logs/$1" && rm "$logs/$1"
}

round=0
while [ $round -lt 15 ]; do
    runs=
    for i in 1 2 3 4; do
        run $((261327 + 4 * round + i)) &
        runs="$runs $!"
    done
    # shellcheck disable=SC2086
    wait $runs
    round=$((round + 1))
done
bad=$(ls "$logs")
check "60 short runs end" "" "$bad"
for seed in $bad; do
    tail -5 "$logs/$seed"
done
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Short runs, several of them in parallel, in which user-level threads of one process send messages to each other:
# BUILD=<build folder> short_test.sh Threads and handlers, the workers and the progress thread lead by turns; after a
# lost wake-up a run never ends.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

# run SEED: keeps the log if the run fails
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

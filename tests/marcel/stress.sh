#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# All primitives of libmarcel under random graphs of threads: BUILD=<build folder> stress.sh
#   SECONDS_=N duration in seconds (5)
#   SEED=N seed, else chosen by the clock
#   LONG=1 for make soak: ten minutes, and ten more under ThreadSanitizer
here=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:?}
seconds=${SECONDS_:-${LONG:+600}}
seconds=${seconds:-5}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP
failed=0

# shellcheck disable=SC2086
if timeout -k 5 $((seconds + 120)) "$BUILD/tests/marcel/stress" --seconds "$seconds" ${SEED:+--seed $SEED} >"$log" 2>&1 &&
    grep -q '^stress: good' "$log"; then
    echo "ok stress: $(tail -1 "$log" | cut -d: -f3-)"
else
    tail -60 "$log"
    echo "not ok stress: $(head -1 "$log")"
    failed=1
fi

# The check itself is tested: it must find lost objects and stuck threads.
if timeout -k 5 100 "$BUILD/tests/marcel/stress" --seconds 5 --limit 5 --lose 20 >"$log" 2>&1; then
    echo "not ok stress: a lost token was not missed"
    failed=1
else
    grep -qE 'tokens at the end|thread .*: semaphore' "$log" && echo "ok stress: a lost token is missed" ||
        { tail -20 "$log"; echo "not ok stress: a lost token was called something else"; failed=1; }
fi
timeout -k 5 100 "$BUILD/tests/marcel/stress" --seconds 1 --limit 2 --stick >"$log" 2>&1
if [ $? -eq 134 ] && grep -q 'thread .*: what never comes' "$log"; then
    echo "ok stress: who is stuck is named"
else
    tail -20 "$log"
    echo "not ok stress: who is stuck was not named"
    failed=1
fi

[ -z "$LONG" ] || sh "$here/tests/sanitize.sh" stress || failed=1
exit $failed

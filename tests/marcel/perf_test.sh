#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# marcel_perf: each test prints what it promises; the measured times do not matter here.
perf=${BUILD:?}/marcel_perf
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM HUP
fail=0

"$perf" --help | sed -n 's/^  \([a-z_]*\) .*/\1/p' >"$work/tests"
[ "$(wc -l <"$work/tests")" -ge 7 ] || { echo "not ok marcel_perf --help"; fail=1; }
grep -v million "$work/tests" >"$work/short"
while read -r test; do
    case $test in
    memory) iters=1000 ;;
    forkjoin) iters=3 ;;
    *) iters=20 ;;
    esac
    line=$(timeout 60 "$perf" "$test" --json --batches 2 --iters $iters 2>&1 </dev/null)
    if echo "$line" | grep -qE "^\{\"test\": \"$test\", \"ns_best\": [0-9.]+, \"ns_median\": [0-9.]+, .*\}$"; then
        echo "ok marcel_perf $test"
    else
        echo "not ok marcel_perf $test: $line"
        fail=1
    fi
done <"$work/short"
"$perf" nonsense >/dev/null 2>&1
[ $? -eq 2 ] && echo "ok a test that is none" || { echo "not ok a test that is none"; fail=1; }
exit $fail

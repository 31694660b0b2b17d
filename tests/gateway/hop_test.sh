#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Messages through one gateway, three processes on this host (ways.sh): the gateway's counters, a killed gateway, and
# the timeline.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"

. "$here/ways.sh"

# The gateway's statistics after messages of many lengths, which hop.c prints.
for way in $ways; do
    on "$way" 3 "$BUILD/tests/hop" count >"$dir/out" 2>&1 || not_ok "hop-count-$way ran" "$(tail -20 "$dir/out")"
    grep '^\(ok\|not ok\)' "$dir/out" | sed "s/\$/-$way/"
    failures=$((failures + $(grep -c '^not ok' "$dir/out")))
    # A gateway copies a fragment at most once.  A fragment from a socket is copied only if it is short and its next
    # link is busy; one in shared memory, only if too much of that memory is lent already.
    on "$way" 3 "$BUILD/tests/hop" copies >"$dir/out" 2>&1
    for direction in there back; do
        from=${way%-*} to=${way#*-} line=$(sed -n "s/^copies $direction //p" "$dir/out")
        [ $direction = there ] || from=${way#*-} to=${way%-*}
        copies=${line% *} fragments=${line#* }
        most=$((fragments))
        [ "$from" = shm ] || most=$((fragments / 10))
        if [ -n "$line" ] && [ "$copies" -le "$most" ]; then
            ok "$way, $direction: $copies of $fragments long fragments from $from to $to are copied"
        else
            not_ok "$way, $direction: copies from $from to $to" "$(cat "$dir/out")"
        fi
    done
    on "$way" 3 "$BUILD/tests/hop" alone >"$dir/out" 2>&1
    check_lines "while an end waits in the library no other thread of it wakes, $way" 2 '^ok a thread that waits' "$dir/out"
    MAD_FORWARD_DEADLINE=2000 opt=--keep-going on "$way" 3 "$BUILD/tests/hop" kill >"$dir/out" 2>&1
    check_lines "both ends learn of a killed gateway, $way" 2 '^ok killed' "$dir/out"
done

# hold WAY COMMAND...: runs the command with the numbers of all three processes while they run, for instance mad_info.
all_ready() { [ "$(grep -c '^ready ' "$dir/out")" = 3 ] || ! kill -0 $job 2>/dev/null; }
hold() {
    held=$1
    shift
    rm -f "$dir/go" "$dir/report"
    : >"$dir/out" # here, and not when the job has begun: what the last one has said would be taken for this one's
    on "$held" 3 "$BUILD/tests/hop" hold "$dir/go" >"$dir/out" 2>"$dir/err" &
    job=$!
    wait_for all_ready
    pids=$(sort -k 2n "$dir/out" | sed -n 's/^ready [0-9]* //p')
    # shellcheck disable=SC2086
    [ "$(echo "$pids" | wc -w)" = 3 ] && within $limit "$@" $pids >"$dir/report" 2>&1
    rc=$?
    : >"$dir/go"
    wait $job
    check "held and looked at, $held" "0 0" "$rc $?"
    [ $rc = 0 ] || cat "$dir/report" "$dir/err"
    grep '^\(ok\|not ok\)' "$dir/report" | sed "s/\$/, $held/"
    failures=$((failures + $(grep -c '^not ok' "$dir/report")))
}
if command -v python3 >/dev/null; then
    for way in $ways; do
        MAD_PREFER=virtual hold "$way" python3 "$here/look.py" "$BUILD/mad_info"
    done
    # The timeline of one long message.
    for way in $ways; do
        MAD_PREFER=virtual MAD_TRACE=$dir/$way on "$way" 3 "$BUILD/tests/hop" long >"$dir/out" 2>&1
        check "traced, $way" 0 $?
        "$BUILD/mad_info" trace merge "$dir/$way".*.json --output "$dir/$way.all"
        check "merged, $way" 0 $?
        python3 "$here/trace.py" "$dir/$way".*.json "$dir/$way.all" >"$dir/report" 2>&1 || not_ok "looked at, $way" "$(cat "$dir/report")"
        grep '^\(ok\|not ok\|#\)' "$dir/report" | sed "s/\$/, $way/"
        failures=$((failures + $(grep -c '^not ok' "$dir/report")))
        "$BUILD/mad_info" trace merge "$dir/$way.all" --svg "$dir/$way.svg"
        check "drawn, $way" 0 $?
        "$BUILD/mad_info" trace merge "$dir/$way".*.json --span 100-2000000 --svg "$dir/$way.part.svg"
        check "a part drawn, $way" 0 $?
        python3 "$here/timeline.py" "$dir/$way.svg" >"$dir/report" 2>&1 || not_ok "the picture, $way" "$(cat "$dir/report")"
        python3 "$here/timeline.py" "$dir/$way.part.svg" part >>"$dir/report" 2>&1 ||
            not_ok "a part, $way" "$(cat "$dir/report")"
        grep '^\(ok\|not ok\)' "$dir/report" | sed "s/\$/, $way/"
        failures=$((failures + $(grep -c '^not ok' "$dir/report")))
    done
fi
[ $failures = 0 ]

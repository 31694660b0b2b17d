#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_info stats of a process with user-level threads: the report has the numbers that the process itself counted, and
# is the same as text, as JSON and for Prometheus.  BUILD: the folder with the built programs.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
counted=
trap '[ -z "$counted" ] || kill -KILL "$counted" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
cd "$dir" || exit 1
export LC_ALL=C

mkfifo in out
MAD_WORKERS=2 MAD_WORKERS_BIND=0 within 120 "$BUILD/tests/counted" <in >out 2>err &
counted=$!
exec 3>in 4<out
read -r ready pid created ended yields left <&4
[ "$ready" = ready ] || { not_ok "starts" "$(cat err)"; exit 1; }

stats() { within $limit "$BUILD/mad_info" stats "$pid" "$@"; }

# true_of NAME EXPRESSION: checks the report as JSON; m is "marcel", w is "waiting", k its categories by name
true_of() {
    python3 -c '
import json, sys
s = json.load(open("json"))["processes"][0]["sessions"][0]
m, w = s["marcel"], s["waiting"]
k = {c["category"]: c for c in w["categories"]}
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$2" 2>why
    if [ $? = 0 ]; then ok "$1"; else not_ok "$1" "not true: $2" "$(cat why json)"; fi
}

# Wait until the last thread waits, and the workers sleep: from then on these numbers stay the same.
at_rest() {
    stats --json >json && python3 -c '
import json, sys
s = json.load(open("json"))["processes"][0]["sessions"][0]
sys.exit(s["waiting"]["user_level_threads"] != 1 or s["marcel"]["ended"] != int(sys.argv[1]))' "$ended"
}
if wait_for at_rest; then ok "json"; else not_ok "json" "$(cat json err)"; fi
true_of "workers" 'm["workers"] == 2'
true_of "created and ended" "m['created'] == $created and m['ended'] == $ended"
true_of "switches" "$yields / 2 < m['switches'] < $yields * 2"
true_of "steals" "$left <= m['steals'] <= $created"
true_of "idle" 'm["idles"] >= 1'
true_of "sleeps" 'w["sleeps"] + w["wakes"] >= 1'
true_of "categories" '"a session" in k and all(0 <= c["hits"] <= c["polls"] for c in k.values())'
true_of "their sums" 'w["polls"] == sum(c["polls"] for c in k.values()) and w["hits"] == sum(c["hits"] for c in k.values())'
true_of "a session was polled" 'k["a session"]["polls"] >= 1'

# Counts that change during the query (polls, hits, sleeps, idles) are in all three reports; all others are equal in
# them.
number() { python3 -c 'import json; print(json.load(open("json"))["processes"][0]["sessions"][0]["marcel"]["'"$1"'"])'; }
stats >text
n='[0-9]*'
moves="$(number switches) switches, $(number steals) steals, $n times idle, $(number retaken) retaken"
check_lines "text" 1 "user-level threads: 2 workers; $created created, $ended ended, $moves" text
check_lines "text: waiting" 1 "waiting: $n threads; slept $n times, woken $n, polled $n, found something $n" text
stats --prometheus >prometheus
for name in workers created ended switches steals retaken; do
    [ $name = workers ] && total='' || total=_total
    check_lines "prometheus: $name" 1 "^madeleine_marcel_$name$total{pid=\"$pid\"[^}]*} $(number $name)\$" prometheus
done
for name in marcel_idles wait_sleeps wait_wakes wait_polls wait_hits; do
    check_lines "prometheus: $name" 1 "^madeleine_${name}_total{pid=\"$pid\"[^}]*} [0-9]*\$" prometheus
done

exec 3>&-
wait "$counted"
check "ends" 0 $?
counted=
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_info topology --live reports and draws the traffic of a topology, while a program sends long messages through a
# gateway: three processes on this host, live-a -(xnet: shared memory)- live-g -(ynet: tcp)- live-b.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
cd "$dir" || exit 1
export LC_ALL=C

cat >live.cfg <<'END'
networks = { xnet = { driver = "shm"; hosts = "live-a, live-g"; }; ynet = { driver = "tcp"; hosts = "live-g, live-b"; }; };
END
cat >as <<'END'
case $PMI_RANK in
0) MAD_HOST=live-a MAD_DRIVERS=self,shm,virtual ;;
1) MAD_HOST=live-b MAD_DRIVERS=self,tcp,virtual ;;
*) MAD_HOST=live-g MAD_DRIVERS=self,shm,tcp,virtual ;;
esac
export MAD_HOST MAD_DRIVERS
exec "$@"
END
needs_topology "$dir/live.cfg" live-a
# live ARGS: runs mad_info topology --live, with its output in ./out
live() { within $limit "$BUILD/mad_info" topology live.cfg "$@" >out 2>err; }
# report_check: checks the lines that live.py has printed
report_check() {
    grep '^\(ok\|not ok\) ' report
    failures=$((failures + $(grep -c '^not ok ' report)))
}
# host_pid HOST: prints the number of the process on this host
host_pid() {
    "$BUILD/mad_info" stats all --json 2>/dev/null | python3 -c '
import json, sys
for p in json.load(sys.stdin)["processes"]:
    if any(s["host"] == sys.argv[1] for s in p.get("sessions", [])): print(p["pid"])' "$1"
}

# Nothing runs.
live --live 0.01 --svg none.svg
check "nobody: exit code" 0 $?
check_has "nobody: is said" "no process of this topology was found on this machine" err
check_has "nobody: in the picture" "no process of this topology was found on this machine" none.svg
live --live 0.01
check_has "nobody: in the text" "live: no process of this topology was found" out
live --live 0.01 --json
check_has "nobody: in JSON" '"any": false' out
live --live 0
check "no time: exit code" 2 $?

# A stream moves.  The sender may have more in flight than the sockets hold, so that the gateway holds some of it when
# nobody receives.
MAD_FORWARD_WINDOW=64M
export MAD_FORWARD_WINDOW
MAD_TOPOLOGY=$dir/live.cfg timeout -k 5 300 "$BUILD/madrun" --no-label -n 3 sh ./as "$BUILD/mad_perf" streams --pairs 1 \
    --ms 290000 --sizes 128M >job 2>&1 &
job=$!
trap 'kill -CONT $b 2>/dev/null; kill -TERM $job; wait $job; rm -rf "$dir"' EXIT
b=
pids_known() { a=$(host_pid live-a) b=$(host_pid live-b) g=$(host_pid live-g) && [ -n "$a" ] && [ -n "$b" ] && [ -n "$g" ]; }
# Wait for the end of the round trip by which mad_perf checks the connection: afterwards messages go one way, without a
# pause.
passing() {
    "$BUILD/mad_info" stats "$a" --json 2>/dev/null | python3 -c '
import json, sys
for s in json.load(sys.stdin)["processes"][0]["sessions"]: sys.exit(max(r["bytes_sent"] for r in s["traffic"]) < 3e8)'
}
wait_for pids_known && wait_for passing || { not_ok "a program runs" "$(cat job out err)"; exit 1; }
live --live 0.5 --json
python3 "$here/live.py" moving out >report 2>&1 || not_ok "moving" "$(cat report)"
report_check
live --live 0.3 --svg live.svg
check "drawn: exit code" 0 $?
python3 "$here/live.py" picture live.svg >report 2>&1 || not_ok "picture" "$(cat report)"
report_check
live --live 0.3 --dot
check "dot: as many braces open as close" "$(tr -dc '{' <out | wc -c)" "$(tr -dc '}' <out | wc -c)"
check_lines "dot: lines with loads" 4 '^h[0-9]+ -- n[0-9]+ .*out .*in .*penwidth=' out
if command -v dot >/dev/null; then
    dot -Tsvg <out >drawn 2>dot.err && ok "dot: Graphviz draws it" || not_ok "dot: Graphviz" "$(cat dot.err)"
fi
live --live 0.3
check_lines "text: the gateway" 1 '^  live-g .*1 process; passes [0-9.]+ .?B/s, ' out
check_lines "text: by network" 4 '^  live-[abg] +[xy]net ' out
check "no option of the others" 0 "$("$BUILD/mad_info" topology live.cfg | grep -c live:)"

# Another job, on a host that the file does not name: that it does not answer is no error.
MAD_HOST=live-other timeout -k 5 60 "$BUILD/madrun" --no-label -n 2 "$BUILD/tests/hop" hold "$dir/go" >other 2>&1 &
other=$!
other_ready() { [ "$(grep -c '^ready ' other)" = 2 ]; }
wait_for other_ready || not_ok "another job runs" "$(cat other)"
held=$(sed -n 's/^ready 0 //p' other)
kill -STOP "$held"
live --live 0.1 --timeout 1
kill -CONT "$held"
check "another job's process is stopped: nothing of this one does not answer" 0 "$(grep -c 'did not answer' out)"
check_has "another job's process is stopped: is reported as one of others" "on hosts that the file does not name" out
: >go
wait $other

# The receiver is stopped: its host is marked, and the gateway holds what it cannot forward.
kill -STOP "$b"
live --live 0.1 --timeout 1
check_lines "stopped: is said" 1 '^  live-b +1 silent$' out
check_has "stopped: in the title" "; 1 did not answer" out
# still: waits until nothing moves any more
still() {
    mv now before 2>/dev/null
    "$BUILD/mad_info" stats "$g" --json >all 2>/dev/null || return 1
    sed 's/"clock_ns": [0-9]*//; s/"waiting": .*"marcel"//' all >now
    cmp -s now before
}
# The process was stopped in the middle of a message, and not at a place where the sockets hold the rest.
held() {
    kill -STOP "$b"
    wait_for still && ! grep -q '"fragments_held": 0,' now && return
    kill -CONT "$b"
    return 1
}
if wait_for held; then
    python3 "$here/live.py" balance all >report 2>&1 || not_ok "balance" "$(cat report)"
    report_check
else
    not_ok "the gateway holds something" "$(cat all)"
fi
kill -CONT "$b"
# A process that does not answer delays no other answer, whether it was queried before or after that process.
for p in "$a" "$g" "$b"; do
    kill -STOP "$p"
    "$BUILD/mad_info" stats all --json --timeout 1 >all 2>/dev/null
    check "one is stopped: the others answer" "2 1" "$(python3 -c '
import json, sys
of = [p for p in json.load(open("all"))["processes"] if str(p["pid"]) in sys.argv[1:]]
print(sum("sessions" in p for p in of), sum("is stopped" in p.get("error", "") for p in of))' "$a" "$b" "$g")"
    kill -CONT "$p"
done
[ $failures = 0 ]

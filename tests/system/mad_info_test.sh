#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_info on live and dead processes, and in faulty environments made on purpose.  BUILD: the folder with the built
# programs.  Prints "ok NAME" or "not ok NAME".  The script waits for events, always with a limit.

BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
export BUILD
sockets=/tmp/madeleine-$(id -u)
# If permitted, the sockets' directory is one of our own, because other jobs of this user come and go.
if [ -z "$PRIVATE_SOCKETS" ] && unshare -m true 2>/dev/null; then
    mkdir -p -m 700 "$sockets"
    PRIVATE_SOCKETS=1 exec unshare -m sh -c 'mount -t tmpfs -o mode=700 none "$1"; exec sh "$2"' sh "$sockets" "$0"
fi
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"
madrun=$BUILD/madrun
info=$BUILD/mad_info
client=$BUILD/tests/info_client
top=$(cd "$(dirname "$0")/../.." && pwd)
python=python3 # one with the parser of Prometheus, if there is one
/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null && python=/usr/bin/python3
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
started=
trap 'for p in $started; do kill -KILL "$p" 2>/dev/null; done; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset MAD_COSTS
export LC_ALL=C XDG_CACHE_HOME="$dir" # costs that are measured beside tests must not be kept

# run ARGS: runs mad_info; exit status in $code, output in ./out and ./err
run() {
    within $limit "$info" "$@" >out 2>err </dev/null
    code=$?
}
# json NAME EXPRESSION: checks that ./out is one JSON object d for which the expression is true
json() {
    python3 -m json.tool out >/dev/null 2>json.err &&
        python3 -c '
import json, sys
d = json.load(open("out"))
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$2" 2>>json.err
    if [ $? = 0 ]; then
        ok "$1"
    else
        not_ok "$1" "not true: $2" "$(cat json.err)" "of: $(head -c 2000 out)"
    fi
}

# Start a job of two processes, whose numbers are $zero and $one.  It ends well when descriptor 3 is closed.
job_start() {
    mkfifo in ready
    "$madrun" --no-label -n 2 --stdin 1 "$@" "$client" <in >ready 2>job.err &
    job=$!
    started="$started $job"
    exec 3>in 4<ready
    read -r _ a <&4 && read -r _ b <&4
    rm in ready
    if tr '\0' '\n' <"/proc/$a/environ" | grep -q '^PMI_RANK=0'; then zero=$a one=$b; else zero=$b one=$a; fi
}
job_end() {
    exec 3>&-
    exec 4<&-
    wait "$job"
    check "$1: the job goes on and ends well" 0 $?
    check "$1: sockets are removed" "" "$(ls "$sockets" | grep -E "^ask-($zero|$one)-")"
}

test_options() {
    run --help
    check "help" "0 1" "$code $(grep -c 'explain PID' out)"
    run --version
    check "version" 0 $code
    run --no-such-option
    check "unknown option" 2 $code
    run no-such-command
    check "unknown command" "2 1" "$code $(grep -c "there is no command 'no-such-command'" err)"
    run host --watch 1
    check "an option of another command" "2 1" "$code $(grep -c 'mad_info: --watch is not an option of host' err)"
    run explain
    check "explain without a process" 2 $code
    run explain 12x
    check "explain what is no number" 2 $code
}

test_host() {
    run
    check "host: exit code" 0 $code
    check_has "host: adapters" "shm " out
    check_has "host: calibration" "wake-up by futex" out
    run --json
    json "host: json" 'len(d["drivers"]) >= 3 and d["calibration"]["syscall_ns"] > 0 and
        {"self", "shm"} <= {a["driver"] for a in d["adapters"] if a["open"]}'
    taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$info" --json >out 2>err
    json "host: one core" 'd["calibration"]["cores"] == 1 and d["calibration"]["lines"] == []'
}

# Which forms collective operations take.
test_collectives() {
    run collectives 8 2 --json
    json "collectives: each operation has a form that is expected to be the fastest" 'd["hosts"] == 2 and
        {o["operation"] for o in d["operations"]} >= {"barrier", "allreduce", "alltoall_v"} and
        all(o["expected_us"][o["form"]] > 0 for o in d["operations"])'
    MAD_COLL=allreduce=ring run collectives 4 --size 64KiB --json
    json "collectives: the knob overrides the choice" '[(o["form"], o["why"]) for o in d["operations"]
        if o["operation"] == "allreduce"] == [("ring", "MAD_COLL names it")]'
    run collectives 4
    check_lines "collectives: a table" 15 '^  [a-z_]+ +(linear|tree|pipeline|doubling|ring|spread) [0-9.]+ us' out
    run collectives 4 5
    check "collectives: more hosts than members: exit code" 2 "$code"
    check_has "... and the reason" "'5' is not valid: give 1 to 4" err
}

test_knobs() {
    MAD_SPIN=7 run knobs --json
    json "knobs: origins" '{k["knob"]: k["origin"] for k in d["knobs"]}["MAD_SPIN"] == "environment" and
        {k["knob"]: k["value"] for k in d["knobs"]}["MAD_SPIN"] == "7" and
        [k["knob"] for k in d["knobs"] if k["origin"] != "default"] == ["MAD_SPIN"]'
    MAD_SPIN=7 run knobs
    check "knobs: text" 1 "$(grep -c '^MAD_SPIN  *7  *environment (default: -1)' out)"
    check "knobs: columns apart" 0 "$(grep '^MAD_' out | grep -cvE '^MAD_[A-Z_]+ .* (default|environment)|  (default|environment)')"
    MAD_FAULT=self,shm,tcp,self MAD_TRACE=/a/very/long/path/of/a/file/that/is/wider/than/the/column run knobs
    check "knobs: long values stand apart" 2 "$(grep -cE '^MAD_(FAULT|TRACE) +[a-z/,]+  +environment ' out)"
    MAD_SPIM=7 run knobs
    check_has "knobs: misspelt" "MAD_SPIM: did you mean MAD_SPIN?" err
    MAD_SPIN=x run knobs --json
    check "knobs: bad value: exit code" 1 $code
    check_has "knobs: bad value: named" "MAD_SPIN='x' is not valid" err
    json "knobs: bad value: json" '"error" in d'
}

test_explain() {
    job_start --env MAD_TCP_INTERFACES=lo,nosuch0 --env MAD_SPIN=5
    run explain "$zero"
    check "explain: exit code" 0 $code
    check "explain: the way used" 1 "$(grep -c '^  used *shm on memory' out)"
    check "explain: what was polled" 1 "$(grep -c '^  polled a session [0-9]* times, found something [0-9]* times' out)"
    check "explain: a way not needed" 1 "$(grep -c '^  not needed *tcp on lo.*shm on memory comes first' out)"
    check "explain: a way rejected" 1 "$(grep -c '^  rejected *self on memory.*reaches only this process' out)"
    check "explain: an adapter rejected" 1 "$(grep -c '^  rejected *tcp on nosuch0: MAD_TCP_INTERFACES names nosuch0' out)"
    check_has "explain: channels" "channel looked at: open" out
    check "explain: its own knobs" 1 "$(grep -c '^MAD_SPIN *5 *environment' out)"
    run explain "$zero" --json
    json "explain: json" 'd["pid"] == '"$zero"' and d["sessions"][0]["size"] == 2 and
        d["sessions"][0]["launcher"] == "madrun" and
        [p["peer"] for p in d["sessions"][0]["peers"]] == [1] and
        d["sessions"][0]["peers"][0]["connections"][0]["messages_sent"] == 1'
    run explain "$zero" 0 --json
    json "explain: a peer never spoken to" 'd["sessions"][0]["peers"][0]["state"] == "not spoken to" and
        {w["driver"]: w["way"] for w in d["sessions"][0]["peers"][0]["ways"]}["tcp"] == "rejected"'
    run explain "$zero" 2
    check "explain: no such peer: exit code" 1 $code
    check_has "explain: no such peer" "a peer from 0 to 1" err
    test_stuck
    test_garbage
    test_other_user
    kill -KILL "$one"
    wait "$job"
    check "explain: a killed rank fails the job" 137 $?
    exec 3>&- 4<&-
    run explain "$one" --json
    check "explain: dead process: exit code" 1 $code
    check_has "explain: dead process" "there is no process $one" err
    json "explain: dead process: json" '"no process" in d["error"]'
    run knobs
    check "stale sockets: removed by the next session" "" "$(ls "$sockets" | grep -E "^ask-$one-")"
}

# The number of processes that share the processors of this process, as if it had the whole host: it decides whether
# threads spin.
test_crowd() {
    cpus=$(taskset -cp $$ | sed 's/.*: *//') online=$(getconf _NPROCESSORS_ONLN)
    taskset -cp "${cpus%%[-,]*}" $$ >/dev/null
    job_start --bind none
    run explain "$zero" --json
    json "crowd: two on one processor" 'd["sessions"][0]["waiting"]["processes"] == 2 * '"$online"
    job_end crowd
    taskset -cp "$cpus" $$ >/dev/null
    [ "$(nproc)" -gt 1 ] || return
    job_start
    run explain "$zero" --json
    json "crowd: each with a core of its own" 'd["sessions"][0]["waiting"]["processes"] <= '"$online"
    job_end crowd
}

# Traffic of two processes: exactly what they have sent; and of all processes, which include these two.
test_stats() {
    run stats
    check "stats without a process" 2 $code
    run stats 1 --prometheus --json
    check "stats: --prometheus and --json" 2 $code
    for prefer in shm tcp; do
        rm -f go
        : >held
        MAD_PREFER=$prefer "$madrun" --no-label -n 2 "$BUILD/tests/hop" hold "$dir/go" >held 2>job.err &
        job=$!
        started="$started $job"
        wait_for grep -q 'ready 0' held && wait_for grep -q 'ready 1' held
        pids=$(sort -k 2n held | sed -n 's/^ready [0-9]* //p')
        # shellcheck disable=SC2086
        within $limit python3 "$top/tests/gateway/look.py" "$info" $pids >looked 2>&1
        check "stats: $prefer: looked at" 0 $?
        sed "s/\(ok\) /\1 stats: $prefer: /" looked
        failures=$((failures + $(grep -c '^not ok' looked)))
        [ $prefer = tcp ] || test_stats_forms
        : >go
        wait $job
        check "stats: $prefer: the job goes on and ends well" 0 $?
    done
    test_stats_told
    test_stats_watch
}
test_stats_forms() {
    one=$(echo "$pids" | tail -1) zero=$(echo "$pids" | head -1)
    run stats "$zero" --prometheus
    check "stats: prometheus: exit code" 0 $code
    within $limit $python "$top/tests/harness/prometheus.py" <out >checked 2>&1
    check "stats: prometheus: its format" 0 $?
    sed 's/^/# /' checked
    of="pid=\"$zero\",rank=\"0\",host=\"$(hostname)\",program=\"hop\",session=\"0\""
    check_has "stats: prometheus: labels" "madeleine_messages_sent_total{$of,driver=\"shm\",class=\"job\"} 70" out
    check_has "stats: prometheus: channels" 'channel="hop"} 70' out
    run stats "$zero"
    check "stats: text" 1 "$(grep -cE '^  shm +job +1 +70 +[0-9.]+ MiB +70 +[0-9.]+ MiB +0 ' out)"
    check "stats: text: channel" 1 "$(grep -cE '^  hop +1 +70 ' out)"
    kill -STOP "$one"
    run stats all --json --timeout 5 # the other process answers in time also on a busy host
    check "stats: all: one is stopped: exit code" 1 $code
    check_has "stats: all: why" "process $one did not answer within 5 s: it is stopped" err
    json "stats: all: the other one" '[p["sessions"][0]["rank"] for p in d["processes"] if p["pid"] == '"$zero"'] == [0] and
        ["is stopped" in p["error"] for p in d["processes"] if p["pid"] == '"$one"'] == [True]'
    "$info" stats all --prometheus --timeout 5 >out 2>err
    check_has "stats: all: prometheus: who is up" 'madeleine_up{pid="'"$zero"'",program="hop"} 1' out
    check_has "stats: all: prometheus: who is not" 'madeleine_up{pid="'"$one"'",program="hop"} 0' out
    within $limit $python "$top/tests/harness/prometheus.py" <out >checked 2>&1
    check "stats: all: prometheus: its format" 0 $?
    kill -CONT "$one"
}
# A session that the program opens itself, as MPI's plug-ins do, has the rank that mpirun has given, or none.
test_stats_told() {
    for given in "3 of 7:OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=7 PMIX_RANK=3" "5:PMIX_RANK=5" "1 of 2:PMI_RANK=1 PMI_SIZE=2" \
        "none:PMI_RANK=2 PMI_SIZE=2"; do
        rank=${given%%:*}
        mkfifo input
        rm -f address
        # shellcheck disable=SC2086
        env -u PMIX_RANK ${given#*:} "$BUILD/tests/world" serve address "the key of the given one" <input >/dev/null 2>&1 &
        pid=$!
        started="$started $pid"
        exec 5>input
        rm input
        wait_for test -s address
        run stats $pid
        case $rank in
        none) check "stats: given nothing" 0 "$(grep -c ': .*rank' out)" ;;
        *) check "stats: given $rank" 1 "$(grep -c "^process $pid .*: rank $rank, Madeleine " out)" ;;
        esac
        run explain $pid
        check "explain: given $rank" "$([ "$rank" = none ] && echo 0 || echo 1)" "$(grep -c "^process $pid .*: rank " out)"
        exec 5>&-
        wait $pid
    done
}
# Rounds until the process has ended.
test_stats_watch() {
    rm -f go
    : >held
    "$madrun" --no-label -n 2 "$BUILD/tests/hop" hold "$dir/go" >held 2>job.err &
    job=$!
    started="$started $job"
    wait_for grep -q 'ready 0' held
    zero=$(sed -n 's/^ready 0 //p' held)
    within $limit "$info" stats "$zero" --watch 0.05 --json >watched 2>err &
    watch=$!
    started="$started $watch"
    within $limit "$info" stats "$zero" --watch 0.05 >rates 2>/dev/null &
    rates=$!
    started="$started $rates"
    two_rounds() { [ "$(wc -l <watched)" -ge 2 ] && grep -q 'counted by second' rates; }
    if wait_for two_rounds; then ok "stats: watch: rounds"; else not_ok "stats: watch: rounds" "$(cat watched rates)"; fi
    : >go
    wait $job
    wait $watch
    check "stats: watch: ends with the process" 0 $?
    wait $rates
    check "stats: watch: rates end with it, too" 0 $?
    head -1 watched >out
    json "stats: watch: lines" 'd["processes"][0]["pid"] == '"$zero"
    # The number of rounds depends on the time until the process had seen the file and ended.
    check "stats: watch: nothing moves any more" 0 \
        "$(sed -n '/by second/,$p' rates | awk '$1 == "shm" && $2 == "job" { print $4 }' | sort -u)"
}

# The timeline of live processes: the last events, written to a file if the knob names one.
test_trace() {
    run trace
    check "trace without anything" 2 $code
    run trace merge
    check "trace merge without files" 2 $code
    run trace merge /nonexistent
    check_has "trace merge: no such file" "mad_info: unable to open /nonexistent: No such file" err
    job_start --env MAD_TRACE="$dir/timeline" --env MAD_TRACE_EVENTS=64
    run trace "$zero"
    check "trace: of a live process" 0 $code
    cp "timeline.$(hostname).$zero.json" out
    json "trace: its message" '[e["args"]["bytes"] > 0 and e["args"]["channel"]
        for e in d["traceEvents"] if e["ph"] == "b" and e["name"] == "send to 1"] == ["looked at"] and d["otherData"]["rank"] == 0'
    job_end "trace"
    cp "timeline.$(hostname).$one.json" out
    json "trace: written at the end" '[e["name"] for e in d["traceEvents"] if e["ph"] == "b"] ==
        ["receive from 0", "send to 0"]'
    run trace merge timeline.*.json --output out
    check "trace: merged" 0 $code
    json "trace: merged: the same clock" '[p["shift_us"] for p in d["otherData"]["merged"]] == [0, 0]'
    python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
d["otherData"]["boot_id"] = "another"  # and its clock is 5 s behind, and its real time is wrong
for e in d["traceEvents"]:
    if "ts" in e: e["ts"] -= 5e6
json.dump(d, open("moved", "w"))' "timeline.$(hostname).$one.json"
    run trace merge "timeline.$(hostname).$zero.json" moved --output out
    json "trace: merged: clocks by messages" '[(p["clock"], abs(p["shift_us"] - s) < 1e6) for p, s in
        zip(d["otherData"]["merged"], (0, 5e6))] == [("its own", True), ("messages", True)]'
    run trace merge timeline.*.json --svg out.svg
    check "trace: drawn: exit code, output" "0 0" "$code $(wc -c <out)"
    check_has "trace: drawn: its message" ">send to 1<" out.svg
    run trace merge out.svg
    check "trace: a picture is no trace" 1 $code
    run trace merge timeline.*.json --svg out.svg --span 5-1
    check "trace: a span that is none: exit code" 1 $code
    check_has "trace: a span that is none" "give two numbers of microseconds from the first event on" err
    run trace merge timeline.*.json --svg nowhere/out.svg
    check "trace: a picture that cannot be written" "1 1" "$code $(grep -c "cannot be written: No such file" err)"
    # Text that others may have written: names are displayed, but never executed.
    echo '{"otherData": {"producer": "Madeleine, merged"}, "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "<script>&"}}, {"ph": "b"}, 7, null,
        {"ph": "X", "cat": "wait", "name": "asleep", "pid": 1, "tid": 1, "ts": 1e300, "dur": -5},
        {"ph": "X", "cat": "wait", "name": "asleep", "pid": "x", "ts": "y"},
        {"ph": "b", "cat": "message", "name": "send\u0001<b>", "pid": 1, "ts": 5, "args": {"network": "<n>"}},
        {"ph": "e", "ts": 9}]}' >strange
    run trace merge strange --svg out.svg
    check "trace: a strange one is drawn" "0 0" "$code $(grep -c '<script\|<b>\|<n>' out.svg)"
    if python3 -c 'import sys, xml.etree.ElementTree as t; t.parse("out.svg")'; then
        ok "trace: a strange one: well formed"
    else
        not_ok "trace: a strange one: well formed" "$(cat out.svg)"
    fi
    echo '{"otherData": {"producer": "Madeleine, merged"}, "traceEvents": []}' >strange
    run trace merge strange --svg out.svg
    check_has "trace: nothing to draw" "the timeline has no events" err
    echo '{"traceEvents": []}' >strange
    run trace merge strange
    check "trace: not one: exit code" 1 $code
    check_has "trace: not one" "strange is no trace of a Madeleine process" err
    run trace merge nowhere
    check_has "trace: no file" "nowhere: " err
    job_start
    run trace "$zero" --json
    check "trace: none is kept: exit code" 1 $code
    check_has "trace: none is kept" "it keeps no trace: start it with MAD_TRACE=PREFIX" err
    job_end "no trace"
    # All kinds of messages, by their paths, with a timeline in a ring that is too small.
    failed=
    for t in modes_alone blocks_pieces blocks_flush requests_many try_unpack_big_express posted_mixed direct_posts handlers_leave \
        mismatch_cases threads_busy; do
        MAD_TRACE=$dir/$t MAD_TRACE_EVENTS=100 within $limit "$madrun" --no-label -n 2 "$BUILD/tests/conform" $t >out 2>&1 ||
            failed="$failed $t"
    done
    check "trace: conformance" "" "$failed"
    cat "$(ls requests_many.*.json | head -1)" >out
    json "trace: the last events" 'd["otherData"]["events"] == 100 and d["otherData"]["events_lost"] > 0 and
        100 < len(d["traceEvents"]) <= 201'
    MAD_TRACE=$dir/nowhere/t "$madrun" --no-label -n 1 "$client" </dev/null >out 2>err
    check_has "trace: no such folder" "nowhere/t.$(hostname)" err
    check_has "trace: no such folder: why" "cannot be written: No such file" err
}

# A process that stands still does not answer; mad_info reports that, and its queries do not harm the process.
test_stuck() {
    kill -STOP "$zero"
    run explain "$zero" --timeout 0.3
    check "stuck: exit code" 1 $code
    check_has "stuck: why" "did not answer within 0.3 s: it is stopped" err
    i=0
    while [ $i -lt 40 ]; do # more than its backlog and its clients
        within $limit "$info" explain "$zero" --timeout 0.01 >/dev/null 2>&1
        i=$((i + 1))
    done
    kill -CONT "$zero"
    run explain "$zero"
    check "stuck: answers when it goes on" 0 $code
}

cat >"$dir/garbage.py" <<'PY'
import os, random, socket, sys
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1]) # blocks while the backlog is full
    s.settimeout(30)
    return s
def answer(s):
    text = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return text
            text += more
    except ConnectionError:
        return text
random.seed(1)
held = [connect() for _ in range(12)]              # say nothing
slow = [connect() for _ in range(3)]               # send a query, and do not read
for s in slow:
    s.sendall(b"madeleine 1 explain\n")
for n in (1, 63, 64, 65, 4096, 100000):
    s = connect()
    try:
        s.sendall(random.randbytes(n).replace(b"\n", b"x") + b"\n")
    except ConnectionError:
        pass
    text = answer(s)
    assert not text or text.startswith(b'{"error"'), text
for q in (b"\n", b"madeleine 2 explain\n", b"madeleine 1 explain -1\n", b"madeleine 1 explain 99999999999999999999\n",
          b"madeleine 1 explain 1 1\n", b"madeleine 1 explain \0\n", b"GET / HTTP/1.0\n\n"):
    s = connect()
    s.sendall(q)
    assert answer(s).startswith(b'{"error"'), q
s = connect()                                       # one byte at a time
for byte in b"madeleine 1 explain\n":
    s.send(bytes([byte]))
text = answer(s)
assert text.endswith(b"]}"), text
for s in [connect() for _ in range(200)]:           # half-open and gone
    s.close()
PY

test_garbage() {
    within $limit python3 garbage.py "$(ls -d "$sockets/ask-$zero-"*)" >out 2>&1
    check "garbage: answers what it should" "0 " "$? $(cat out)"
    run explain "$zero"
    check "garbage: still answers" 0 $code
}

test_other_user() {
    if [ "$(id -u)" -ne 0 ]; then
        run explain 1
        check_has "other user's process" "belongs to root" err
        return
    fi
    as="setpriv --reuid=65534 --regid=65534 --clear-groups"
    if ! $as test -x "$info" -a -r "$BUILD/.libs/mad_info"; then
        echo "ok other user # skip: another user cannot read the build"
        return
    fi
    # shellcheck disable=SC2086
    (cd / && within $limit $as "$info" explain "$zero") >out 2>err
    check "other user: exit code" 1 $?
    check_has "other user: why" "belongs to root: only that user" err
    # Even a user with access to the socket is refused.
    as="$as env PATH=/usr/bin:/bin"
    if ! $as python3 -c 0; then
        echo "ok other user: is not answered # skip: no python3 for another user"
        return
    fi
    socket=$(ls -d "$sockets/ask-$zero-"*)
    chmod 711 "$sockets" && chmod 777 "$socket"
    # shellcheck disable=SC2086
    (cd / && within $limit $as python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect(sys.argv[1])
try:
    s.sendall(b"madeleine 1 explain\n")
    print(s.recv(100))
except ConnectionError:
    print(b"")' "$socket") >out 2>&1
    check "other user: is not answered" "b''" "$(cat out)"
    chmod 700 "$sockets"
}

test_end() {
    job_start
    run explain "$one" --timeout 0.2 # outside of the library: either an answer or a clear text
    if [ $code = 0 ] || grep -q "did not answer within 0.2 s: it waits in a system call outside the library" err; then
        ok "outside of the library"
    else
        not_ok "outside of the library" "$(cat err)"
    fi
    job_end "end"
}

# With process numbers and a directory of its own.
test_container() {
    if ! unshare -pm --fork true 2>/dev/null; then
        echo "ok container # skip: no namespaces for this user"
        return
    fi
    mkdir -p -m 700 "$sockets"
    mkfifo in ready
    unshare -pm --fork sh -c 'mount -t tmpfs -o mode=700 none "$1" && exec "$2"' sh "$sockets" "$client" <in >ready 2>err &
    job=$!
    started="$started $job"
    exec 3>in 4<ready
    read -r _ inner <&4
    outer=$(cat "/proc/$job/task/$job/children")
    outer=${outer% }
    run explain "$outer" --json
    json "container: found by its number out here" "d['pid'] == $outer and d['sessions'][0]['pid'] == $inner != $outer"
    exec 3>&- 4<&-
    wait "$job"
    check "container: ends well" 0 $?
    rm in ready
}

test_doctor() {
    run doctor
    check "doctor: exit code and count" "$code" "$(sed -n 's/^\([0-9]*\) bad, .*/\1/p' out | sed 's/^[1-9].*/1/')"
    stale=$sockets/stale-$$ # one that no process removes
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$stale"
    run doctor --json
    rm -f "$stale"
    json "doctor: stale sockets" '[f["verdict"] for f in d["findings"] if f["check"] == "left behind"] == ["warning"]'
    MAD_COSTS=$dir/nothing run doctor --json
    json "doctor: missing costs" '[(f["verdict"], "remedy" in f) for f in d["findings"] if f["check"] == "costs"] ==
        [("warning", True)]'
    MAD_COSTS=none run doctor --json
    json "doctor: no costs wanted" '[f["verdict"] for f in d["findings"] if f["check"] == "costs"] == ["ok"]'
    MAD_COSTS=$dir/no/such/folder/costs MAD_LOG=info within $limit "$madrun" -n 2 "$BUILD/examples/ping" >out 2>err
    check_has "missing costs are logged" "shm: info: the costs of this host are not known: run mad_info once" err
    (ulimit -l 0 && run doctor --json)
    json "doctor: ulimit -l" '[f["verdict"] for f in d["findings"] if f["check"] == "memlock"] == ["warning"]'
    (ulimit -n 60 && run doctor --json)
    json "doctor: ulimit -n" '[f["verdict"] for f in d["findings"] if f["check"] == "nofile"] == ["bad"]'
    (ulimit -f 2000 && run doctor --json; exit $code)
    check "doctor: ulimit -f: exit code" 1 $?
    json "doctor: ulimit -f" '[(f["verdict"], "remedy" in f) for f in d["findings"] if f["check"] == "memfd"] ==
        [("bad", True)]'
    MAD_TCP_INTERFACES=nosuch0 run doctor
    check "doctor: no such interface: exit code" 1 $code
    check_has "doctor: no such interface" "nosuch0, which this host does not have" out
    MAD_TCP_PORTS=9-8 run doctor
    check_has "doctor: bad ports" "MAD_TCP_PORTS: '9-8' is not a range" out
    MAD_SPIM=3 run doctor
    check_has "doctor: misspelt knob" "did you mean MAD_SPIN?" out
    MAD_SPIN=x run doctor --json
    check "doctor: bad knob: exit code" 1 $code
    json "doctor: bad knob" '[f["verdict"] for f in d["findings"] if f["check"] == "session"] == ["bad"]'
    MAD_DRIVERS=self run doctor
    check_has "doctor: nobody to be reached" "no other process can be reached" out
}

for t in options host knobs collectives explain crowd stats trace end container doctor; do
    "test_$t"
done
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# madlab: what is separate in a lab, what is shared, rates, the schedule, and that nothing is left behind.  BUILD: the
# folder with the built programs.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
dir=$(mktemp -d) || exit 1
chmod 755 "$dir"
jobs=
trap 'for j in $jobs; do kill -KILL "$j" 2>/dev/null; done; rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
madlab=$BUILD/madlab
mark=918${$} # in the command lines of processes that must be gone at the end

cat >clusters.cfg <<'EOF'
clusters = {
    left = { hosts = "red[1-2]"; };
    right = { hosts = "blue[1-2]"; };
};
networks = {
    red = { driver = "tcp"; hosts = "red[1-2], gate"; bandwidth = "500Mbit/s"; };
    blue = { driver = "tcp"; hosts = ( "blue[1-2]", { hosts = "gate"; interface = "fast1"; } ); };
};
gateways = "gate";
EOF

# The first lines of scripts in the lab.
cat >inside <<'EOF'
. ./library
on() { "$MADLAB_AGENT" "$@"; }
# reach FROM HOST PORT [SECONDS]: connects, and prints the result
reach() {
    on "$1" python3 -c 'import socket, sys
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
    print(s.recv(100).decode())
except OSError as e:
    print(type(e).__name__, e)' "$2" "$3" "${4:-30}"
}
# listen HOST FILE: starts a server on all addresses of the host, which answers with the host's name; its port is in
# FILE
listen() {
    rm -f "$2"
    on "$1" python3 -c 'import os, socket, sys
l = socket.create_server(("0.0.0.0", 0))
with open(sys.argv[1] + ".new", "w") as f: f.write(str(l.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True: l.accept()[0].send(os.uname().nodename.encode())' "$2" &
    wait_for test -s "$2"
}
EOF
cp "$top/tests/harness/checks.sh" library || exit 1

# lab ARGUMENTS...: runs madlab run with clusters.cfg; exit status in $code, output in ./out and ./err.  Without a
# command, it runs ./script, which is read from standard input.
lab() {
    case " $* " in
    *" -- "*) ;;
    *)
        { cat inside; cat; } >script
        set -- "$@" -- sh ./script
        ;;
    esac
    within $limit "$madlab" run clusters.cfg "$@" >out 2>err </dev/null
    code=$?
}

lab -- true
case $code in
0) ;;
125)
    tail -1 err
    grep -qE 'ip and tc|namespaces cannot be made|cannot be made: this kernel|be mounted: (Operation|Permission)' err &&
        { echo "skipped: $(tail -1 err)"; exit 77; }
    ;;
*)
    grep -q 'libconfig' err && { echo "skipped: $(tail -1 err)"; exit 77; }
    ;;
esac
check "a lab" 0 $code

# --- what is separate, what is shared ---

test_no_sandbox() {
    lab -- true
    check "no sandbox: root is told" "$([ "$(id -u)" != 0 ] || echo yes)" "$(grep -q 'root runs this lab, which is no sandbox' err && echo yes)"
    lab --quiet -- true
    check "no sandbox: not if it is to be quiet" "" "$(cat err)"
    check "no sandbox: --help" yes "$("$madlab" --help | grep -q 'It is no sandbox' && echo yes)"
}

test_separate() {
    lab <<'EOF'
for h in launch red1 red2 gate blue1 blue2; do
    on $h sh -c 'echo "name $(hostname) $HOSTNAME $MADLAB_HOST"
        for n in uts net mnt ipc pid; do echo "$n $(readlink /proc/self/ns/$n)"; done
        echo $(hostname) >/tmp/file; echo $(hostname) >/dev/shm/file; echo $(hostname) >shared.$(hostname)
        ipcmk -M 4096 >/dev/null'
done
for h in red1 gate; do
    on $h sh -c 'echo "tmp $(ls /tmp/file) $(cat /tmp/file)"; echo "shm $(ls /dev/shm) $(cat /dev/shm/file)"
        echo "segments $(ipcs -m | grep -c 0x)"; echo "interfaces" $(ls /sys/class/net)'
done
on red1 sleep 1234567 &
until [ "$(on red1 sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "' | grep -c 'sleep 1234567')" = 1 ]; do :; done
echo "processes of red1 on red2: $(on red2 sh -c 'cat /proc/[0-9]*/cmdline | tr "\0" " "' | grep -c 'sleep 1234567')"
echo "first on red2: $(on red2 cat /proc/1/comm)"
EOF
    check "separate: exit code" 0 $code
    for h in launch red1 red2 gate blue1 blue2; do check_lines "separate: host name $h" 1 "^name $h $h $h\$" out; done
    for n in uts net mnt ipc pid; do
        { grep "^$n " out; echo "$n $(readlink /proc/self/ns/$n)"; } | sort -u >spaces
        check "separate: $n of every host, and of the machine" 7 "$(wc -l <spaces)"
    done
    check_lines "separate: /tmp" 2 '^tmp /tmp/file (red1|gate)$' out
    check_lines "separate: /dev/shm" 2 '^shm file (red1|gate)$' out
    check_lines "separate: shared memory segments" 2 '^segments 1$' out
    check_lines "separate: interfaces of red1" 1 '^interfaces eth0 lo$' out
    check_lines "separate: interfaces of gate, as the file calls them" 1 '^interfaces eth0 fast1 lo$' out
    check_has "separate: processes" "processes of red1 on red2: 0" out
    check_has "separate: first process" "first on red2: madlab-host" out
    check "shared: the current directory" "blue1 blue2 gate launch red1 red2 " "$(cat shared.* | sort | tr '\n' ' ')"
    check "separate: nothing in the machine's /tmp" "" "$(ls -d /tmp/madlab /tmp/file 2>/dev/null)"
    rm -f shared.*
    mkdir in out2
    echo seen >in/file
    (cd in && within $limit "$madlab" run ../clusters.cfg --quiet -- sh -c 'ls ../out2; cat file' >../out 2>../err)
    check "shared: only the current directory" seen "$(cat out)"
    (cd in && within $limit "$madlab" run ../clusters.cfg --quiet --share ../out2 --on red1 -- sh -c 'echo x >../out2/file' >../out 2>../err)
    check "shared: --share" x "$(cat out2/file)"
    (cd in && within $limit "$madlab" run ../clusters.cfg --quiet -- cat "$dir/out2/file" >../out 2>../err)
    check_has "shared: what is not is said" "no host sees '$dir/out2/file'" err
    (cd /tmp && within $limit "$madlab" run "$dir/clusters.cfg" -- true) >out 2>err
    check_has "shared: /tmp itself" "every host has a /tmp of its own" err
    mkdir -p prefix/bin prefix/lib
    cp "$madlab" prefix/bin/madlab
    echo linked >prefix/lib/file
    (cd in && within $limit ../prefix/bin/madlab run ../clusters.cfg --quiet --on red1 -- cat ../prefix/lib/file >../out 2>../err)
    check "shared: what the tools are installed with" linked "$(cat out)"
}

test_routes() {
    lab <<'EOF'
listen blue1 blue1.port
listen red2 red2.port
listen gate gate.port
b=$(cat blue1.port) r=$(cat red2.port) g=$(cat gate.port)
echo "red1 to red2: $(reach red1 red2 $r)"
echo "gate to blue1: $(reach gate blue1 $b)"
echo "gate to red2: $(reach gate red2 $r)"
echo "blue2 to gate: $(reach blue2 gate $g)"
echo "red1 to gate: $(reach red1 gate $g)"
for h in red1 launch; do echo "$h to blue1: $(reach $h 10.2.0.1 $b)"; done
echo "red1 to gate's other address: $(reach red1 10.2.0.3 $g)"
echo "blue2 to red2: $(reach blue2 10.1.0.2 $r)"
for h in launch red1 gate; do on $h ip route show default | sed "s/^/default $h /"; done
echo "forwarding: $(on gate cat /proc/sys/net/ipv4/ip_forward)"
# A user sets a route, but gate does not forward.
on red1 ip route add 10.2.0.0/16 via 10.1.0.3
on blue1 ip route add 10.1.0.0/16 via 10.2.0.3
echo "red1 by a route: $(reach red1 10.2.0.1 $b 2)"
EOF
    check "routes: exit code" 0 $code
    for p in "red1 to red2: red2" "gate to blue1: blue1" "gate to red2: red2" "blue2 to gate: gate" "red1 to gate: gate" \
        "forwarding: 0"; do
        check_has "routes: $p" "$p" out
    done
    check_lines "routes: none to another network" 4 '^(red1 to blue1|launch to blue1|red1 to gate.s other address|blue2 to red2): OSError .*unreachable' out
    check_lines "routes: no default" 0 '^default' out
    check_lines "routes: none over a host between" 1 '^red1 by a route: (TimeoutError|timeout|OSError)' out
    check_lines "routes: blue1 was not reached" 1 ': blue1$' out
}

# shaping HOST INTERFACE: prints its rate, and whether it has sent anything; needs $madlab
test_rates() {
    lab --at 0.2:throttle:blue=20Mbit/s <<'EOF'
listen red2 red2.rate
echo "$(reach red1 red2 "$(cat red2.rate)")"
for h in red1 gate; do on $h tc -s qdisc show dev eth0 | sed "s/^/$h /"; done
throttled() { # on every host: the reports come one after another
    on blue1 tc qdisc show dev eth0 | grep -q 'rate 20Mbit' && on gate tc qdisc show dev fast1 | grep -q 'rate 20Mbit'
}
wait_for throttled
on blue1 tc qdisc show dev eth0 | sed "s/^/blue1 /"
on gate tc qdisc show dev fast1 | sed "s/^/gate's fast1 /"
EOF
    check "rates: exit code" 0 $code
    check_lines "rates: as declared" 2 '^(red1|gate) qdisc tbf .* rate 500Mbit ' out
    check_lines "rates: packets pass the limit" 1 '^red1  Sent [1-9][0-9]* bytes' out
    check_lines "rates: throttled" 2 "^(blue1|gate's fast1) qdisc tbf .* rate 20Mbit" out
    check_has "rates: said" "network 'blue' is throttled to 20Mbit/s" err
}

# The other ends of the interfaces, seen from outside.
test_bridges() {
    mkfifo go
    within $limit "$madlab" run clusters.cfg --quiet -- sh -c 'echo up >ready; read x <go' >out 2>err &
    job=$!
    jobs="$jobs $job"
    wait_for test -s ready
    first=
    for p in /proc/[0-9]*; do
        case $(cat "$p/comm" 2>/dev/null) in
        madlab-first) grep -qF "$dir/" "$p/cmdline" 2>/dev/null && first=${p#/proc/} ;;
        esac
    done
    user=
    [ "$(id -u)" = 0 ] || user="-U --preserve-credentials"
    # shellcheck disable=SC2086
    nsenter -t "$first" $user -n tc qdisc show >out 2>&1
    # shellcheck disable=SC2086
    nsenter -t "$first" $user -n ip -o -d link >links 2>&1
    echo go >go
    wait $job
    check "bridges: exit code" 0 $?
    check_lines "bridges: the rate in the other direction" 3 '^qdisc tbf .* dev p[0-9]+ .* rate 500Mbit' out
    check_lines "bridges: one for each network" 2 ': b[01]: .* bridge ' links
    check_lines "bridges: interfaces of red" 3 ': p[0-9]+@.* master b0 ' links
    check_lines "bridges: interfaces of blue" 3 ': p[0-9]+@.* master b1 ' links
    rm -f ready go
}

# --- what is scheduled ---

# cut TARGET WHAT: checks that what is cut is unreachable, and stays so, and that what is restored is reachable again.
# Each is a run of its own, in which nothing has to happen before the time of the next action.
cut() {
    lab --at 1:cut:"$1" <<'EOF'
listen red2 red2.cut
until [ "$(reach red1 red2 $(cat red2.cut) 0.2)" != red2 ]; do :; done
echo "cut: $(reach red1 red2 $(cat red2.cut) 1)"
echo "carrier: $(on red2 cat /sys/class/net/eth0/carrier)"
EOF
    check "cut: $2: exit code" 0 $code
    check_lines "cut: $2: is not reached" 1 '^cut: (TimeoutError|OSError)' out
    check_lines "cut: $2: the interface stays up" 1 '^carrier: 1$' out
    check_lines "cut: $2: said" 1 "^madlab: [0-9.]+ s: $2 is cut\$" err
    lab --at 0:cut:"$1" --at 1:restore:"$1" <<'EOF'
listen red2 red2.restored
until [ "$(reach red1 red2 $(cat red2.restored) 1)" = red2 ]; do :; done
EOF
    check "cut: $2: is reached when it is restored" 0 $code
    check_lines "cut: $2: said that it is restored" 1 "^madlab: [0-9.]+ s: $2 is restored\$" err
}

test_cut() {
    cut red/red2 "host 'red2' on network 'red'"
    cut red "network 'red'"
}

# As above, no script has to reach a place before the time of an action.
test_kill() {
    lab --at 1:kill:red1 <<'EOF'
on red1 sleep 1234567
echo "killed host: $?"
on red1 true
echo "down: $?"
EOF
    check "kill: exit code" 0 $code
    for p in "killed host: 255" "down: 255"; do
        check_has "kill: $p" "$p" out
    done
    for p in "host 'red1' was lost" "host 'red1' is down" "host 'red1' is killed"; do
        check_has "kill: $p" "$p" err
    done
    lab --at 0:kill:red1 --at 1:start:red1 <<'EOF'
wait_for on red1 true 2>/dev/null
echo "again: $(on red1 hostname) $(on red1 ls /dev/shm | wc -l) $(on red1 ip -br address show eth0 | grep -c 10.1.0.1/)"
listen red1 red1.again
echo "reached again: $(reach red2 red1 "$(cat red1.again)")"
EOF
    check "kill, start: exit code" 0 $code
    for p in "again: red1 0 1" "reached again: red1"; do
        check_has "kill, start: $p" "$p" out
    done
    check_has "kill, start: said" "host 'red1' is started" err
    lab --at 2:kill:sleep@blue1 --at 2.1:kill:nobody@blue1 -- sh -c '"$MADLAB_AGENT" blue1 sleep 1234567; echo "killed process: $?"'
    check_has "kill: a process" "killed process: 137" out
    check_has "kill: a process is said" "1 process 'sleep' on host 'blue1' killed" err
    lab --on red1 --at 0.2:kill:red1 -- sleep 1000
    check "kill: the command's own host" 137 $code
    check_has "kill: the command's own host: is said" "host 'red1', which ran the command, was killed" err
    lab --at 1000:cut:red -- true
    check_has "what was not done is said" "before 1 of the 1 scheduled actions" err
}

# --- the agent ---

test_agent() {
    lab <<'EOF'
on red1 sh -c 'exit 7'
echo "code $?"
on red1 sh -c 'kill -9 $$'
echo "signal $?"
on red1 nosuchcommand
echo "not found $?"
on nohost true
echo "no host $?"
echo text | on red1 cat
on red1 on-error 2>/dev/null
on gate "$MADLAB_AGENT" blue1 "$MADLAB_AGENT" red1 hostname
on red1 pwd
"$MADLAB_SSH" -x -q red1 'echo "as ssh: $(hostname)"; exit' 9
echo "as ssh $?"
"$MADLAB_AGENT" red1 sh -c 'trap "echo got TERM; exit 3" TERM; echo up >up; while :; do sleep 0.05; done' &
wait_for test -s up
kill -TERM $!
wait $!
echo "term $?"
rm up
"$MADLAB_AGENT" red1 sh -c 'trap "echo orphan got TERM >term; exit" TERM; echo up >up; while :; do sleep 0.05; done' &
wait_for test -s up
kill -KILL $!
wait_for test -s term
cat term
EOF
    for p in "code 7" "signal 137" "not found 127" "no host 255" text "$dir" "got TERM" "term 3" "orphan got TERM" red1 "as ssh: red1" "as ssh 9"; do
        check_lines "agent: $p" 1 "^$p\$" out
    done
    check_has "agent: no such host" "there is no host 'nohost' in this lab" err
    "$madlab" exec red1 true >out 2>err
    check "agent: outside a lab" 255 $?
    check_has "agent: outside a lab: is said" "this is no lab" err
}

test_madrun() {
    lab <<EOF
"$BUILD/madrun" -n 2 --hosts red1,red2 --launch-agent "\$MADLAB_AGENT" "$BUILD/mad_perf" pingpong --sizes 8,64K --iters 20 \
    --batches 3 --json
echo "code \$?"
"$BUILD/madrun" -n 5 --hosts "\$MADLAB_HOSTS" --launch-agent "\$MADLAB_AGENT" hostname
"$BUILD/madrun" -n 2 --hosts red1,blue1 --launch-agent "\$MADLAB_AGENT" --env MAD_CONNECT_TIMEOUT=3000 \
    "$BUILD/mad_perf" pingpong --sizes 8 --iters 2 --batches 1 --json
echo "across \$?"
"$BUILD/madrun" -n 2 --no-label --hosts red1,red2 --launch-agent "\$MADLAB_AGENT" grep Cpus_allowed_list /proc/self/status
EOF
    check "madrun: exit code" 0 $code
    check_has "madrun: within a cluster" "code 0" out
    check_lines "madrun: within a cluster: over tcp, every size" 2 '"driver": *"tcp".*"latency_us_best": *[0-9]' out
    check_lines "madrun: all hosts" 5 '^\[[0-4]\] (red1|red2|gate|blue1|blue2)$' out
    check "madrun: processes are not bound" "$(grep Cpus_allowed_list /proc/self/status)" "$(grep Cpus_allowed_list out | sort -u)"
    check_lines "madrun: clusters are apart" 1 '^across [1-9]' out
}

# --- nothing is left ---

snapshot() {
    ip netns list
    ip -o link | sed 's/ .*@/ /; s/^\([0-9]*: [^:]*\):.*/\1/'
    cut -d ' ' -f 5 /proc/self/mountinfo | sort
    ls -d /tmp/madlab /dev/shm/new* /mnt/* 2>/dev/null
}
gone() { [ "$(running "$mark")" = 0 ]; }

# left NAME: checks that nothing is left of it
left() {
    if wait_for gone; then ok "$1: no process is left"; else not_ok "$1: processes are left" "$(running "$mark")"; fi
    snapshot >after
    check "$1: nothing is left" "" "$(diff before after)"
}

test_left() {
    snapshot >before
    lab -- sh -c '$MADLAB_AGENT red1 sleep '$mark' & $MADLAB_AGENT gate setsid sleep '$mark' & exit 0'
    check "success: exit code" 0 $code
    left success
    lab -- sh -c '$MADLAB_AGENT red1 sleep '$mark' & exit 7'
    check "failure: exit code" 7 $code
    left failure
    lab -- nosuchcommand $mark
    check "no such command: exit code" 127 $code
    left "no such command"
    lab --timeout 0.3 -- sh -c 'trap "" TERM; $MADLAB_AGENT red1 sleep '$mark'; sleep '$mark
    check "time-out: exit code" 124 $code
    check_has "time-out: is said" "it took longer than the 0.3 s of --timeout" err
    left time-out
    for pair in TERM:143 INT:130 HUP:129 QUIT:131 KILL:137; do
        s=${pair%:*}
        rm -f up
        mkfifo up
        env --default-signal "$madlab" run clusters.cfg --quiet -- sh -c \
            '$MADLAB_AGENT red1 sh -c "echo up >up; sleep '$mark'" & $MADLAB_AGENT gate setsid sleep '$mark' & exec sleep '$mark >out 2>err &
        job=$!
        jobs="$jobs $job"
        read -r _ <up
        kill -$s $job
        wait $job 2>/dev/null
        check "SIG$s: exit code" "${pair#*:}" $?
        left "SIG$s"
    done
    # One that does not react to the first signal gets a second one.
    rm -f up
    mkfifo up
    env --default-signal "$madlab" run clusters.cfg --quiet -- sh -c 'trap "" TERM; echo up >up; while :; do sleep 0.'$mark'; done' >out 2>err &
    job=$!
    jobs="$jobs $job"
    read -r _ <up
    kill -TERM $job
    kill -TERM $job
    wait $job
    check "SIGTERM twice: exit code" 143 $?
    left "SIGTERM twice"
    # While the lab is being made.
    for n in 1 2 3 4 5 6; do
        env --default-signal "$madlab" run clusters.cfg --quiet -- sleep $mark >out 2>err &
        job=$!
        jobs="$jobs $job"
        sleep 0.0$n # whichever moment this is, nothing may be left
        kill -KILL $job
        wait $job 2>/dev/null
    done
    left "killed while it is made"
    lab -- true
    check "after all that, another lab" 0 $code
    for closed in 0 1 2; do
        eval "within $limit \"$madlab\" run clusters.cfg --quiet -- sh -c 'exit 7' $closed<&-"
        check "descriptor $closed closed: exit code" 7 $?
    done
}

# --- users, errors ---

test_user() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "# user: this is one already"
        return
    fi
    mkdir -m 777 user
    cp clusters.cfg user
    (cd user && within $limit setpriv --reuid 65534 --regid 65534 --clear-groups "$madlab" run clusters.cfg -- \
        sh -c 'echo "$(id -u) $(hostname)"; $MADLAB_AGENT gate ip -br address; echo written >file' >../out 2>../err)
    code=$?
    if grep -q 'namespaces cannot be made' err || ! setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$madlab"; then
        echo "# user: left out: $(cat err)"
        return
    fi
    check "user: exit code" 0 $code
    check_has "user: root in the lab" "0 launch" out
    check_lines "user: interfaces" 1 '^fast1@.* 10.2.0.3/16' out
    check "user: files are the user's" 65534 "$(stat -c %u user/file)"
    snapshot >before
    mkfifo -m 666 user/up
    (cd user && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$madlab" run clusters.cfg --quiet -- \
        sh -c '$MADLAB_AGENT red1 setsid sleep '$mark' & echo up >up; exec sleep '$mark) >out 2>err &
    job=$!
    jobs="$jobs $job"
    read -r _ <user/up
    kill -KILL $job
    wait $job 2>/dev/null
    left "user: SIGKILL"
}

# bad NAME TEXT ARGUMENTS...: checks that the exit status is 2 and this text is printed
bad() {
    name=$1 text=$2
    shift 2
    within $limit "$madlab" "$@" >out 2>err
    check "$name: exit code" 2 $?
    check_has "$name: is said" "$text" err
}

test_errors() {
    bad "no file" "cannot be read: No such file" run nosuch.cfg -- true
    echo 'networks = { red = { driver = "tpc"; hosts = "a"; }; };' >wrong.cfg
    bad "a wrong file" "there is no driver 'tpc'" run wrong.cfg -- true
    bad "no command" "which command?" run clusters.cfg
    bad "no such host" "there is no host 'red9'" run clusters.cfg --on red9 -- true
    bad "at: no such network" "there is no network 'rad'" run clusters.cfg --at 1:cut:rad -- true
    bad "at: not on it" "this host is not on this network" run clusters.cfg --at 1:cut:red/blue1 -- true
    bad "at: no such action" "cut|restore|throttle|kill|start" run clusters.cfg --at 1:break:red -- true
    bad "at: no time" "give SECONDS:ACTION:TARGET" run clusters.cfg --at cut:red -- true
    bad "at: no rate" "throttle:TARGET=RATE" run clusters.cfg --at 1:throttle:red -- true
    bad "at: a process is not started" "kill:PROCESS@HOST" run clusters.cfg --at 1:start:sh@red1 -- true
    bad "an unknown option" "--nonsense" run clusters.cfg --nonsense -- true
    bad "an unknown command" "run, shell, list or exec" fun
    within $limit "$madlab" list clusters.cfg >out 2>err
    check "list: exit code" 0 $?
    check_has "list: a network" "network red: bridge b0, 500Mbit/s; hosts red1, red2, gate" out
    check_has "list: a host" "host gate: eth0 10.1.0.3/16 on red; fast1 10.2.0.3/16 on blue" out
    for f in "$top"/examples/topology/*.conf; do
        within $limit "$madlab" run "$f" --quiet -- sh -c 'for h in $(echo $MADLAB_HOSTS | tr , " "); do $MADLAB_AGENT $h hostname; done' >out 2>err
        check "example ${f##*/}: exit code" 0 $?
        check "example ${f##*/}: every host" "$("$madlab" list "$f" | grep -c '^host')" $(($(wc -l <out) + 1))
    done
    lab --dry-run --at 2:kill:red1 --at 1:cut:blue -- echo text
    check "dry run: in the order of time" "command on host launch: echo text,at 1:cut:blue,at 2:kill:red1," \
        "$(grep -A9 '^command' out | tr '\n' ,)"
    echo 'hostname; exit 3' | within $limit "$madlab" shell clusters.cfg red2 --quiet >out 2>err
    check "shell: exit code" 3 $?
    check_has "shell: on that host" red2 out
    SHELL=/nowhere within $limit "$madlab" shell clusters.cfg red2 --quiet >out 2>err </dev/null
    check "shell: SHELL is not there" 0 $?
}

# The root is a folder that is not a mount point, below mounts that other processes share.
test_chroot() {
    if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
        echo "# chroot: only root can make one: left out"
        return
    fi
    mkdir root
    for d in etc usr proc sys dev tmp mnt run build lab; do mkdir root/$d; done
    for l in bin sbin lib lib64; do [ ! -L /$l ] || cp -a /$l root; done
    cp clusters.cfg root/lab
    cat >chroot.sh <<'EOF'
mount --make-rprivate / && mount --bind . . && mount --make-shared . && cd "$PWD" || exit 1
for d in etc usr dev sys; do mount --rbind /$d root/$d || exit 1; done
mount -t proc proc root/proc && mount --bind "$1" root/build || exit 1
before=$(wc -l </proc/self/mountinfo)
chroot root sh -c 'cd /lab && /build/madlab run clusters.cfg --quiet -- sh -c "/build/madrun -n 2 --hosts red1,gate \
    --launch-agent \$MADLAB_AGENT hostname && unshare -m true && echo private"'
echo "exit code $?, $(($(wc -l </proc/self/mountinfo) - before)) mounts are left"
EOF
    within $limit unshare -m sh chroot.sh "$BUILD" >out 2>err </dev/null
    check "chroot: hosts" "[0] red1,[1] gate," "$(grep '^\[' out | sort | tr '\n' ,)"
    check_lines "chroot: its root is a mount point" 1 '^private$' out
    check_lines "chroot: nothing is left" 1 '^exit code 0, 0 mounts are left$' out
    [ -z "$(sort -u err | grep -v latency)" ] || sed 's/^/# /' err
}

# madlab --rdma: its command line; tests/lab/rdma_check.sh runs guests
test_rdma() {
    MADLAB_GUESTS=$top/tests/lab "$madlab" --rdma >out 2>&1
    check "madlab --rdma alone prints its options" "2 1" "$? $(grep -c -- '--guests N' out)"
    MADLAB_GUESTS=$dir/nowhere "$madlab" --rdma -- true >out 2>&1
    check "madlab --rdma without its files says so" "125 1" "$? $(grep -c 'nowhere/guests.sh: No such file' out)"
}

for t in ${TESTS:-separate no_sandbox routes rates bridges cut kill agent madrun left user errors chroot rdma}; do
    "test_$t"
done
[ $failures = 0 ]

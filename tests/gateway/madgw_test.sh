#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# madrun --topology and madgw: a job in two clusters that only the launch host reaches.  Gateways are killed, requested
# to end, and started by hand.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd) || exit 1
. "$here/../harness/checks.sh"
madrun=$BUILD/madrun
across=$BUILD/tests/across
export LC_ALL=C

# ---- Outside: what needs no lab, then the lab

# wrong NAME TEXT ARGUMENTS...: checks that nothing is started, and this text is printed
wrong() {
    name=$1 text=$2
    shift 2
    within $limit "$madrun" "$@" true >"$dir/out" 2>"$dir/err"
    check "$name: exit code" 2 $?
    check_has "$name: is said" "$text" "$dir/err"
}

outside() {
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 143' TERM INT HUP
    cd "$dir" || exit 1
    cat >two.conf <<'END'
networks = {
    red  = { driver = "tcp"; hosts = "red[0-1], gate"; };
    blue = { driver = "tcp"; hosts = "blue[0-1], gate"; };
};
END
    sed 's/blue\[0-1\], //; s/red\[0-1\], /red0, /' two.conf >one_cluster.conf
    echo 'networks = { red = { driver = "tpc"; hosts = "a"; }; };' >bad.conf
    wrong "no such file" "'nosuch.conf' cannot be read: No such file" --topology nosuch.conf -n 1
    wrong "a wrong file" "bad.conf:1: " --topology bad.conf -n 1
    wrong "no such host" "'rde0' is neither a host nor a cluster of two.conf; did you mean 'red0'?" --topology two.conf -n 1 --hosts rde0
    wrong "no room" "the hosts have room for 2" --topology two.conf -n 3 --hosts red:1
    wrong "gateways" "give restart, once or none" --topology two.conf -n 1 --gateways often
    wrong "around: -n" "--around: -n is not for another launcher" --topology two.conf --around -n 2
    wrong "around: no topology" "--around: gateways between which clusters?" --around
    wrong "around: restart" "give once or none with --around" --topology two.conf --around --gateways restart
    within $limit env MAD_TOPOLOGY=two.conf MAD_HOST=red0 MAD_GATEWAYS=0123 "$BUILD/tests/world" listen >out 2>err
    check "a gateway's address that is none: exit code" 1 $?
    check_has "a gateway's address that is none: is said" "MAD_GATEWAYS: value 1 is no address" out err
    digits=$(od -An -v -tx1 two.conf | tr -d ' \n')
    within $limit env MAD_TOPOLOGY="hex:$digits" MAD_HOST=red0 "$BUILD/tests/world" listen >out 2>err
    check_has "a topology's text" "virtual" out
    within $limit "$BUILD/madgw" >out 2>err
    check "madgw alone: exit code" 1 $?
    check_has "madgw alone: is said" "no launcher has started this process as a gateway" err
    install -m 600 two.conf private # this file holds a key, so only its owner may read it
    within $limit "$BUILD/madgw" --join private >out 2>err
    check "madgw: a file that is none: exit code" 1 $?
    check_has "madgw: a file that is none: is said" "line 1 is not understood" err
    within $limit "$BUILD/madgw" --cores 0-x >out 2>err
    check "madgw: cores: exit code" 2 $?

    within 30 "$BUILD/madlab" run two.conf --quiet -- true >out 2>&1
    rc=$?
    if [ $rc -ne 0 ]; then
        echo "# no lab here: $(tail -1 out)"
        [ $failures = 0 ]
        return
    fi
    cat >parallel.conf <<'END'
networks = {
    red  = { driver = "tcp"; hosts = "red[0-1], gate[0-1]"; };
    blue = { driver = "tcp"; hosts = "blue[0-3], gate[0-1]"; };
};
END
    lab parallel.conf daemons
    cat >chain.conf <<'END'
networks = {
    north  = { driver = "tcp"; hosts = "north, gate0"; };
    middle = { driver = "tcp"; hosts = "gate0, middle, gate1"; };
    south  = { driver = "tcp"; hosts = "gate1, south"; };
};
END
    lab chain.conf later
    cat >far.conf <<'END'
networks = {
    red  = { driver = "tcp"; hosts = "red, gate0"; };
    one  = { driver = "tcp"; hosts = "gate0, middle"; };
    two  = { driver = "tcp"; hosts = "middle, gate1"; };
    blue = { driver = "tcp"; hosts = "gate1, blue"; };
};
END
    lab far.conf nobody_between
    { cat two.conf; echo 'virtual_channels = { across = { over = "red, blue"; }; };'; } >lanes.conf
    lab lanes.conf reached
    lab two.conf ${TESTS:-places counted kill dies first behind unreached drain by_hand around}
    [ $failures = 0 ]
}

# lab FILE TEST...: runs these tests in a lab
lab() {
    file=$1
    shift
    TESTS="$*" TOPOLOGY=$file within 280 "$BUILD/madlab" run "$file" --quiet --share "$here/../.." --timeout 270 -- \
        sh "$here/madgw_test.sh" || failures=$((failures + 1))
}

# ---- Inside, on the launch host

# run ARGUMENTS...: runs madrun; exit status in $code, output in ./out and ./err.  Other hosts cannot see the file.
run() {
    within $limit "$madrun" --topology /tmp/only_here.conf --launch-agent "$MADLAB_AGENT" "$@" >out 2>err </dev/null
    code=$?
}

# start ARGUMENTS...: starts madrun in the background, with descriptor 8 as its input
start() {
    rm -f input job gateway gateway[0-9] # remove the messages of an earlier job
    mkfifo input
    "$madrun" --topology /tmp/only_here.conf --launch-agent "$MADLAB_AGENT" --timeout $limit "$@" >out 2>err <input &
    job=$!
    exec 8>input
}
# finish NAME CODE: ends the started job, and checks its exit status
finish() {
    exec 8>&-
    wait $job
    check "$1: exit code" "$2" $?
}
has() { grep -qE -- "$1" out err; }
# seen NAME PATTERN: waits until a line matches
seen() { if wait_for has "$2"; then ok "$1"; else not_ok "$1" "no '$2' in:" "$(tail -n 20 out err)"; fi; }
# tell SIGNAL PROGRAM HOST: sends the signal to all processes of this program on the host
tell() {
    "$MADLAB_AGENT" "$3" sh -c 'for p in /proc/[0-9]*; do
        case $(cat $p/comm 2>/dev/null) in *'"$2"') kill -'"$1"' ${p#/proc/} ;; esac; done'
}
# signal_gateway SIGNAL [HOST]: sends the signal to all madgw on the gateway
signal_gateway() {
    tell "$1" madgw "${2:-gate}"
}

test_places() {
    run -n 4 sh -c 'echo "$(hostname) $MAD_HOST $(grep -c red $MAD_TOPOLOGY)"'
    check "places: hosts that do not forward, and the file everywhere" \
        "[0] red0 red0 1,[1] red1 red1 1,[2] blue0 blue0 1,[3] blue1 blue1 1," "$(sort out | tr '\n' ,)"
    run -n 2 hostname
    check "places: fewer are spread" "[0] red0,[1] blue0," "$(sort out | tr '\n' ,)"
    run -n 5 --hosts blue:2,red1 hostname
    check "places: clusters and numbers" "[0] blue0,[1] blue0,[2] blue1,[3] blue1,[4] red1," "$(sort out | tr '\n' ,)"
    run -n 5 -v "$across" all
    check "all: exit code" 0 $code
    check_has "all: ranks are those that were asked for" "all-to-all: 5 ranks" out
    check_has "all: the gateway is said" "madrun: host gate: a gateway" err
    check_has "all: and labelled" "[gateway gate] madgw: host gate: drained, ends" err
    run -n 3 -v --hosts red0,gate,blue0 "$across" all
    check "all, a rank on the gateway: exit code" 0 $code
    check_lines "all, a rank on the gateway: no other one is started" 0 'a gateway' err
    run -n 2 -v --hosts red "$across" all
    check_lines "all in one cluster: none is started" 0 'a gateway' err
    run -n 2 --gateways none --env MAD_CONNECT_TIMEOUT=2000 "$across" ask 1
    check "no gateway: it fails" 1 $((code > 0))
    run -n 2 sh -c '[ $PMI_RANK = 0 ] || exit 7; exec sleep 1000'
    check "exit code: of the one that failed, the gateway ends too" 7 $code
}

# as_processes HOST: prints the number of processes that the processes of a session there assume
as_processes() { "$MADLAB_AGENT" "$1" "$BUILD/mad_info" stats all --json 2>/dev/null | grep -o '"processes": [0-9]*,' | sort -u; }

# Waiting threads spin only if each has a processor: two ranks and the gateway on the same host are three processes.
test_counted() {
    start -n 2 -v "$across" ask 2
    seen "counted: ready" 'madgw: host gate: ready$'
    echo one >&8
    seen "counted: both are there" 'answered: one'
    for host in red0 gate; do
        check "counted: processes of the job as waits on $host see them" '"processes": 3,' "$(as_processes $host)"
    done
    echo two >&8
    finish counted 0
}

test_kill() {
    start -n 2 -v "$across" ask 1
    seen "kill: ready" 'madgw: host gate: ready$'
    signal_gateway KILL
    seen "kill: is said" "the gateway on host 'gate' was ended by signal 9 \(Killed\); starting it again"
    seen "kill: the new one calls" 'madgw: host gate: reached 2 processes'
    echo one >&8
    seen "kill: the new one is used" 'answered: one'
    finish kill 0
    start -n 2 --gateways once "$across" ask 2
    echo one >&8
    seen "kill, once: before" 'answered: one'
    signal_gateway KILL
    seen "kill, once: is said" "the gateway on host 'gate' was ended by signal 9 \(Killed\); going on without it"
    echo two >&8
    seen "kill, once: the program gets a report" 'failed: '
    finish "kill, once" 3
}

# Each gateway is killed as soon as it has come up.
test_dies() {
    start -n 2 -v "$across" ask 1
    kills=0
    paused() {
        ready=$(grep -c 'madgw: host gate: ready' err)
        [ "$ready" = $kills ] || signal_gateway KILL
        kills=$ready
        has "$1"
    }
    for pause in 0.2 0.4; do
        again="ended by signal 9 \(Killed\); starting it again in $pause s, because it had joined only .* up to 30 s"
        if wait_for paused "$again"; then ok "dies: pause of $pause s"; else not_ok "dies: pause of $pause s" "$(tail -n 20 err)"; fi
    done
    echo one >&8
    seen "dies: the one that lives is used" 'answered: one'
    finish dies 0
}

# The first message to a peer, just after the gateway on its path has died: it waits for another gateway, until the
# deadline.
test_first() {
    start -n 2 --gateways none --job-file job --env MAD_FORWARD_DEADLINE=${limit}000 \
        --env MAD_CONNECT_TIMEOUT=${limit}000 "$across" ask 1
    wait_for test -s job
    "$MADLAB_AGENT" gate "$BUILD/madgw" -v --join job 2>gateway &
    wait_for grep -qs 'reached 2 processes' gateway
    signal_gateway KILL
    seen "first: it is lost" "peer [0-9]*: the peer died"
    echo one >&8
    "$MADLAB_AGENT" gate "$BUILD/madgw" -v --join job 2>gateway &
    seen "first: the next one is used" 'answered: one'
    finish first 0
    start -n 2 --gateways once --env MAD_FORWARD_DEADLINE=1000 -v "$across" ask 1
    seen "first, and no other: ready" 'madgw: host gate: ready$'
    signal_gateway KILL
    seen "first, and no other: it is lost" 'going on without it'
    echo one >&8
    seen "first, and no other: the program gets a report" 'failed: '
    finish "first, and no other" 3
    check_has "first, and no other: why" 'no path for 1' out err
    wait
}

# The gateway does not come up with the job, but only when it is started again: the first message waits for it.
test_behind() {
    printf '#!/bin/sh\n[ "$1" != gate ] || ! mkdir /tmp/failed || exit 1\nexec "$MADLAB_AGENT" "$@"\n' >agent
    chmod +x agent
    start -n 2 --launch-agent "$PWD/agent" -v "$across" ask 1
    echo one >&8
    seen "behind: is said" "host 'gate' .*starting it again"
    seen "behind: the one that comes later is used" 'answered: one'
    finish behind 0
}

# The first message to a process whose network is cut: a process that may exist, and is only unreachable now, is never
# reported as gone.  Its host does not answer; then the gateway's host has no network itself.
test_unreached() {
    for host in blue0 gate; do
        start -n 2 --hosts red0,blue0 --env MAD_FORWARD_DEADLINE=${limit}000 --env MAD_CONNECT_TIMEOUT=${limit}000 -v \
            "$across" ask 1
        seen "unreached ($host): ready" 'madgw: host gate: ready$'
        interface=$([ $host = gate ] && echo eth1 || echo eth0)
        "$MADLAB_AGENT" $host ip link set $interface down
        "$MADLAB_AGENT" gate ip neighbour flush dev eth1 # otherwise it would use entries of earlier tests for a long time
        echo one >&8
        seen "unreached ($host): is said" '(No route to host|Network is unreachable)'
        "$MADLAB_AGENT" $host ip link set $interface up
        seen "unreached ($host): goes on" 'answered: one'
        finish "unreached ($host)" 0
    done
}

test_drain() {
    start -n 2 -v "$across" ask 2
    echo one >&8
    seen "drain: before" 'answered: one'
    signal_gateway TERM
    echo two >&8
    seen "drain: what passes goes on" 'answered: two'
    finish drain 0
    seen "drain: ends by itself" 'madgw: host gate: drained, ends'
    start -n 2 -v "$across" ask 2
    echo one >&8
    seen "end at once: before" 'answered: one'
    told_again() { # two signals before the gateway reads them count as one
        signal_gateway TERM
        has 'received a second signal to end'
    }
    signal_gateway TERM
    if wait_for told_again; then ok "end at once: is said"; else not_ok "end at once: is said" "$(tail -n 20 out err)"; fi
    seen "end at once: is not started again" "ended with exit code 143; going on without it"
    echo two >&8
    finish "end at once" 3
}

# join HOST: starts a gateway in the background, with the job's file, or ($how) with its own address added to the file
join() {
    joined=$1
    rm -f "$joined" # remove the messages of the gateway before
    if [ "$how" = file ]; then
        "$MADLAB_AGENT" "$joined" "$BUILD/madgw" -v --join job 2>"$joined" &
    else
        "$MADLAB_AGENT" "$joined" "$BUILD/madgw" -v --join - --tell <job 2>"$joined" >>job &
    fi
    up() { grep -qs ': reached' "$joined"; }
    if wait_for up; then ok "nobody between: ready"; else not_ok "nobody between: ready" "$(cat "$joined" err)"; fi
}
# Gateways that join by hand, and have no common neighbour through which they could learn of each other.  The job's file
# names them.  If hosts do not share the file, the user that starts the gateways adds the line.  The file also names a
# gateway that has died; a gateway that could have reached only that one must not take this for the end of the job.
test_nobody_between() {
    for how in file line; do
        start -n 2 --hosts red,blue --gateways none --job-file job "$across" ask 1
        wait_for test -s job
        if [ $how = file ]; then
            join gate0
            signal_gateway KILL gate0
            wait $!
        fi
        for host in middle gate1 gate0; do join $host; done
        echo one >&8
        seen "nobody between: all are used ($how)" 'answered: one'
        finish "nobody between" 0
        gone() { [ "$(cat gate0 middle gate1 | grep -c 'all processes of the job have gone')" = 3 ]; }
        wait_for gone
        check "nobody between: they end with the job" 0 $?
    done
}

test_by_hand() {
    start -n 2 --gateways none --bind core --job-file job "$across" ask 1
    wait_for test -s job
    check "by hand: the file is for its owner alone" 600 "$(stat -c %a job)"
    "$MADLAB_AGENT" gate "$BUILD/madgw" --join - -v <job >gateway 2>&1 &
    gateway=$!
    ready() { grep -qs 'reached 2 processes' gateway; }
    if wait_for ready; then ok "by hand: ready"; else not_ok "by hand: ready" "$(cat gateway err)"; fi
    # Each rank is bound to a core.  Only processes that share the gateway's processors count; before, the gateway
    # counted all processes that it knew of, and took the host for oversubscribed.
    if [ "$(nproc)" = 1 ]; then alone=3; else alone=1; fi
    check "by hand: only those that share its processors are counted" "\"processes\": $alone," "$(as_processes gate)"
    echo one >&8
    seen "by hand: is used" 'answered: one'
    finish "by hand" 0
    check "by hand: the file is gone" 1 "$([ ! -e job ] && echo 1)"
    wait $gateway
    check "by hand: ends with the job" 0 $?
    check_has "by hand: and says so" "all processes of the job have gone" gateway
    "$MADLAB_AGENT" red0 "$BUILD/madgw" --join two.conf >gateway 2>&1
    check "by hand: not a job's file" 1 $?
}

# A gateway reports the number of processes that it has reached, and not the number of connections, which is larger with
# several lanes.
test_reached() {
    start -n 3 --hosts red0,blue0,blue1 --gateways none --job-file job "$across" ask 2
    wait_for test -s job
    tell STOP across blue1 # stopped, so that it reports this only when messages have passed
    "$MADLAB_AGENT" gate env MAD_LOG=info "$BUILD/madgw" --join - -v <job >gateway 2>&1 &
    gateway=$!
    both() { [ "$(grep -c "tcp: info: peer [12]: .* is used" gateway)" = 2 ]; }
    if wait_for both; then ok "reached: two are connected"; else not_ok "reached: two are connected" "$(cat gateway)"; fi
    echo one >&8
    seen "reached: is used" 'answered: one'
    tell CONT across blue1
    ready() { grep -qs ': reached' gateway; }
    if wait_for ready; then ok "reached: is said"; else not_ok "reached: is said" "$(cat gateway err)"; fi
    check_has "reached: processes" "connects to 3 processes" gateway
    check_has "reached: and they are counted once" "reached 3 processes" gateway
    echo two >&8
    finish "reached: job" 0
    wait $gateway
}

# Another launcher, started among gateways: the errors that it gets, and its end.
test_around() {
    run -v --env GIVEN=1 --around sh -c 'env; exit 7'
    check "around: exit code" 7 $code
    check_has "around: is said" "madrun: sh ended with exit code 7" err
    check_has "around: the gateway is said" "[gateway gate] madgw: host gate: ready" err
    digits=$(od -An -v -tx1 /tmp/only_here.conf | tr -d ' \n')
    check "around: the topology" "$digits" "$(sed -n 's/^MAD_TOPOLOGY=hex://p' out)"
    check_lines "around: one gateway's address" 1 '^MAD_GATEWAYS=[0-9a-f]{100,}$' out
    check_lines "around: a key" 1 '^MADELEINE_KEY=[0-9a-f]{64}$' out
    check_lines "around: no rank" 0 '^(MAD_BOOT_FD|PMI_RANK)=' out
    check_lines "around: Open MPI passes them on" 1 \
        '^OMPI_MCA_mca_base_env_list=.*GIVEN;MAD_TOPOLOGY;MAD_GATEWAYS;MADELEINE_KEY$' out
    run -v --around --gateways none sh -c 'echo "gateways:$MAD_GATEWAYS"'
    check "around, no gateways: exit code" 0 $code
    check_has "around, no gateways: there is none" "gateways:" out
    check_lines "around, no gateways: and none is started" 0 'a gateway' err
    echo text | within $limit "$madrun" --topology /tmp/only_here.conf --launch-agent "$MADLAB_AGENT" --around cat >out 2>err
    check "around: its input" text "$(cat out)"
    run --launch-agent false --around echo started
    check "around, no gateway starts: exit code" 1 $((code > 0))
    check_has "around, no gateway starts: is said" "no gateway is there; 'echo' is not started" err
    check "around, no gateway starts: nor is the launcher" "" "$(cat out)"
}

# If a daemon forwards, no rank forwards: neither on the daemon's host nor on another host that could.
test_daemons() {
    run -n 8 -v --hosts red,blue,gate0,red0 "$across" routes
    check "daemons: exit code" 0 $code
    check_lines "daemons: one gateway has a rank, and no daemon" 1 'a gateway$' err
    check_lines "daemons: all go through the other one" 24 'route: [a-z0-9]* gate1 ' out
    check_lines "daemons: and none through the rank" 0 'route: [a-z0-9]* gate0 ' out
    start -n 3 --hosts red0,blue0,gate0 --gateways none --job-file job "$across" ask 2
    wait_for test -s job
    "$MADLAB_AGENT" gate0 "$BUILD/madgw" --join - -v <job >gateway 2>&1 &
    gateway=$!
    ready() { grep -qs 'reached 3 processes' gateway; }
    if wait_for ready; then ok "daemons: ready"; else not_ok "daemons: ready" "$(cat gateway err)"; fi
    echo one >&8
    seen "daemons: the one beside a rank is used" 'answered: one'
    "$MADLAB_AGENT" gate0 "$BUILD/mad_info" stats all >stats 2>&1
    check "daemons: and not the rank" "madgw 1,across 0," \
        "$(sed -n 's/^process [0-9]* (\(.*\)) .*/\1/p; s/.*; \([0-9]*\) streams pass.*/\1/p' stats | paste -d ' ' - - |
            sed 's/^lt-//' | sort -r | tr '\n' ,)"
    echo two >&8
    finish "daemons: job" 0
    wait $gateway
    check "daemons: ends with it" 0 $?
}

# Two gateways that start after the job, one behind the other: they learn of each other from the process that both have
# connected to.
test_later() {
    start -n 3 --hosts north,south,middle --gateways none --job-file job "$across" ask 1
    wait_for test -s job
    for i in 0 1; do
        "$MADLAB_AGENT" gate$i env MAD_LOG=info "$BUILD/madgw" --join - -v <job >gateway$i 2>&1 &
        ready() { grep -qs 'reached 2 processes' gateway$i; }
        if wait_for ready; then ok "later: ready"; else not_ok "later: ready" "$(cat gateway$i err)"; fi
    done
    announced() { grep -q 'was announced by another process: it forwards on gate1' gateway0 && grep -q 'was announced by another process: it forwards on gate0' gateway1; }
    if wait_for announced; then ok "later: announced"; else not_ok "later: announced" "$(cat gateway0 gateway1)"; fi
    echo one >&8
    seen "later: both are used" 'answered: one'
    finish "later: job" 0
    gone() { [ "$(cat gateway0 gateway1 | grep -c 'all processes of the job have gone')" = 2 ]; }
    if wait_for gone; then ok "later: they end with it"; else not_ok "later: they end with it" "$(cat gateway0 gateway1)"; fi
}

inside() {
    cp "$TOPOLOGY" /tmp/only_here.conf
    for t in $TESTS; do
        "test_$t"
    done
    [ $failures = 0 ]
}

if [ -n "$MADLAB_AGENT" ]; then inside; else outside; fi

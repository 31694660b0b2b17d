#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two clusters with two gateways, in a lab (madlab).  Gateways are killed and stopped in the middle of messages of 64
# MiB, and their cables are cut.  Every message arrives once, in order, and whole, and continues within twice the time
# of detection.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd) || exit 1
. "$here/../harness/checks.sh"
across=$BUILD/tests/across
export LC_ALL=C

# ---- Outside

# lab NAME [OPTION]...: runs the test in a lab of its own; the output of madlab is in ./lab
lab() {
    name=$1
    shift
    within 100 "$BUILD/madlab" run two.conf "$@" --share "$here/../.." --timeout 90 -- sh "$here/failover_lab_test.sh" "$name" \
        >out 2>lab
    rc=$?
    grep '^\(ok\|not ok\|#\|  \)' out
    check "$name: exit code" 0 $rc
}

outside() {
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 143' TERM INT HUP
    cd "$dir" || exit 1
    for net in red blue; do
        echo "$net = { driver = \"tcp\"; hosts = \"${net}0, gate[0-1]\"; bandwidth = \"1Gbit/s\"; };"
    done >nets
    { echo 'networks = {' && cat nets && echo '};' && echo 'gateways = "gate[0-1]";'; } >two.conf
    within 30 "$BUILD/madlab" run two.conf --quiet -- true >out 2>&1
    rc=$?
    if [ $rc -ne 0 ]; then
        echo "skipped: no lab here: $(tail -1 out)"
        exit 77
    fi
    lab kill
    lab stop
    lab cut --at 2:cut:gate0 --at 4:restore:gate0 --at 5:cut:gate1
    lab far --at 2:cut:blue/gate0 --at 4:restore:blue/gate0 --at 5:cut:blue/gate1
    [ $failures = 0 ]
}

# ---- Inside, on the launch host

# start BYTES: starts the stream; its input is descriptor 8
start() {
    mkfifo input
    "$BUILD/madrun" --no-label -n 2 --topology two.conf --launch-agent "$MADLAB_AGENT" --timeout 80 --env MAD_FORWARD_DETECT=1000 \
        --env MAD_PROGRESS_THREAD=1 -v "$across" stream "$1" >stream 2>err <input &
    job=$!
    exec 8>input
    further 2
}
count() { sed -n 's/^sending //p' stream | tail -1; }
beyond() { [ "$(count)" -gt "$1" ] 2>/dev/null; }
# further N: waits until N more messages have begun
further() {
    from=$(count)
    wait_for beyond $((${from:--1} + $1))
}
# gone_on AFTER: checks that the messages in flight have arrived, and the next one has begun
gone_on() {
    if further 1; then ok "$name: goes on after $1"; else not_ok "$name: goes on after $1" "$(tail -n 5 stream err)"; fi
}
# signal_gateway SIGNAL HOST
signal_gateway() {
    "$MADLAB_AGENT" "$2" sh -c 'for p in /proc/[0-9]*; do
        case $(cat $p/comm 2>/dev/null) in *madgw) kill -'"$1"' ${p#/proc/} ;; esac; done'
}
finish() {
    echo >&8
    exec 8>&-
    wait $job
    check "$name: the job's exit code" 0 $?
    check_has "$name: all came" ' messages came once, in order, and whole' stream
    longest=$(sed -n 's/.*the longest took \([0-9]*\) ms/\1/p' stream)
    check "$name: nothing waited for the network's own time-outs ($longest ms)" 1 $((${longest:-99999} < 20000))
}
has() { grep -q "$1" "$2"; }
# happens TEXT FILE: waits until the file contains the text
happens() { wait_for has "$1" "$2" || not_ok "$name: '$1' is said"; }

inside() {
    name=$1
    rm -f input
    start $((64 << 20))
    case $name in
    kill)
        signal_gateway KILL gate0
        gone_on "the kill of one"
        happens "madgw: host gate0: reached" err
        signal_gateway KILL gate1
        gone_on "the kill of the other"
        ;;
    stop)
        signal_gateway STOP gate0
        gone_on "one hangs"
        signal_gateway CONT gate0
        signal_gateway STOP gate1
        gone_on "the other hangs"
        signal_gateway CONT gate1
        ;;
    cut | far)
        happens 'gate0.* is cut' lab
        gone_on "the cables of one are cut"
        happens 'gate1.* is cut' lab
        gone_on "those of the other are, and the first is back"
        ;;
    esac
    finish
    [ $failures = 0 ]
}

if [ -n "$MADLAB_AGENT" ]; then inside "$1"; else outside; fi

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A hundred streams through one gateway, one of which has a stuck receiver (streams.c): stopped, or computing, or
# receiving no message.  The gateway's memory stays within its bound, the other streams get their share, and at the end
# everything arrives.  The test runs twice.  With processes on this host, streams compete for the processors, and the
# scheduler mostly decides their shares, so shares are only printed.  In a lab (madlab), streams compete for a slow
# network, and the gateway decides.  LONG=1: longer.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
. "$here/ways.sh"

senders=11 receivers=9 # with the stuck stream: 100 streams
measured=1 # seconds
[ -z "$LONG" ] || measured=10

# number NAME: prints this value from the line that the gateway printed
number() { sed -n "s/^{.*\"$1\": *\([0-9.]*\).*/\1/p" "$dir/out"; }
# look NAME STUCK LEAST: checks the gateway's output after such a run; the ratio must be at least LEAST
look() {
    if ! grep -q '^{"test":"streams"' "$dir/out"; then
        not_ok "$1 ran" "$(tail -20 "$dir/out")"
        return
    fi
    check "$1: the stuck one gets nothing more" $((2 * $(number length))) "$(number single)"
    if awk "BEGIN { exit !($(number ratio) >= $3) }"; then
        ok "$1: the least of the others has $(number ratio) of the mean"
    else
        not_ok "$1: the least of the others has $(number ratio) of the mean, not $3" "$(cat "$dir/out")"
    fi
    if [ "$(number bytes_held_most)" -le "$(number budget)" ] && [ "$(number grown)" -le "$(number budget)" ]; then
        ok "$1: at most $(number bytes_held_most) bytes were held"
    else
        not_ok "$1: memory" "$(cat "$dir/out")"
    fi
    # At the stop, data in flight has filled the window on this host.
    [ "$2" != stop ] || [ "$(number bytes_held_most)" -ge 30000 ] || not_ok "$1: something waited" "$(cat "$dir/out")"
    check "$1: nothing is held afterwards" 0 "$(number bytes_held)"
}
# A sender to the stuck process may have all of its messages in flight: more than the sockets hold, and more than the
# default window.
MAD_FORWARD_WINDOW=64M
export MAD_FORWARD_WINDOW

# patient COMMAND...: runs it with --seconds, and with more seconds if the host was too slow
patient() {
    for time in $measured $((4 * measured)) $((16 * measured)); do
        "$@" --seconds "$time" >"$dir/out" 2>&1
        [ $? = 3 ] || return
    done
}
# on_host WAY STUCK
on_host() {
    ways_a=0-$((senders - 1)) ways_b=$senders-$((senders + receivers))
    patient on "$1" $((senders + receivers + 2)) "$BUILD/tests/streams" --stuck "$2" $senders $receivers
    look "$1, $2" "$2" 0
}
for way in $ways; do
    on_host "$way" stop
done
for stuck in compute forget; do
    on_host "${ways%% *}" $stuck
done

# In the lab: network red has 10 Gbit/s, blue has 1.
cat >"$dir/job" <<'END'
#!/bin/sh
n=$1 hosts=$2
shift 2
exec "$MADRUN" --no-label -n "$n" --hosts "$hosts" --launch-agent "$MADLAB_AGENT" --env MAD_TOPOLOGY="$MADLAB_TOPOLOGY" "$@"
END
chmod +x "$dir/job"
MADRUN=$BUILD/madrun
export MADRUN
lab() { within 60 "$BUILD/madlab" run "$here/../../examples/topology/two_clusters.conf" --quiet "$@"; }
if ! (cd "$BUILD" && lab -- true) >"$dir/out" 2>&1; then
    echo "# no lab here: $(tail -1 "$dir/out")"
elif grep -q sch_tbf "$dir/out"; then
    echo "# networks cannot be limited here: $(tail -1 "$dir/out")"
else
    measured=$((2 * measured))
    cd "$BUILD" || exit 1
    patient lab --share "$dir" --share "$here/../.." -- "$dir/job" $((senders + receivers + 2)) \
        "red0:$senders,blue0:$((receivers + 1)),gate" "$BUILD/tests/streams" --stuck stop $senders $receivers
    look "lab, stop" stop 0.5
fi
[ $failures = 0 ]

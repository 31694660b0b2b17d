#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A hundred streams through one gateway, of which one has a stuck receiver (streams.c): stopped, or computing, or taking no
# message.  The gateway's memory stays within its bound, the others get their share, and afterwards everything comes.
# Twice: with processes on this host, where the processors are what the streams compete for and shares are mostly what the
# scheduler makes of them, so they are only printed; and in a lab (madlab), where a slow network is, and the gateway
# decides.  LONG=1: longer.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
. "$here/ways.sh"

senders=11 receivers=9 # and the stuck one: 100 streams
measured=1 # seconds
[ -z "$LONG" ] || measured=10

# number NAME: of the line that the gateway has printed
number() { sed -n "s/^{.*\"$1\": *\([0-9.]*\).*/\1/p" "$dir/out"; }
# look NAME STUCK LEAST: what the gateway printed after such a run; the ratio is not below LEAST
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
    # Data in flight at the stop has filled the window here.
    [ "$2" != stop ] || [ "$(number bytes_held_most)" -ge 30000 ] || not_ok "$1: something waited" "$(cat "$dir/out")"
    check "$1: nothing is held afterwards" 0 "$(number bytes_held)"
}
# A sender to the stuck process may have all of its messages under way: more than sockets take, which is more than the
# default.
MAD_FORWARD_WINDOW=64M
export MAD_FORWARD_WINDOW

# patient COMMAND...: with --seconds, and more of them when the host was too slow to get that far
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

# In the lab: red has 10 Gbit/s, blue 1.
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

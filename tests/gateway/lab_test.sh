#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clusters in a lab (madlab): the conformance suite through one gateway, and over three hops through two, of hosts that no
# other way connects.  LONG=1: each test alone.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
topologies=$here/../../examples/topology

within 30 "$BUILD/madlab" run "$topologies/two_clusters.conf" --quiet -- true >"$dir/out" 2>&1
rc=$?
if [ $rc -ne 0 ]; then
    echo "skipped: no lab here: $(tail -1 "$dir/out")"
    exit 77
fi

# Run a job in the lab: job N HOSTS COMMAND...  SHORT=HOST: the kernel holds no more than two fragments for a sender there.
cat >"$dir/job" <<'END'
#!/bin/sh
n=$1 hosts=$2
shift 2
[ -z "$SHORT" ] || "$MADLAB_AGENT" "$SHORT" sh -c 'echo 4096 16384 65536 >/proc/sys/net/ipv4/tcp_wmem' || exit 1
exec "$MADRUN" --no-label -n "$n" --hosts "$hosts" --launch-agent "$MADLAB_AGENT" --env MAD_TOPOLOGY="$MADLAB_TOPOLOGY" \
    --env MAD_PREFER=virtual "$@"
END
chmod +x "$dir/job"
MADRUN=$BUILD/madrun
export MADRUN
cd "$BUILD" || exit 1

# lab NAME TOPOLOGY N HOSTS COMMAND...
lab() {
    name=$1 topology=$2 n=$3 hosts=$4
    shift 4
    if within 150 "$BUILD/madlab" run "$topologies/$topology.conf" --quiet --share "$dir" --share "$here/../.." \
        --timeout 140 -- "$dir/job" "$n" "$hosts" "$@" >"$dir/out" 2>&1; then
        ok "$name"
    else
        not_ok "$name (exit status $?)" "$(grep -v 'message: warning' "$dir/out" | tail -20)"
    fi
}

tests=all
[ -z "$LONG" ] || tests=$("$BUILD/tests/conform" --list | awk '$2 == 2 { print $1 }')
for t in $tests; do
    lab "conform-$t-one-gateway" two_clusters 3 red0,blue0,gate "$BUILD/tests/conform" "$t"
    lab "conform-$t-three-hops" chain 4 north0,south0,gate0,gate1 "$BUILD/tests/conform" "$t"
done
lab "all ranks talk through two gateways" chain 6 north0,south0,gate0,gate1,middle0,north1 "$BUILD/mad_perf" many-to-one \
    --sizes 1K --iters 20 --batches 2

# The timeline of one long message: single fragments are seen in both networks at once.  The slower one is the second, and
# the gateway's kernel holds little, so a fragment is sent for as long as it takes.
if command -v python3 >/dev/null; then
    MAD_TRACE=$dir/trace
    export MAD_TRACE
    SHORT=gate
    export SHORT
    lab "traced" two_clusters 3 red0,blue0,gate "$BUILD/tests/hop" long
    "$BUILD/mad_info" trace merge "$dir"/trace.*.json --output "$dir/all"
    check "merged" 0 $?
    python3 "$here/trace.py" --overlap "$dir"/trace.*.json "$dir/all" >"$dir/told" 2>&1 || not_ok "looked at" "$(cat "$dir/told")"
    grep '^\(ok\|not ok\|#\)' "$dir/told"
    failures=$((failures + $(grep -c '^not ok' "$dir/told")))
fi
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clusters in a lab (madlab): the conformance suite through one gateway, and over three hops through two gateways,
# between hosts without another connection.  LONG=1: each test in a run of its own.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
topologies=$here/../../examples/topology

within 30 "$BUILD/madlab" run "$topologies/two_clusters.conf" --quiet -- true >"$dir/out" 2>&1
rc=$?
if [ $rc -ne 0 ]; then
    echo "skipped: no lab here: $(tail -1 "$dir/out")"
    exit 77
fi

# job N HOSTS COMMAND...: runs a job in the lab.  SHORT=HOST: the kernel of that host holds at most two fragments for a
# sender.
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

# lab NAME TOPOLOGY N HOSTS COMMAND...: runs the command in a lab of its own
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

# The timeline of one long message: single fragments are seen in both networks at once.  The second network is the
# slower one, and the gateway's kernel holds little, so sending a fragment takes as long as its transfer.
if command -v python3 >/dev/null; then
    MAD_TRACE=$dir/trace
    export MAD_TRACE
    SHORT=gate
    export SHORT
    lab "traced" two_clusters 3 red0,blue0,gate "$BUILD/tests/hop" long
    "$BUILD/mad_info" trace merge "$dir"/trace.*.json --output "$dir/all"
    check "merged" 0 $?
    python3 "$here/trace.py" --overlap "$dir"/trace.*.json "$dir/all" >"$dir/report" 2>&1 || not_ok "looked at" "$(cat "$dir/report")"
    grep '^\(ok\|not ok\|#\)' "$dir/report"
    failures=$((failures + $(grep -c '^not ok' "$dir/report")))
fi
[ $failures = 0 ]

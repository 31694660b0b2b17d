#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_perf through a gateway, with processes on this host (a -(shared memory)- g -(tcp)- b): its lines about the path,
# its tests with many streams and with a computing gateway, and fragments of requested lengths.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"

. "$here/ways.sh"

# pairs N COMMAND...: runs N processes at each end, and the gateway
pairs() {
    pairs=$1 ways_a=0-$(($1 - 1)) ways_b=$1-$((2 * $1 - 1))
    shift
    on shm-tcp $((2 * pairs + 1)) "$@" >"$dir/out" 2>"$dir/err"
}

pairs 1 "$BUILD/mad_perf" pingpong --channel wide --sizes 8,1M --iters 2 --batches 2 --json
check "pingpong: exit code" 0 $?
check_lines "pingpong: the way" 2 '"driver": "virtual", .*"route": "a > g > b", "gateways": \["g"\]\}$' "$dir/out"
pairs 3 "$BUILD/mad_perf" streams --pairs 3 --ms 50 --sizes 8,64K --json
check "streams: exit code" 0 $?
check_lines "streams: shares" 2 '"pairs": 3, "least_share": [0-9.]+' "$dir/out"
pairs 1 "$BUILD/mad_perf" beside --ms 500 --sizes 64K --json
check "beside: exit code" 0 $?
check_lines "beside: what was lost" 1 '"lost_percent": -?[0-9.]+, "forwarding_percent": [0-9.]+' "$dir/out"

for length in 4K 48K 256K; do
    MAD_FORWARD_FRAGMENT=$length MAD_PREFER=virtual pairs 1 "$BUILD/tests/conform" blocks_many
    check "fragments of $length: blocks" 0 $?
done
cat >"$dir/other" <<'END'
#!/bin/sh
[ "$PMI_RANK" != 2 ] || export MAD_FORWARD_FRAGMENT=64K
exec "$@"
END
chmod +x "$dir/other"
pairs 1 "$dir/other" "$BUILD/mad_perf" pingpong --sizes 8 --iters 1 --batches 1
check "a gateway with fragments of its own: exit code" 1 $?
# Either end may report this first, and end the other.
check_has "a gateway with fragments of its own: it is none" "the gateway g has no live process" "$dir/err"
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver eth between two hosts of a lab (madlab): the conformance suite, also over sockets that lose, repeat and reorder
# frames; a process that waits; what is said without the capability.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/eth.so" ] || { echo "skipped: the driver eth is not a module here"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
chmod 755 "$work"
export MAD_MODULES="$BUILD/drivers/.libs" MAD_DRIVERS=self,eth MADRUN="$BUILD/madrun" LOSSY="$BUILD/tests/.libs/eth_lossy.so"

cat >job <<'EOS'
#!/bin/sh
exec "$MADRUN" --no-label -n 2 --hosts red0,red1 --launch-agent "$MADLAB_AGENT" --env MAD_DRIVERS=self,eth \
    --env MAD_ETH_INTERFACES=eth0 --env MAD_MODULES="$MAD_MODULES" "$@"
EOS
chmod +x job
# lab COMMAND...: a command in the lab
lab() {
    within 170 "$BUILD/madlab" run "$here/../../examples/topology/two_clusters.conf" --quiet --share "$work" \
        --share "$here/../.." --timeout 160 -- "$@" >out 2>&1
}
lab true || { echo "skipped: there is no lab here: $(tail -1 out)"; exit 77; }

# agent COMMAND: a command on host red0 of the lab
agent() { lab sh -c "\"\$MADLAB_AGENT\" red0 env MAD_DRIVERS=self,eth MAD_MODULES=\"\$MAD_MODULES\" $1"; }
agent "$BUILD/mad_info"
check_has "mad_info lists the module" "module, loaded: $MAD_MODULES/eth.so" out
check_has "the network is named after the subnet" "eth:10." out
agent "MAD_ETH_INTERFACES=lo $BUILD/mad_info"
check_has "an interface that is not Ethernet is reported" "interface lo is not Ethernet" out
agent "MAD_ETH_INTERFACES=nowhere0 $BUILD/mad_info"
check_has "an interface that does not exist is reported" "interface nowhere0 does not exist" out
if command -v setpriv >/dev/null; then
    agent "setpriv --bounding-set -net_raw --inh-caps -net_raw $BUILD/mad_info"
    check_has "the capability that is needed is reported" "needs the capability CAP_NET_RAW" out
fi

# passes NAME COMMAND...: a job in the lab ends with 0
passes() {
    name=$1
    shift
    lab "$work/job" "$@"
    code=$?
    if [ $code = 0 ]; then ok "$name"; else not_ok "$name: $code" "$(tail -12 out)"; fi
}
passes "blocks of mixed lengths and modes" "$BUILD/mad_perf" mixed --driver eth --iters 20 --batches 2
passes "conformance between two hosts" "$BUILD/tests/conform" all
passes "the same with check sums" --env MAD_ETH_CHECKSUM=1 "$BUILD/tests/conform" all
passes "the same with 3 % loss, repeated and reordered frames, and full queues" --env LD_PRELOAD="$LOSSY" \
    --env "ETH_LOSSY=30 10 30 10" "$BUILD/tests/conform" all
lab "$work/job" "$BUILD/mad_perf" idle --driver eth --sizes 8 --iters 1 --batches 1
busy=$(sed -n 's/.*"cpu_us_per_s": \([0-9]*\).*/\1/p' out)
if [ "${busy:-1000000}" -lt 200000 ]; then
    ok "a process that waits sleeps"
else
    not_ok "a process that waits uses ${busy:-?} us of a processor in a second" "$(tail -5 out)"
fi
[ $failures = 0 ]

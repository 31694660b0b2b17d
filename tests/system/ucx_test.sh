#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver ucx over each transport of UCX that a plain host has: how one is chosen, messages of all lengths, a process that
# waits, two hosts of a lab, and what is left in shared memory.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/ucx.so" ] || { echo "skipped: the driver ucx is not a module here"; exit 77; }
ldconfig -p 2>/dev/null | grep -q 'libucp\.so\.0 ' || { echo "skipped: libucp.so.0 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
memory() { find /dev/shm -user "$(id -u)" -name 'ucx_*' 2>/dev/null | sort; }
before=$(memory)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_DRIVERS=self,ucx

# adapters VARIABLE=VALUE...: the adapters that are open
adapters() {
    env "$@" "$BUILD/mad_info" --json 2>err | python3 -c '
import json, sys
adapters = json.load(sys.stdin)["adapters"]
print(*sorted({a["adapter"] for a in adapters if a["driver"] == "ucx" and a["open"]}))'
}
check "the transports within a host are one adapter" "shm" "$(adapters UCX_TLS=posix,sysv,cma)"
check "an interface is chosen by UCX_NET_DEVICES" "lo" "$(adapters UCX_TLS=tcp UCX_NET_DEVICES=lo)"
check "a worker's transport to itself is not used" "" "$(adapters UCX_TLS=self)"
check_has "and the log says so" "UCX offers no transport between processes here" err
UCX_TLS=posix "$BUILD/mad_info" >out 2>err
check_has "mad_info lists the module" "module, loaded: $MAD_MODULES/ucx.so" out

for tls in tcp posix sysv posix,cma; do
    export UCX_TLS=$tls
    [ -n "$(adapters A=)" ] || { echo "# not tried: $tls, which UCX lacks here"; continue; }
    within 60 "$BUILD/madrun" -n 2 "$BUILD/mad_perf" mixed --driver ucx --iters 20 --batches 2 >out 2>&1
    check "$tls: blocks of mixed lengths and modes" 0 $?
    within 60 "$BUILD/madrun" -n 2 "$BUILD/mad_perf" idle --driver ucx --sizes 8 --iters 1 --batches 1 >out 2>&1
    busy=$(sed -n 's/.*"cpu_us_per_s": \([0-9]*\).*/\1/p' out)
    if [ "${busy:-1000000}" -lt 200000 ]; then
        ok "$tls: a process that waits sleeps"
    else
        not_ok "$tls: a process that waits uses ${busy:-?} us of a processor in a second" "$(tail -5 out)"
    fi
done

# Two hosts of a lab (madlab), over tcp.
cat >job <<'EOF'
#!/bin/sh
exec "$MADRUN" --no-label -n 2 --hosts red0,red1 --launch-agent "$MADLAB_AGENT" --env MAD_DRIVERS=self,ucx --env UCX_TLS=tcp \
    --env MAD_MODULES="$MAD_MODULES" "$@"
EOF
chmod +x job
chmod 755 "$work"
export MADRUN="$BUILD/madrun"
# lab COMMAND...: a job of two hosts, one process each
lab() {
    within 150 "$BUILD/madlab" run "$here/../../examples/topology/two_clusters.conf" --quiet --share "$work" \
        --share "$here/../.." --timeout 140 -- "$@" >out 2>&1
}
if lab true; then
    lab "$work/job" "$BUILD/tests/conform" all
    code=$?
    if [ $code = 0 ]; then ok "conformance between two hosts"; else not_ok "conformance between two hosts: $code" "$(tail -12 out)"; fi
else
    echo "# not tried: two hosts, as there is no lab here: $(tail -1 out)"
fi
check "nothing is left in /dev/shm" "$before" "$(memory)"
[ $failures = 0 ]

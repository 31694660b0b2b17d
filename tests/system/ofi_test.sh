#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver ofi over each provider of libfabric that a plain host has: how one is chosen, messages of all lengths, a
# process that waits, and what is left in /dev/shm.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/ofi.so" ] || { echo "skipped: the driver ofi is not a module here"; exit 77; }
ldconfig -p 2>/dev/null | grep -q 'libfabric\.so\.1 ' || { echo "skipped: libfabric.so.1 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
memory() { find /dev/shm -user "$(id -u)" \( -name '*:*:*' -o -name 'fi_sm2_mmaps' \) 2>/dev/null | sort; }
before=$(memory)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_DRIVERS=self,ofi

# adapters VARIABLE=VALUE...: the providers whose adapters are open
adapters() {
    env "$@" "$BUILD/mad_info" --json 2>err | python3 -c '
import json, sys
adapters = json.load(sys.stdin)["adapters"]
print(*sorted({a["adapter"].split(":")[0] for a in adapters if a["driver"] == "ofi" and a["open"]}))'
}
check "the network's provider is chosen by MAD_OFI_PROVIDERS" "shm" "$(adapters MAD_OFI_PROVIDERS=shm)"
check "or by FI_PROVIDER, a slow one included" "udp+rxd" "$(adapters FI_PROVIDER=udp)"
check "a slow one may be named, too" "sockets" "$(adapters MAD_OFI_PROVIDERS=sockets)"
check "a core provider means what is layered over it" "tcp+rxm" "$(adapters MAD_OFI_PROVIDERS=tcp)"
check "FI_PROVIDER can leave out" "tcp+rxm" "$(adapters FI_PROVIDER='^shm,psm,psm2,psm3,sm2,lnx')"
MAD_OFI_PROVIDERS=shm,psm2 "$BUILD/mad_info" >out 2>err
check_has "mad_info says why one that was named is not used" "not used: libfabric offers no provider psm2 here" out
check_has "and so does the log" "libfabric offers no provider psm2 here" err
check_has "mad_info lists the module" "module, loaded: $MAD_MODULES/ofi.so" out

# The provider shm names an endpoint after its process's number.  This process finds what a killed one of its number left.
cat >left.py <<'END'
import os, struct, sys
path = "/dev/shm/%d:%d:0" % (os.getpid(), os.getuid())
with open("left", "w") as f:
    f.write(path)
with open(path, "wb") as f:  # as in libfabric 1.17: version, flags, process
    f.write(struct.pack("<BBHi", 4, 0, 1, os.getpid()).ljust(65536, b"\0"))
os.execv(sys.argv[1], sys.argv[1:])
END
MAD_OFI_PROVIDERS=shm python3 left.py "$BUILD/mad_info" --json >out 2>err
check_has "a name that a killed process has left is not used again" '"adapter": "shm:shm", "open": true' out
rm -f "$(cat left)"

for provider in tcp+rxm shm udp+rxd sockets; do
    export MAD_OFI_PROVIDERS=$provider
    [ "$(adapters A=)" = "$provider" ] || { echo "# not tried: $provider, which libfabric lacks here"; continue; }
    within 60 "$BUILD/madrun" -n 2 "$BUILD/mad_perf" mixed --driver ofi --iters 20 --batches 2 >out 2>&1
    check "$provider: blocks of mixed lengths and modes" 0 $?
    within 60 "$BUILD/madrun" -n 2 "$BUILD/mad_perf" idle --driver ofi --sizes 8 --iters 1 --batches 1 >out 2>&1
    busy=$(sed -n 's/.*"cpu_us_per_s": \([0-9]*\).*/\1/p' out)
    if [ "${busy:-1000000}" -lt 200000 ]; then
        ok "$provider: a process that waits sleeps"
    else
        not_ok "$provider: a process that waits uses ${busy:-?} us of a processor in a second" "$(tail -5 out)"
    fi
done

# ofi_rxd loses messages of several datagrams if more are in flight than one, and most often on one processor.
if [ "$(MAD_OFI_PROVIDERS=udp+rxd adapters A=)" = udp+rxd ]; then
    lost=
    for _ in 1 2 3 4 5; do
        MAD_OFI_PROVIDERS=udp+rxd MAD_PREFER=ofi within 30 taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" \
            "$BUILD/madrun" -n 2 "$BUILD/tests/conform" runtimes_now >out 2>&1 || lost="$lost $(tail -1 out)"
    done
    check "udp+rxd: no message is lost on one processor" "" "$lost"
fi
# tcp of libfabric 1.17 crashes if the endpoint is closed in the middle of a read.
apart="unshare -pf --kill-child"
[ "$(id -u)" -eq 0 ] || apart="unshare -Urpf --kill-child"
if $apart true 2>/dev/null && [ "$(MAD_OFI_PROVIDERS=tcp+rxm adapters A=)" = tcp+rxm ]; then
    # shellcheck disable=SC2016
    MAD_OFI_PROVIDERS=tcp+rxm MAD_PEER_TIMEOUT=2000 within 60 "$BUILD/madrun" --keep-going -n 2 sh -c \
        '[ $PMI_RANK != 1 ] || exec '"$apart"' sh -c '\''"$0" & sleep 8; kill -9 $!'\'' "$0"; exec "$0"' \
        "$BUILD/tests/stopped_sender" >out 2>&1
    check_lines "the peer stops while a block is read: an error, and an end in order" 1 '^\[0\] in order$' out
    grep -q 'does not end the read' out || echo "# no read was under way when the peer stopped"
fi
check "nothing is left in /dev/shm" "$before" "$(memory)"
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several gateways, all of them processes on this host, whose networks differ in what each process may use, and in their
# names:
#   ring   four networks in a ring, n e s w, joined by four gateways, with ends on each network.  All ends exchange messages,
#          in both directions of the ring, over up to three hops.  This completes even if all windows were full (ring.c).
#   chain  a -(tcp)- g -(shm)- h -(tcp)- b, and the same reversed: the conformance suite over three hops
#   pair   two parallel gateways: both carry traffic
# LONG=1: each test of the suite in a run of its own, and the ring many times.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"
. "$here/ways.sh"

mkdir "$dir/e" "$dir/w"
cat >"$dir/ring.cfg" <<'END'
networks = {
    n = { driver = "tcp"; hosts = "g0, n, g1"; };
    e = { driver = "shm"; hosts = "g1, e, g2"; };
    s = { driver = "tcp"; hosts = "g2, s, g3"; };
    w = { driver = "shm"; hosts = "g3, w, g0"; };
};
gateways = "g[0-3]";
END
echo 'networks = { n = { driver = "tcp"; hosts = "n, g1"; }; e = { driver = "shm"; hosts = "g1, g2"; };
    s = { driver = "tcp"; hosts = "g2, s"; }; };' >"$dir/tcp-shm-tcp.cfg"
echo 'networks = { w = { driver = "shm"; hosts = "w, g0"; }; n = { driver = "tcp"; hosts = "g0, g1"; };
    e = { driver = "shm"; hosts = "g1, e"; }; };' >"$dir/shm-tcp-shm.cfg"
echo 'networks = { n = { driver = "tcp"; hosts = "n, g0, g1"; }; e = { driver = "shm"; hosts = "e, g0, g1"; }; };' \
    >"$dir/pair.cfg"

with_encryption "$dir/ring.cfg" "$dir/tcp-shm-tcp.cfg" "$dir/shm-tcp-shm.cfg" "$dir/pair.cfg"

# as FILE HOSTS COMMAND...: runs as a process of the host whose place in HOSTS is the rank, on the networks of that
# host: two networks of tcp by their names, two of shared memory by their folders
cat >"$dir/as" <<'END'
#!/bin/sh
MAD_TOPOLOGY=${0%/*}/$1 tcp= shm=
MAD_HOST=$(echo "$2" | cut -d, -f$((PMI_RANK + 1)))
shift 2
case $MAD_HOST in
n | g0 | g1) tcp=n ;;
s | g2 | g3) tcp=s ;;
esac
case $MAD_HOST in
w | g0 | g3) shm=w ;;
e | g1 | g2) shm=e ;;
esac
! [ "${MAD_TOPOLOGY##*/}" = pair.cfg ] || [ "$MAD_HOST" = n ] || shm=e
MAD_DRIVERS=self${tcp:+,tcp}${shm:+,shm},virtual MAD_TCP_NETWORK=lo=$tcp MAD_TCP_INTERFACES=lo MAD_SHM_DIR=${0%/*}/$shm
export MAD_HOST MAD_TOPOLOGY MAD_DRIVERS MAD_TCP_NETWORK MAD_TCP_INTERFACES MAD_SHM_DIR
exec "$@"
END
# at FILE HOSTS COMMAND...: runs a process on each of the hosts
at() {
    file=$1 hosts=$2
    shift 2
    within 120 "$BUILD/madrun" --no-label -n "$(echo "$hosts" | tr , '\n' | wc -l)" "$dir/as" "$file" "$hosts" "$@"
}
# sum NAME: over all gateways; least NAME
sum() { sed -n "s/^{.*\"$1\": *\([0-9]*\).*/\1/p" "$dir/out" | awk '{ n += $1 } END { print n + 0 }'; }
least() { sed -n "s/^{.*\"$1\": *\([0-9]*\).*/\1/p" "$dir/out" | sort -n | head -1; }
# over_budget: prints the number of gateways that held more than they may
over_budget() {
    sed -n 's/^{.*"bytes_held_most": *\([0-9]*\).*"budget": *\([0-9]*\).*/\1 \2/p' "$dir/out" | awk '$1 > $2' | wc -l
}

# ring NAME [--full]: when streams are opened, windows stay as they are, or grow by the room for streams that both ends
# open at the same time
ring() {
    MAD_FORWARD_BUDGET=2560K at ring.cfg n,n,e,e,s,s,w,w,g0,g1,g2,g3 "$BUILD/tests/ring" $2 8 4 >"$dir/out" 2>&1
    check "$1: completes" "0 4" "$? $(grep -c '^{"test":"ring"' "$dir/out")"
    check "$1: all end together, and nobody warns that something has not left" "" "$(grep warning "$dir/out")"
    check "$1: nobody holds more than the budget, or anything afterwards" "0 0" "$(over_budget) $(sum bytes_held)"
    if [ "$(least bytes)" -gt 0 ] && [ "$(sum credit_stalls)" -gt 0 ]; then
        ok "$1: all gateways forward ($(least bytes) bytes at least), streams wait for credit ($(sum credit_stalls) times)"
    else
        not_ok "$1: load" "$(cat "$dir/out")"
    fi
}
runs=1
[ -z "$LONG" ] || runs=50
for i in $(seq $runs); do
    ring "ring, all with all"
    MAD_FORWARD_WINDOW=64M ring "ring, all full" --full # more is in flight than the sockets hold
    # At least a fifth of what all windows allow was held (windows are for both directions, of which one is used).
    if [ $(($(sum bytes_held_most) * 5)) -ge "$(sum given)" ]; then
        ok "ring, all full: $(sum bytes_held_most) bytes of $(sum given) in both directions"
    else
        not_ok "ring, all full: windows" "$(cat "$dir/out")"
    fi
done

tests=all
[ -z "$LONG" ] || tests=$("$BUILD/tests/conform" --list | awk '$2 == 2 { print $1 }')
for t in $tests; do
    for way in tcp-shm-tcp:n,s,g1,g2 shm-tcp-shm:w,e,g0,g1; do
        if MAD_PREFER=virtual at "${way%:*}.cfg" "${way#*:}" "$BUILD/tests/conform" "$t" >"$dir/out" 2>&1; then
            ok "conform-$t-${way%:*}"
        else
            not_ok "conform-$t-${way%:*} (exit status $?)" "$(grep -v 'message: warning' "$dir/out" | tail -20)"
        fi
    done
done

# Two parallel gateways: both carry connections.
at pair.cfg n,e,n,e,n,e,n,e,g0,g1 "$BUILD/tests/ring" 8 2 >"$dir/out" 2>&1
check "pair: completes" "0 2" "$? $(grep -c '^{"test":"ring"' "$dir/out")"
if [ $(($(least bytes) * 20)) -ge "$(sum bytes)" ]; then
    ok "pair: both gateways carry traffic ($(least bytes) bytes at least of $(sum bytes))"
else
    not_ok "pair: load" "$(cat "$dir/out")"
fi
[ $failures = 0 ]

# SPDX-License-Identifier: BSD-3-Clause
# Sourced, behind checks.sh, by tests of two hosts a and b that a veth joins (va at a, vb at b).  The script runs again in
# namespaces of its own, which end with it, and may change the interfaces.  Root keeps all capabilities; others get those of a
# user namespace.
if [ -z "$VETH_INSIDE" ]; then
    user=
    [ "$(id -u)" = 0 ] || user="--user --map-root-user"
    # shellcheck disable=SC2086
    unshare $user --net --mount true 2>/dev/null || { echo "skipped: namespaces are not permitted here"; exit 77; }
    # shellcheck disable=SC2086
    VETH_INSIDE=1 exec unshare $user --net --mount sh "$0" "$@"
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mount -t tmpfs tmpfs /run && mount -t sysfs sysfs /sys && ip netns add b && ip link add va mtu 1500 type veth peer name vb netns b mtu 1500 &&
    ip addr add 10.97.0.1/24 dev va && ip -n b addr add 10.97.0.2/24 dev vb && ip link set lo up && ip link set va up &&
    ip -n b link set lo up && ip -n b link set vb up || { echo "skipped: a veth cannot be made here"; exit 77; }
# The kernel reports each end up by itself, the second one up to a second later.
interfaces_are_up() {
    ip -o link show va | grep -q 'state UP' && ip -n b -o link show vb | grep -q 'state UP'
}
wait_for interfaces_are_up || exit 1
cat >agent <<'EOS'
#!/bin/sh
host=$1
shift
[ "$host" = a ] && exec "$@"
exec ip netns exec b "$@"
EOS
chmod +x agent
export MAD_MODULES="$BUILD/drivers/.libs"
# job ARGUMENT...: madrun, with a rank on each host; exit status in $code, all output in ./out
job() {
    within 170 "$BUILD/madrun" --no-label -n 2 --bind none --hosts a,b --launch-agent ./agent --env MAD_MODULES="$MAD_MODULES" "$@" \
        >out 2>&1 </dev/null
    code=$?
}
# mtu BYTES: sets the MTU of both interfaces
mtu() { ip link set va mtu "$1" && ip -n b link set vb mtu "$1"; }

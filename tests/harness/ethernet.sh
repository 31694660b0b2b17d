# SPDX-License-Identifier: BSD-3-Clause
# Sourced by scripts whose processes, all of this host, talk over Ethernet: such a script runs in a network namespace of its
# own.  There, the ports port0, port1, ... are on one segment, a bridge; each process uses the port of its rank.  The
# namespace has the loopback interface, too, and no network of the host.  The namespace ends with its last process.

# ethernet_enter SCRIPT [ARGUMENT]...: runs the script again in a namespace with 6 ports, in place of this run of it.
# Returns in the namespace, and where there can be none; $ethernet is then set, and empty.
ethernet_enter() {
    if [ -z "${ethernet+set}" ]; then
        if [ "$(id -u)" = 0 ]; then
            ethernet_unshare="unshare --net"
        else
            ethernet_unshare="unshare --user --map-root-user --net"
        fi
        if $ethernet_unshare true 2>/dev/null; then
            ethernet=inside exec env ethernet=inside $ethernet_unshare sh "$@"
        fi
        ethernet=
    fi
    [ -n "$ethernet" ] || return 0
    ethernet_made=1
    ip link set lo up 2>/dev/null && ip link add segment type bridge 2>/dev/null && ip link set segment up || ethernet_made=
    for port in 0 1 2 3 4 5; do
        ip link add port$port mtu 9000 type veth peer name plug$port mtu 9000 2>/dev/null || ethernet_made=
        for interface in port$port plug$port; do
            echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/$interface/disable_ipv6
        done
        ip link set plug$port master segment up 2>/dev/null && ip link set port$port up || ethernet_made=
    done
    ethernet=$ethernet_made
    export MAD_ETH_NETWORK="port0=segment,port1=segment,port2=segment,port3=segment,port4=segment,port5=segment"
}

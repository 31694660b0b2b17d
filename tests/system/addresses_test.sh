#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Hosts with many addresses, interfaces and subnets (tests/lab).  Every address counts; any number of subnets that lead
# nowhere cost the time of one; and a host with more subnets than an address can hold gets an error that says so.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LAB_SOURCE=${LAB_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export BUILD LAB_SOURCE
. "$LAB_SOURCE/tests/lab/lab.sh"
lab_start "$0" "$@"
. "$LAB_SOURCE/tests/harness/checks.sh"
world=$BUILD/tests/world

# talk NAME NETWORK [MADRUN ARGUMENTS]: two ranks on both hosts communicate over that network
talk() {
    name=$1 network=$2
    shift 2
    within $limit "$BUILD/madrun" -n 2 --hosts one,two --launch-agent "$LAB/agent" --env MAD_DRIVERS=self,tcp "$@" "$world" talk \
        >out 2>err </dev/null
    check "$name: exit code" 0 $?
    check_lines "$name: the network" 2 "tcp on [^ ]* \($network\) used" out
}

# addresses HOST ADDRESS/PREFIX|ADDRESS-PEER...: sets the addresses of the host's eth0, in this order
addresses() {
    host=$1
    shift
    lab_in "$host" ip address flush dev eth0
    for a in "$@"; do
        case $a in
        *:*) lab_in "$host" ip address add "$a" dev eth0 nodad ;;
        *-*) lab_in "$host" ip address add "${a%-*}" peer "${a#*-}" dev eth0 ;;
        *) lab_in "$host" ip address add "$a" dev eth0 ;;
        esac
    done
}

test_addresses() {
    addresses one 10.77.1.1/24 10.77.2.1/24
    addresses two 10.77.2.2/24 10.77.1.2/24
    talk "two subnets, in another order" '10\.77\.[12]\.0/24'
    addresses one 10.5.0.1/24 10.6.0.1/24 10.77.1.1/24
    addresses two 10.7.0.2/24 10.8.0.2/24 10.77.1.2/24
    talk "the last of three" '10\.77\.1\.0/24'
    talk "the last of three, chosen by its interface" '10\.77\.1\.0/24' --env MAD_TCP_INTERFACES=eth0
    talk "the last of three, chosen by its name" '10\.77\.1\.0/24' --env MAD_TCP_INTERFACES=eth0/4.3
    talk "three subnets, one name for all" all --env MAD_TCP_NETWORK=eth0=all
    addresses one 10.99.0.1/32 10.77.1.1/24
    addresses two 10.77.1.2/24
    talk "a service address first" '10\.77\.1\.0/24'
    addresses one fd00:1::1/64 fd00:2::1/64
    addresses two fd00:2::2/64 fd00:1::2/64
    talk "two subnets of IPv6" 'fd00:[12]::/64'
    addresses one fd00:9::1/128 10.77.1.1/24 fd00:2::1/64
    addresses two fd00:2::2/64
    talk "IPv6 alone on one side" 'fd00:2::/64'
    addresses one 10.77.1.1/16
    addresses two 10.77.1.2/24
    talk "subnets of two lengths" '10\.77\.[0-9.]*/[0-9]*'
}

# Addresses without a subnet around them.
test_host_addresses() {
    addresses one 10.77.1.1/32
    addresses two 10.77.1.2/16
    lab_in one ip route add 10.77.0.0/16 dev eth0
    talk "a host address alone, and a subnet" '10\.77\.[01]\.[01]/(16|32)'
    addresses one 10.77.1.1/32
    addresses two 10.77.1.2/32
    lab_in one ip route add 10.77.1.2 dev eth0
    lab_in two ip route add 10.77.1.1 dev eth0
    talk "host addresses alone, with routes" '10\.77\.1\.[12]/32'
    addresses one
    lab_in one ip address add 10.77.1.1/32 dev lo
    lab_in one ip route add 10.77.1.2 dev eth0 src 10.77.1.1
    talk "the address of a router, on its loopback interface" '10\.77\.1\.[12]/32'
    lab_in one ip address del 10.77.1.1/32 dev lo
    addresses one 10.9.0.1-10.9.0.2
    addresses two 10.9.0.2-10.9.0.1
    talk "the two ends of a pair" '10\.9\.0\.1-10\.9\.0\.2'
}

# The peer has two interfaces in one subnet, and the first one leads nowhere.
test_same_subnet() {
    addresses one 10.77.1.1/16
    addresses two 10.77.1.2/16
    lab_attach two lan=10.77.1.3/16
    lab_in two sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
        ip rule add from 10.77.1.3 lookup 7 && ip route add 10.77.0.0/16 dev eth1 table 7'
    lab_cut two
    talk "two interfaces in one subnet, the first is cut" '10\.77\.0\.0/16'
    lab_mend two lan
    lab_in two ip link del eth1
}

# On each host, a process of another job listens at the address and ports that the peer's process has in their first
# subnet.
test_strangers() {
    addresses one 172.20.1.1/24 10.77.1.1/24
    addresses two 172.20.1.1/24 10.77.1.2/24
    cat >ports.sh <<'S'
MAD_TCP_PORTS=7100-7103
[ "$PMI_RANK" = 0 ] || MAD_TCP_PORTS=7000-7003
export MAD_TCP_PORTS
exec "$@"
S
    cat >stranger.py <<'P'
import select, socket, sys
says, first = sys.argv[1], int(sys.argv[2])
listeners = [socket.create_server(("172.20.1.1", port)) for port in range(first, first + 4)]
open("stranger.%d" % first, "w").write("ready")
callers = []
while True:
    for s in select.select(listeners + [sys.stdin], [], [])[0]:
        if s is sys.stdin:
            sys.exit()
        callers.append(s.accept()[0])
        callers[-1].send(says.encode())
        open("stranger.called", "w").write("yes")
P
    for says in "" rubbish; do
        rm -f stranger.7000 stranger.7100 stranger.called leave
        mkfifo leave
        for at in one:7000 two:7100; do
            lab_in ${at%:*} sh -c 'cd "$0" && exec python3 stranger.py "$@"' "$LAB" "$says" ${at#*:} <leave &
        done
        exec 4>leave
        lab_wait stranger.7000
        lab_wait stranger.7100
        talk "strangers that say '$says'" '10\.77\.1\.0/24' --env MAD_TCP_INTERFACES=eth0 sh "$LAB/ports.sh"
        exec 4>&-
        wait_for test -s stranger.called
        check "strangers that say '$says': one was called" yes "$(cat stranger.called)"
    done
}

# The kernel reports only after a while that a new interface is up.
is_up() {
    lab_in "$1" ip -br link show dev "$2" | grep -q ' UP '
}

# bridges N LAST: makes N subnets on each host; the last one ends with 1 on host one, and with LAST on the other host
bridges() {
    for host in one two; do
        last=1
        [ $host = one ] || last=$2
        lab_in $host sh -c 'i=1; while [ $i -le $1 ]; do
            ip link add d$i type veth peer name p$i && ip address add 172.20.$i.$2/24 dev d$i && ip link set p$i up &&
                ip link set d$i up || exit 1
            i=$((i + 1)); done' sh "$1" "$last"
    done
    # Interfaces are numbered in order, so the one network in common comes last.
    for host in one two; do
        last=1
        [ $host = one ] || last=2
        lab_in $host sh -c 'ip address flush dev eth0; ip link add br9 type bridge && ip link set eth0 master br9 &&
            ip address add 10.77.1.$1/16 dev br9 && ip link set br9 up' sh $last
        wait_for is_up $host br9
    done
}

bridges_end() {
    for host in one two; do
        lab_in $host sh -c 'i=1; while [ $i -le $1 ]; do ip link del d$i; i=$((i + 1)); done
            ip link set eth0 nomaster; ip link del br9' sh "$1"
    done
}

test_interfaces() {
    bridges 70 1
    talk "70 subnets with the same addresses" '10\.77\.0\.0/16'
    bridges_end 70
    # If subnets were tried one after another, each would cost its whole time-out.
    bridges 70 2
    talk "70 subnets that lead nowhere" '10\.77\.0\.0/16' --env MAD_CONNECT_TIMEOUT=20000
    talk "70 subnets that lead nowhere, few descriptors" '10\.77\.0\.0/16' --env MAD_CONNECT_TIMEOUT=20000 \
        sh -c 'ulimit -n 128; exec "$@"' -
    bridges_end 70
    bridges 150 1
    talk "150 subnets" '10\.77\.0\.0/16'
    bridges_end 150
}

# More subnets than fit: an error that names the cause, and the remedy.
test_limit() {
    addresses one 10.77.1.1/24
    addresses two 10.77.1.2/24
    lab_in one sh -c 'ip link add many type bridge && ip link set many up || exit 1
        i=0; while [ $i -lt 1200 ]; do echo "address add 10.$((100 + i / 250)).$((i % 250)).1/24 dev many"; i=$((i + 1)); done >batch
        ip -batch batch'
    within $limit "$BUILD/madrun" -n 2 --hosts one,two --launch-agent "$LAB/agent" --env MAD_DRIVERS=self,tcp "$world" talk \
        >out 2>err </dev/null
    check "too many subnets: fails" 1 $(($? != 0))
    check_has "too many subnets: explained" "is as long as it may be (" err
    check_has "too many subnets: remedy" "MAD_TCP_INTERFACES" err
    talk "too many subnets, of which one is chosen" '10\.77\.1\.0/24' --env MAD_TCP_INTERFACES=eth0
    lab_in one ip link del many
}

lab_host one lan=10.77.1.1/24
lab_host two lan=10.77.1.2/24
for t in ${TESTS:-addresses host_addresses same_subnet strangers interfaces limit}; do
    "test_$t"
done
[ $failures = 0 ]

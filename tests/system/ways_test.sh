#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Hosts with many addresses, interfaces and networks, of which few lead from one to the other.  BUILD: the folder with the
# built programs; TESTS: which of them.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LAB_SOURCE=${LAB_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export BUILD LAB_SOURCE
. "$LAB_SOURCE/tests/lab/lab.sh"
lab_start "$0" "$@"
. "$LAB_SOURCE/tests/harness/checks.sh"
world=$BUILD/tests/world

# talk NAME NETWORK ARGUMENTS...: one and two talk, both by that network (a pattern)
talk() {
    name=$1 network=$2
    shift 2
    within $limit "$BUILD/madrun" --hosts one,two --launch-agent "$LAB/agent" -n 2 --env MAD_DRIVERS=self,shm,tcp "$@" \
        "$world" talk >out 2>err </dev/null
    check "$name: exit code" 0 $?
    check_lines "$name: by $network" 2 ": tcp on [^ ]+ \($network\) used" out
}

# addresses HOST ADDRESS...: of its eth0, in this order
addresses() {
    host=$1
    shift
    lab_in "$host" ip address flush dev eth0
    for a; do
        # shellcheck disable=SC2086
        lab_in "$host" ip address add ${a} dev eth0 $(case $a in *:*) echo nodad ;; esac)
    done
}

test_addresses() {
    addresses one 10.99.0.1/32 10.1.0.1/16
    addresses two 10.1.0.2/16
    talk "a service address first" '10\.1\.0\.0/16'
    addresses one 10.5.1.1/24 10.5.2.1/24 10.5.3.1/24
    addresses two 10.6.1.2/24 10.6.2.2/24 10.5.3.2/24
    talk "the last of three in common" '10\.5\.3\.0/24'
    talk "the last of three in common, chosen by its interface" '10\.5\.3\.0/24' --env MAD_TCP_INTERFACES=eth0
    talk "the last of three in common, chosen by its name" '10\.5\.3\.0/24' --env MAD_TCP_INTERFACES=eth0/4.3
    talk "three addresses, one name for all" 'all' --env MAD_TCP_NETWORK=eth0=all
    addresses one fd00:1::1/64 2001:db8:1::1/64
    addresses two fd00:2::2/64 2001:db8:1::2/64
    talk "IPv6 only: another unique local prefix, one global" '2001:db8:1::/64'
    addresses one fd00:1::1/64 fd00:2::1/64
    addresses two fd00:2::2/64 fd00:1::2/64
    talk "IPv6 only: two prefixes in another order" 'fd00:[12]::/64'
    addresses one 10.1.0.1/16 10.1.0.7/16
    addresses two 10.1.0.2/24
    talk "prefixes of different lengths" '10\.1\.0\.0/(16|24)'
    addresses one 10.1.0.1/32
    addresses two 10.1.0.2/16
    lab_in one ip route add 10.1.0.0/16 dev eth0
    talk "one of two has a host address only" '10\.1\.0\.[01]/(16|32)'
    addresses one 10.1.0.1/32
    addresses two 10.1.0.2/32
    lab_in one ip route add 10.1.0.2 dev eth0
    lab_in two ip route add 10.1.0.1 dev eth0
    talk "host addresses only" '10\.1\.0\.[12]/32'
    addresses one '10.9.0.1 peer 10.9.0.2'
    addresses two '10.9.0.2 peer 10.9.0.1'
    talk "two ends of a pair" '10\.9\.0\.1-10\.9\.0\.2'
    lab_in one ip address flush dev eth0
    lab_in one ip address add 10.1.0.1/32 dev lo
    lab_in one ip route add 10.1.0.2 dev eth0 src 10.1.0.1
    addresses two 10.1.0.2/32
    lab_in two ip route add 10.1.0.1 dev eth0
    talk "the address of a router, on its loopback interface" '10\.1\.0\.[12]/32'
    lab_in one ip address del 10.1.0.1/32 dev lo
}

# bridges N ONE TWO: N networks 172.20.i.0/24 on both that lead nowhere, with these last numbers of the addresses; and one
# that leads to the other, whose interface comes last.
bridges() {
    for pair in "one $2" "two $3"; do
        host=${pair% *}
        lab_in "$host" ip address flush dev eth0
        lab_in "$host" sh -c '
            {   for i in $(seq $1); do
                    echo link add d$i type veth peer name p$i
                    echo address add 172.20.$i.$2/24 dev d$i
                    echo link set p$i up
                    echo link set d$i up
                done
                echo link add out type bridge
                echo address add 10.1.0.$3/16 dev out
                echo link set eth0 master out
                echo link set out up
            } | ip -batch -' - "$1" "${pair#* }" "$([ "$host" = one ] && echo 1 || echo 2)"
        wait_for are_up "$host" $(($1 + 2))
    done
}

# are_up HOST N: at least so many interfaces of the host carry something
are_up() { [ "$(lab_in "$1" sh -c 'cat /sys/class/net/*/operstate' | grep -c '^up')" -ge "$2" ] && lab_in "$1" ip link show out | grep -q 'state UP'; }

no_bridges() {
    for host in one two; do
        lab_in $host sh -c '
            {   for i in $(seq $1); do echo link del d$i; done
                echo link set eth0 nomaster
                echo link del out
            } | ip -batch -' - "$1"
    done
}

test_many() {
    bridges 100 1 1
    talk "100 networks, the same addresses on both" '10\.1\.0\.0/16'
    check "100 networks, the same addresses on both: nothing is complained of" 0 "$(wc -l <err)"
    talk "100 networks, chosen" '10\.1\.0\.0/16' --env MAD_TCP_INTERFACES=d7,out
    no_bridges 100
    bridges 160 1 2
    talk "160 networks that lead nowhere" '10\.1\.0\.0/16'
    talk "160 networks that lead nowhere, few descriptors" '10\.1\.0\.0/16' sh -c 'ulimit -n 256; exec "$@"' -
    no_bridges 160
}

# The port and address that the peer has said are those of a stranger on this host, too, who says nothing, or rubbish.
test_strangers() {
    addresses one 172.20.1.1/24 10.1.0.1/16
    addresses two 172.20.1.1/24 10.1.0.2/16
    cat >stranger.py <<'P'
import select, socket, sys
listeners = []
for port in range(7000, 7004):
    s = socket.socket()
    s.bind(("172.20.1.1", port))
    s.listen()
    listeners.append(s)
open("stranger.ready", "w").write("x")
held = []
while True:
    for s in select.select(listeners + [sys.stdin], [], [])[0]:
        if s is sys.stdin:
            sys.exit()
        held.append(s.accept()[0])
        open("stranger.called", "w").write("x")
        held[-1].send(sys.argv[1].encode())
P
    cat >ports.sh <<'S'
MAD_TCP_PORTS=7100-7103
[ $PMI_RANK = 0 ] || MAD_TCP_PORTS=7000-7003
export MAD_TCP_PORTS
exec "$@"
S
    for says in nothing rubbish; do
        rm -f stranger.ready stranger.called leave
        mkfifo leave
        lab_in one sh -c 'cd "$0" && exec python3 stranger.py "$1"' "$LAB" "$([ $says = rubbish ] && echo $says)" <leave &
        exec 4>leave
        lab_wait stranger.ready
        talk "a stranger that says $says" '10\.1\.0\.0/16' --env MAD_TCP_INTERFACES=eth0 sh "$LAB/ports.sh"
        exec 4>&-
        wait $!
    done
    check "a stranger was called" 0 "$(test -s stranger.called; echo $?)"
}

# Two interfaces in one subnet: the first of the peer's leads nowhere.
test_same_subnet() {
    addresses one 10.1.0.1/16
    addresses two 10.1.0.2/16
    lab_attach two lan=10.1.0.3/16
    lab_in two sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
        ip rule add from 10.1.0.3 lookup 7; ip route add 10.1.0.0/16 dev eth1 table 7'
    lab_cut two
    talk "two interfaces in one subnet, the first is cut" '10\.1\.0\.0/16'
    lab_mend two lan
    lab_in two ip link del eth1
}

# More than fit: an error by name, and what to do.
test_limit() {
    addresses one 10.1.0.1/16
    addresses two 10.1.0.2/16
    lab_in one sh -c 'ip link add many type bridge && ip link set many up || exit 1
        i=0; while [ $i -lt 1200 ]; do echo "address add 10.$((100 + i / 250)).$((i % 250)).1/24 dev many"; i=$((i + 1)); done >batch
        ip -batch batch'
    within $limit "$BUILD/madrun" --hosts one,two --launch-agent "$LAB/agent" -n 2 --env MAD_DRIVERS=self,tcp "$world" talk \
        >out 2>err </dev/null
    check "too many subnets: fails" 1 $(($? != 0))
    check_has "too many subnets: explained" "is as long as it may be (" err
    check_has "too many subnets: remedy" "MAD_TCP_INTERFACES" err
    talk "too many subnets, of which one is chosen" '10\.1\.0\.0/16' --env MAD_TCP_INTERFACES=eth0
    lab_in one ip link del many
}

lab_host one lan=10.1.0.1/16
lab_host two lan=10.1.0.2/16
for t in ${TESTS:-addresses many strangers same_subnet limit}; do
    "test_$t"
done
[ $failures = 0 ]

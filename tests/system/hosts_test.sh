#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several hosts and containers, made of namespaces (tests/lab): which paths are used, and what happens when a rank dies
# or the network between them is cut.  BUILD: the folder with the built programs.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LAB_SOURCE=${LAB_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export BUILD LAB_SOURCE
. "$LAB_SOURCE/tests/lab/lab.sh"
lab_start "$0" "$@"
. "$LAB_SOURCE/tests/harness/checks.sh"
world=$BUILD/tests/world

# on HOSTS ARGUMENTS...: runs madrun there; exit status in $code, output in ./out and ./err
on() {
    hosts=$1
    shift
    within $limit "$BUILD/madrun" --hosts "$hosts" --launch-agent "$LAB/agent" "$@" >out 2>err </dev/null
    code=$?
}

test_ways() {
    on one:2,two:2 -n 4 "$world" talk
    check "ways: exit code" 0 $code
    check_lines "ways: tcp between hosts" 8 '^\[[0-3]\] ([01] on one to [23]|[23] on two to [01]): tcp on eth0 \(10.77.1.0/24\) used' out
    check_lines "ways: shm within each" 4 '^\[[0-3]\] (0 on one to 1|1 on one to 0|2 on two to 3|3 on two to 2): shm on memory \([0-9a-f]+\) used' out
    check_lines "ways: why not shm between hosts" 8 ': tcp on eth0 .* used;.* shm on memory \([0-9a-f]+\) rejected: no network in common: .* the same MAD_SHM_DIR' out
    check "ways: nothing is complained of" 0 "$(wc -l <err)"
    on one,two,three,four -n 8 "$world" talk
    check "ways: four hosts" 0 $code
    check_lines "ways: four hosts: tcp" 48 ': tcp on eth0 .* used' out
    check_lines "ways: four hosts: shm" 8 ': shm on memory \([0-9a-f]+\) used' out
    on one,two -n 2 --env MAD_PREFER=shm "$world" talk
    check_lines "ways: preferring shm does not make one" 2 ': tcp on eth0 .* used' out
    on one,two -n 2 --env MAD_DRIVERS=self,shm timeout 20 "$world" watch busy
    check_has "ways: none left: explained" "no network in common with this peer: " err
    check_has "ways: none left: remedy" "both processes must see the same MAD_SHM_DIR to share memory" err
}

test_conformance() {
    for driver in tcp shm; do
        hosts=one,two
        [ $driver = shm ] && hosts=one:2
        for t in modes_between blocks_many blocks_string requests_many posted_mixed handlers_reply mismatch_cases; do
            on $hosts -n 2 --env MAD_PREFER=$driver "$BUILD/tests/conform" $t
            if [ $code = 0 ]; then ok "conformance $driver $t"; else not_ok "conformance $driver $t" "$(tail -5 out err)"; fi
        done
    done
    on one,two -n 2 "$BUILD/mad_perf" pingpong --sizes 8,64K,1M --iters 20 --batches 3 --json
    check "ping-pong between hosts" 0 $code
    check_lines "ping-pong between hosts: every size" 3 '"latency_us_best": *[0-9]' out
}

test_madrun() {
    on one:2,two:2 -n 4 sh -c 'echo $PMI_RANK of $PMI_SIZE on $(hostname); echo error >&2'
    check "labels" "[0] 0 of 4 on one,[1] 1 of 4 on one,[2] 2 of 4 on two,[3] 3 of 4 on two," "$(sort out | tr '\n' ,)"
    check_lines "labels: errors apart" 4 '^\[[0-3]\] error$' err
    on one:2,two:2 -n 4 sh -c '[ $PMI_RANK = 3 ] && exit 7; exec sleep 918273'
    check "one fails: its exit code" 7 $code
    check_has "one fails: is said" "rank 3 ended with exit code 7" err
    check_none "one fails: nothing is left" 'sleep 918273'
    on one:2,two:2 -n 4 sh -c '[ $PMI_RANK = 2 ] && kill -KILL $$; exec sleep 918273'
    check "one is killed: exit code" 137 $code
    check_none "one is killed: nothing is left" 'sleep 918273'
    mkfifo ready
    for signal in TERM USR1; do
        "$BUILD/madrun" --timeout $limit -n 4 --hosts one:2,two:2 --launch-agent "$LAB/agent" \
            sh -c 'trap "echo got '$signal'; exit 0" '$signal'; echo ready; while :; do sleep 918273 & wait; done' >ready 2>err </dev/null &
        job=$!
        exec 3<ready
        read -r _ <&3 && read -r _ <&3 && read -r _ <&3 && read -r _ <&3
        kill -$signal $job
        sort <&3 >out
        exec 3<&-
        wait $job
        check "signals: $signal on every host" "0 [0] got $signal,[1] got $signal,[2] got $signal,[3] got $signal," "$? $(tr '\n' , <out)"
    done
    check_none "signals: nothing is left" 'sleep 918273'
    "$BUILD/madrun" --timeout $limit -n 2 --hosts one,two --launch-agent "$LAB/agent" sh -c 'echo ready; exec sleep 918273' >ready 2>err </dev/null &
    job=$!
    exec 3<ready
    read -r _ <&3 && read -r _ <&3
    exec 3<&-
    kill -KILL $job
    wait $job
    check_none "madrun is killed: nothing is left on the hosts" 'sleep 918273'
    on one:2,lost -n 3 true
    check "a host that cannot be reached: exit code" 1 $code
    check_has "a host that cannot be reached: is said" "host 'lost' cannot be used" err
    begin=$(now_ms)
    on one:32,two:32 -n 64 true
    check "64 processes on two hosts" 0 $code
    echo "# 64 processes on two hosts started and ended in $(($(now_ms) - begin)) ms"
    begin=$(now_ms)
    on one:32,two:32 -n 64 "$world" listen
    check "64 sessions on two hosts" "0 64" "$code $(grep -c 'shm memory' out)"
    echo "# 64 sessions on two hosts began and ended in $(($(now_ms) - begin)) ms"
}

test_interfaces() {
    on wide,broad -n 2 "$world" talk
    check_lines "interfaces: the first of two in common" 2 ': tcp on eth0 \(10.77.1.0/24\) used' out
    on wide,broad -n 2 --env MAD_TCP_INTERFACES=eth1 "$world" talk
    check_lines "interfaces: chosen" 2 ': tcp on eth1 \(10.77.2.0/24\) used' out
    on wide,broad -n 2 --env MAD_TCP_INTERFACES=eth1/6 "$world" talk
    check_lines "interfaces: IPv6" 2 ': tcp on eth1/6 \(fd77::/64\) used' out
    on wide,one -n 2 --env MAD_TCP_NETWORK=eth1=far,eth0=near "$world" talk
    check_lines "interfaces: networks named" 2 ': tcp on eth0 \(near\) used' out
    # Both hosts have a private network with the same addresses, which leads nowhere (like docker0 on every host).
    for h in trap snare; do
        lab_in $h ip link add docker0 type veth peer name inner
        lab_in $h ip link set inner up
        lab_in $h ip link set docker0 up
    done
    lab_in trap ip address add 172.17.0.1/16 dev docker0
    lab_in snare ip address add 172.17.0.1/16 dev docker0
    lab_attach trap lan=10.77.1.21/24
    lab_attach snare lan=10.77.1.22/24
    on trap,snare -n 2 "$world" talk
    check "interfaces: a private network on both, the same address: exit code" 0 $code
    check_lines "interfaces: a private network on both, the same address" 2 ': tcp on eth0 \(10.77.1.0/24\) used' out
    lab_in snare ip address del 172.17.0.1/16 dev docker0
    lab_in snare ip address add 172.17.0.2/16 dev docker0
    on trap,snare -n 2 "$world" talk
    check "interfaces: a private network on both, another address: exit code" 0 $code
    check_lines "interfaces: a private network on both, another address" 2 ': tcp on eth0 \(10.77.1.0/24\) used' out
    mkfifo stop
    lab_in wide env MAD_TCP_PORTS=7000-7003 MAD_TCP_INTERFACES=eth0,eth1 "$world" serve "$LAB/ports" sixteen-bytes-key <stop >out 2>&1 &
    exec 4>stop
    lab_wait ports
    lab_in wide ss -ltnH >sockets
    exec 4>&-
    wait $!
    check_lines "interfaces: ports of the range" 3 ':700[0-3] ' sockets
    check_lines "interfaces: no other ports, no other addresses" 3 . sockets
    check_lines "interfaces: addresses of the interfaces" 2 '10\.77\.[12]\.11:700' sockets
}

both_talk() { [ "$(grep -c talks cut-out)" -ge 2 ]; }
# Cut the network; both sides must report this in time.
cut() {
    rm -f cut-out
    within 60 "$BUILD/madrun" --keep-going -n 2 --hosts one,two --launch-agent "$LAB/agent" --env MAD_PEER_TIMEOUT=3000 \
        "$world" watch "$1" >cut-out 2>cut-err </dev/null &
    job=$!
    wait_for both_talk
    lab_cut one
    begin=$(now_ms)
    # The launcher's own connection is a pipe, so it is not cut.
    wait $job
    check "cut, $1: exit code" 0 $?
    lab_mend one lan
    check_lines "cut, $1: both sides" 2 '^\[[01]\] [01]: MAD_ERR_PEER after ' cut-out
    check_lines "cut, $1: explained" 2 '^\[[01]\] event MAD_ERR_PEER peer [01]: .*(timed out|no acknowledgement|MAD_PEER_TIMEOUT)' cut-out
    took=$(($(now_ms) - begin))
    echo "# cut, $1: noticed by both within $took ms of at most 3,000 (MAD_PEER_TIMEOUT)"
    if [ $took -lt 20000 ]; then ok "cut, $1: in time"; else not_ok "cut, $1: in time" "$took ms"; fi
}

test_cuts() {
    cut busy
    cut idle
}

test_containers() {
    mkdir volume volume/a
    lab_container c1 one net "$LAB/volume"
    lab_container c2 one no-net "$LAB/volume"
    lab_container c3 one net
    on c1,c2 -n 2 --env MAD_SHM_DIR=/tmp/volume "$world" talk
    check "containers: a shared volume: exit code" 0 $code
    check_lines "containers: a shared volume: shm, without any network" 2 ': shm on memory \([0-9a-f]+\) used' out
    on c1,c3 -n 2 "$world" talk
    check "containers: one network: exit code" 0 $code
    check_lines "containers: nothing but a network: tcp, and why" 2 ': tcp on lo \(lo@[0-9a-f]+\) used;.* shm on memory .* rejected: no network in common: .* both processes must see the same MAD_SHM_DIR to share memory' out
    on c1,two -n 2 "$world" talk
    check_lines "containers: with another host" 2 ': tcp on eth0 \(10.77.1.0/24\) used' out
    on c1,c2 -n 2 timeout 20 "$world" watch busy
    check_has "containers: nothing in common: explained" "no network in common with this peer" err
    check_has "containers: nothing in common: remedy" "MAD_TCP_NETWORK" err
    on c1:2,c2:2 -n 4 --env MAD_SHM_DIR=/tmp/volume --keep-going sh -c '"$0" talk; [ $PMI_RANK != 3 ]' "$world"
    check_lines "containers: four in two" 12 ': shm on memory \([0-9a-f]+\) used' out
    check "containers: no sockets are left in the volume" a "$(ls volume)"
}

test_binding() {
    for b in core socket numa none; do
        on one -n 2 --bind $b sh -c 'grep Cpus_allowed_list /proc/self/status'
        check "bind: $b" "0 2" "$code $(grep -c Cpus_allowed_list out)"
    done
    cpus=$(nproc)
    if [ "$cpus" -lt 2 ]; then
        echo "# reserve: one core only: nothing to reserve"
    else
        # hwloc gets a description with two NUMA nodes; the cores are real.
        HWLOC_SYNTHETIC="numa:2 core:$((cpus / 2)) pu:1" HWLOC_THISSYSTEM=1
        export HWLOC_SYNTHETIC HWLOC_THISSYSTEM
        within $limit "$BUILD/madrun" -n 2 --bind numa --reserve-numa 0 sh -c 'grep Cpus_allowed_list /proc/self/status' >out 2>err
        check "reserve: exit code" 0 $?
        check_lines "reserve: no process on the reserved node" 0 "list:[[:space:]]*0" out
        within $limit "$BUILD/madrun" -n 2 --bind numa sh -c 'grep Cpus_allowed_list /proc/self/status' >out 2>err
        check "bind: two nodes" 2 "$(sed 's/.*list://' out | sort -u | wc -l)"
        unset HWLOC_SYNTHETIC HWLOC_THISSYSTEM
    fi
    on one -n 2 --reserve-numa 77 true
    check_has "reserve: no such node" "there is no such NUMA node" err
}

test_ssh() {
    if ! command -v sshd >/dev/null || [ "$(id -u)" -ne 0 ] || [ -n "$LAB_USER" ]; then
        echo "# ssh: no sshd, or not root: left out"
        return
    fi
    ssh-keygen -q -t ed25519 -N '' -f key
    ssh-keygen -q -t ed25519 -N '' -f hostkey
    chmod 600 key hostkey
    for h in one two; do
        lab_in $h sh -c 'mount -t tmpfs lab /run && mkdir /run/sshd && "$1" -o "HostKey '$LAB'/hostkey" -o "AuthorizedKeysFile '$LAB'/key.pub" \
            -o Port=2222 -o UsePAM=no -o StrictModes=no -o PermitRootLogin=yes -o PidFile=none -f /dev/null' sh "$(command -v sshd)"
    done
    mkdir bin
    printf 'Host one\n HostName 10.77.1.1\nHost two\n HostName 10.77.1.2\nHost *\n Port 2222\n IdentityFile %s/key\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n' "$LAB" >ssh_config
    printf '#!/bin/sh\nexec %s -F %s/ssh_config "$@"\n' "$(command -v ssh)" "$LAB" >bin/ssh
    chmod +x bin/ssh
    # The front end is on the network of the hosts.
    ip address add 10.77.1.100/24 dev lan
    PATH=$LAB/bin:$PATH within $limit "$BUILD/madrun" -n 4 --hosts one:2,two:2 "$world" talk >out 2>err </dev/null
    check "ssh: exit code" 0 $?
    check_lines "ssh: tcp between hosts" 8 ' to [0-3]: tcp on eth0 .* used' out
    check_lines "ssh: shm within each" 4 ': shm on memory \([0-9a-f]+\) used' out
    PATH=$LAB/bin:$PATH within $limit "$BUILD/madrun" -n 2 --hosts one,two sh -c '[ $PMI_RANK = 1 ] && exit 9; exec sleep 918273' >out 2>err </dev/null
    check "ssh: exit code of the one that failed" 9 $?
    check_none "ssh: nothing is left" 'sleep 918273'
}

lab_host one lan=10.77.1.1/24
lab_host two lan=10.77.1.2/24
lab_host three lan=10.77.1.3/24
lab_host four lan=10.77.1.4/24
lab_host wide lan=10.77.1.11/24 far=10.77.2.11/24
lab_host broad lan=10.77.1.12/24 far=10.77.2.12/24
lab_in wide ip address add fd77::11/64 dev eth1 nodad
lab_in broad ip address add fd77::12/64 dev eth1 nodad
lab_host trap
lab_host snare

for t in ${TESTS:-ways conformance madrun interfaces cuts containers binding ssh}; do
    "test_$t"
done
check "no socket of a process is left" 0 "$(find /tmp -maxdepth 1 -name 'madeleine-*' -type d -exec ls {} \; | wc -l)"
[ $failures = 0 ]

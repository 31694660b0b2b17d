#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Faulty environments: one fault around a session for each row of the table in doc/troubleshooting.md.  Each fault must
# give one message with the words of the row.  The process must end within its limit, not by a signal, and leave others
# unharmed.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LAB_SOURCE=${LAB_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export BUILD LAB_SOURCE
. "$LAB_SOURCE/tests/lab/lab.sh"
if [ -n "$LAB_INSIDE" ] || ! why=$(lab_missing); then
    lab_start "$0" "$@"
    mkdir dir && cd dir || exit 1
else
    echo "# no lab ($why): the rows that need one are left out"
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    cd "$dir" || exit 1
fi
. "$LAB_SOURCE/tests/harness/checks.sh"
world=$BUILD/tests/world
madrun=$BUILD/madrun
doc=$LAB_SOURCE/doc/troubleshooting.md
stranger="python3 $LAB_SOURCE/tests/lab/stranger.py"
liar="python3 $LAB_SOURCE/tests/lab/liar.py"
key=sixteen-bytes-key
export MAD_SHM_DIR="$PWD/shm"
: >rows

# run COMMAND...: runs it with a limit; exit status in $code, output in ./out and ./err
run() {
    within 40 "$@" >out 2>err </dev/null
    code=$?
}
# row TEXT FILE [LINES]: checks that the text of this row is logged, LINES times (once), and that no process was killed
# by a signal
row() {
    echo "$1" >>rows
    said=$(grep -cF -- "$1" "$2")
    if ! grep -qF -- "| \`$1\` |" "$doc"; then
        not_ok "row: $1" "the troubleshooting page has no such row"
    elif [ "$said" != "${3:-1}" ]; then
        not_ok "row: $1" "said $said times, not ${3:-1}:" "$(cat "$2")"
    elif [ "$code" -ge 124 ]; then
        not_ok "row: $1" "exit code $code" "$(cat out err)"
    else
        ok "row: $1"
    fi
}
# Start a server, to which strangers connect.
serve() {
    rm -f stop address
    mkfifo stop
    # shellcheck disable=SC2086
    env $1 "$world" serve address $key <stop >serve.out 2>serve.err &
    server=$!
    exec 4>stop
    lab_wait address
}
# still NAME: checks that the server still answers, also over tcp; then ends it in order
still() {
    run "$world" call address $key
    check "$1: the server answers" 0 $code
    run env MAD_DRIVERS=self,tcp "$world" call address $key
    check "$1: the server answers by tcp" 0 $code
    exec 4>&-
    wait $server
    check "$1: the server ends in order" 0 $?
}
# fake HOW: starts a process that only pretends to be the server
fake() {
    rm -f hold elsewhere
    mkfifo hold
    $stranger "$1" address elsewhere <hold &
    imposter=$!
    exec 5>hold
    lab_wait elsewhere
    run env MAD_CONNECT_TIMEOUT=1000 MAD_DRIVERS=self,tcp MAD_TCP_INTERFACES=lo "$world" call elsewhere $key
    exec 5>&-
    wait $imposter
}
# half_open COMMAND...: runs the command while half-open connections occupy the server
half_open() {
    rm -f hold half
    mkfifo hold
    $stranger half address <hold >half 2>/dev/null &
    half=$!
    exec 5>hold
    lab_wait half
    "$@"
    exec 5>&-
    wait $half
}

test_blocks() {
    run "$madrun" -n 2 "$world" mismatch
    row "make both sides pack and unpack the same blocks" err
    check_lines "mismatch: one side fails, the connection goes on" 2 '(0: MAD_OK|1: MAD_ERR_MISMATCH) then MAD_OK' out
    check_lines "mismatch: the sender is told" 1 'event MAD_ERR_MISMATCH peer 1: channel mismatch, peer 1, message 0, block 0: the sender packed 16 bytes, EXPRESS; the receiver expects 8 bytes, EXPRESS' out
}

test_strangers() {
    serve
    run env MAD_DRIVERS=self,tcp "$world" call address another-key-of-16
    row "it refused this process: start both in one job, or give both the same key" err
    row "the caller does not hold the job's key" serve.err
    check_has "wrong key: status" "call: MAD_ERR_AUTH" out
    check_has "wrong key: explained" "rejected: it refused this process" out
    code=0
    for how in scan garbage garbage huge huge version version proof; do
        $stranger $how address || not_ok "stranger: $how"
    done
    row "what came is not a handshake" serve.err
    row "use the same release" serve.err
    half_open run env MAD_DRIVERS=self,tcp "$world" call address $key
    check "400 half-open connections: a call gets through" 0 $code
    version=$($stranger which address)
    still strangers
    row "it has not proved the job's key, others wait" serve.err
    serve MAD_CONNECT_TIMEOUT=300
    $stranger slow address "$version" || not_ok "stranger: slow"
    half_open true
    still "a half-open connection"
}

test_imposters() {
    serve
    fake fake-version
    row "speaks version 99 of the protocol" err
    fake fake-silent
    row "within MAD_CONNECT_TIMEOUT (" err
    fake fake-garbage
    row "no Madeleine process speaks there" err
    fake fake-close
    check_has "closed in the handshake: status" "call: MAD_ERR_PEER" out
    still imposters
    run "$world" call address $key
    row "(the process has ended)" err
}

test_limits() {
    run sh -c 'ulimit -n 9; exec "$0" listen' "$world"
    grep -m 1 "Too many open files; raise" err >first # every adapter may lack a descriptor
    row "Too many open files; raise the limit (ulimit -n)" first
    run sh -c 'ulimit -n 5; exec "$0" listen' "$world"
    check "no descriptors at all: an end, no signal" 1 $((code < 124))
    serve MAD_CONNECT_TIMEOUT=2000
    prlimit --pid $server --nofile=24:24 2>/dev/null
    half_open run env MAD_DRIVERS=self,tcp "$world" call address $key
    check "no descriptors for callers: a call gets through" 0 $code
    still "no descriptors for callers"
    run sh -c 'ulimit -f 1000; exec "$0" -n 2 "$1" talk' "$madrun" "$world"
    row "the limit of file sizes is" out
    check_lines "no shared memory: tcp is used" 2 ': tcp on [a-z0-9]+ \([^)]*\) used' out
    run sh -c 'ulimit -v 40000; exec "$0" -n 2 "$1" talk' "$madrun" "$world"
    check "little memory: exit code" 0 $code
    if command -v setpriv >/dev/null && [ "$(id -u)" -eq 0 ]; then
        run setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$madrun" -n 2 "$world" talk
        check_lines "no ptrace permission: shared memory is used, which needs none" 2 ': shm on memory \([0-9a-f]+\) used' out
    fi
}

test_knobs() {
    run env MAD_TPC_PORTS=1 "$world" listen
    row "did you mean" err
    run env MAD_SPIN=banana "$world" listen
    row "is not valid: give" err
    check_has "a bad value: status" "MAD_ERR_CONFIG" out
    run env MAD_TCP_INTERFACES=nope0 "$world" listen
    row "which this host does not have; usable are:" err
    run env MAD_TCP_PORTS=7099-7000 "$world" listen
    row "is not a range of ports like 7000-7099" err
    run env MAD_TCP_ALLOW=10.1.0.0/33 "$world" listen
    row "is neither a network nor subnets nor any" err
    run env MAD_TCP_NETWORK=backbone "$world" listen
    row "is not INTERFACE=NETWORK" err
    run env MAD_DRIVERS=self,shm,tpc "$world" listen
    row "no driver is called" err
    mkdir -p modules && echo "no library" >modules/mynet.so
    run env MAD_MODULES="$PWD/modules" MAD_DRIVERS=self,shm,mynet "$world" listen
    row "is not loaded:" err
    mkdir -p open && chmod 777 open
    run env MAD_SHM_DIR="$PWD/open" "$world" listen
    row "is not a directory that only this user can write" err
    run env MAD_SHM_DIR=/proc/nowhere "$world" listen
    row "cannot be made" err
    run "$madrun" -n 2 --hosts no-such-host.invalid true
    row "correct its name" err
}

test_ports() {
    serve "MAD_TCP_PORTS=27411 MAD_DRIVERS=self,tcp MAD_TCP_INTERFACES=lo"
    run env MAD_TCP_PORTS=27411-27411 MAD_TCP_INTERFACES=lo "$world" listen
    row "are in use on" err
    check_has "full range: the session starts all the same" "shm memory" out
    exec 4>&-
    wait $server
}

# Addresses that are not listed, when the connecting process checks and when the server does; and a gateway's system
# calls.
test_costs() {
    run env MAD_COSTS="$PWD/no/such/folder/costs" MAD_LOG=info MAD_DRIVERS=self,shm "$madrun" -n 2 "$world" talk
    row "the costs of this host are not known" err 2
}
test_listed() {
    serve
    run env MAD_TCP_ALLOW=192.0.2.0/24 MAD_DRIVERS=self,tcp MAD_TCP_INTERFACES=lo "$world" call address $key
    row "is not on the list of MAD_TCP_ALLOW" err
    check_has "not listed: nothing is said to it" "rejected: 127.0.0.1" err
    still "not listed"
    serve "MAD_TCP_ALLOW=192.0.2.0/24 MAD_DRIVERS=self,tcp MAD_TCP_INTERFACES=lo"
    run env MAD_DRIVERS=self,tcp MAD_TCP_INTERFACES=lo MAD_CONNECT_TIMEOUT=1000 "$world" call address $key
    check_has "not listed: the server says so" "is not on the list of MAD_TCP_ALLOW (192.0.2.0/24) (logged once" serve.err
    exec 4>&-
    wait $server
    run "$BUILD/tests/confined" exec
    if [ $code = 159 ]; then
        code=0
        row "is one that no gateway makes" err
    else
        echo "is one that no gateway makes" >>rows # no filter here
    fi
    run "$BUILD/tests/confined" write
    if [ $code = 3 ] && [ -s err ]; then
        row "is not on the list of those that a gateway makes" err
    else
        echo "is not on the list of those that a gateway makes" >>rows
    fi
}

test_launchers() {
    export MAD_CONNECT_TIMEOUT=1000
    run $liar none "$world" talk
    check "a launcher that does not lie" 0 $code
    run $liar garbage "$world" talk
    row "is not an address" err
    run $liar other "$world" talk
    row "is the address of another process" err
    run $liar length "$world" talk
    row "the launcher has lost a part of" err
    run $liar missing "$world" talk
    row "does every rank call mad_init?" err
    run $liar rank "$world" talk
    row "the launcher does not report the rank of this process" err
    run $liar refuse "$world" talk
    row "the launcher refuses this process" err
    run $liar noise "$world" talk
    row "so it is no PMI-1 launcher" err
    run $liar endless "$world" talk
    check_has "an endless answer" "so it is no PMI-1 launcher" err
    run $liar dies "$world" talk
    row "the launcher is gone" err
    run $liar silent "$world" talk
    row "the launcher does not answer within MAD_CONNECT_TIMEOUT" err
    unset MAD_CONNECT_TIMEOUT
    run env MAD_BOOT_FD=99 "$world" listen
    row "is no socket of this process" err
    run "$madrun" -n 2 "$world" twice
    row "has the session of rank" err 4
    row "uses a session of its parent" err 2
    run env SLURM_NTASKS=4 "$world" listen
    row "says this is one process of several, but no launcher was found" err
}

test_pmix() {
    ldconfig -p | grep -q libpmix.so.2 || return 0
    run env PMIX_NAMESPACE=nowhere "$world" listen
    if [ $code = 0 ]; then
        echo "# built without PMIx: its rows are left out"
        return
    fi
    row "PMIX_NAMESPACE is set but PMIx's server cannot be reached" err
    [ -n "$LAB_INSIDE" ] || return 0
    for file in $(ldconfig -p | sed -n 's/.*libpmix.so.2 .*=> //p'); do
        mount --bind /dev/null "$(readlink -f "$file")"
    done
    run env PMIX_NAMESPACE=nowhere "$world" listen
    row "cannot be loaded" err
    for file in $(ldconfig -p | sed -n 's/.*libpmix.so.2 .*=> //p'); do
        umount "$(readlink -f "$file")"
    done
}

test_networks() {
    run "$madrun" --keep-going -n 2 sh -c 'MAD_SHM_DIR=$PWD/shm$PMI_RANK MAD_DRIVERS=self,shm exec timeout 10 "$0" watch busy' "$world"
    row "no network in common with this peer" err 2
    check_has "nothing in common: remedy" "both processes must see the same MAD_SHM_DIR to share memory" err
    [ -n "$LAB_INSIDE" ] || return 0
    mount -t tmpfs -o size=64k tiny /dev/shm
    run "$madrun" -n 2 "$world" talk
    check_lines "a tiny /dev/shm: shared memory is used, which does not need it" 2 ': shm on memory \([0-9a-f]+\) used' out
    umount /dev/shm
    unset MAD_SHM_DIR # all hosts of the lab would share this directory
    lab_host near lan=10.77.1.1/24
    lab_host gone lan=10.77.1.2/24
    "$madrun" --timeout 60 --keep-going -n 2 --hosts near,gone --launch-agent "$LAB/agent" --env MAD_PEER_TIMEOUT=2000 \
        "$world" watch busy >out 2>err </dev/null &
    job=$!
    wait_for grep -q talks out
    lab_cut gone
    wait $job
    code=$?
    row "the host or the network is gone" err 2
}

for t in ${TESTS:-blocks strangers imposters limits knobs ports listed costs launchers pmix networks}; do
    "test_$t"
done
if [ -z "$TESTS" ] && [ -n "$LAB_INSIDE" ]; then
    sed -n 's/^| `\([^`]*\)` |.*/\1/p' "$doc" | sort -u >table
    sort -u rows >tested
    check "every row of the table was tested" "" "$(comm -23 table tested)"
fi
[ $failures = 0 ]

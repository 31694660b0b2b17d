#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The conformance suite over each driver: BUILD=<build folder> run.sh [DRIVER...]
#   DRIVER   self, shm, tcp, seal (tcp with security seal), skeleton, pipes, datagram, rails (skeleton and pipes
#            together).  Or one of these:
#            ofi-PROVIDER (ofi over a provider of libfabric), ucx-TLS (ucx over a transport of UCX).
#            verbs (on a host with an RDMA device), verbs-soft (verbs over tests/system/soft_verbs.c).
#            verbs-iwarp (the same as a device of iWARP), fault:DRIVER (DRIVER behind fault).
#            eth (in a network namespace: tests/harness/ethernet.sh).
#            mpi-openmpi, mpi-mpich (mpi over that library; THREADS_OF_MPI=multiple: with MPI_THREAD_MULTIPLE).
#            fault:rails (skeleton and pipes together behind fault).
#            Without arguments: all of them but eth, verbs and fault:rails, with ofi-tcp.  A shorter form, except over self,
#            shm and tcp.
#   TESTS="a b"  run only these tests
#   SEEDS=N      fault: number of seeds (1); the first is SEED (else chosen by the clock)
#   TOGETHER=1   the shorter form over each driver
#   LONG=1       each test in processes of its own over each driver; fault: 20 seeds
#   THREADS=marcel  all calls are made by user-level threads
# Behind fault, links are cut too (cut.c).
# Prints 'ok NAME', or 'not ok NAME' and the command that repeats the failure.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/ethernet.sh"
case " $* " in *eth\ *) ethernet_enter "$0" "$@" ;; esac
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
conform=$BUILD/tests/conform
[ -x "$conform" ] || { echo "$conform is missing: make check builds it"; exit 1; }
seeds=${SEEDS:-${LONG:+20}}
seeds=${seeds:-1}
first=${SEED:-$(date +%s)}
log=$(mktemp) || exit 1
soft=$(mktemp -d) || exit 1 # for drivers.sh
trap 'rm -f "$log"; rm -rf "$soft"' EXIT
trap 'exit 1' INT TERM HUP
. "$here/../harness/checks.sh"
. "$here/../harness/drivers.sh"

# passes NAME COMMAND...
passes() {
    name=$1
    shift
    within 240 "$@" >"$log" 2>&1
    rc=$?
    if [ $rc -eq 0 ]; then
        ok "$name"
    else
        not_ok "$name (exit status $rc)" "$(grep -v 'is disturbed; ' "$log" | tail -"${LINES_MAX:-15}")" "reproduce: $*"
    fi
}

# one DRIVER PROCESSES TEST SEED: runs one test
one() {
    case $1 in fault:*) seeded=-$4 ;; *) seeded= ;; esac
    # shellcheck disable=SC2046
    passes "conform-$1-$3$seeded${THREADS:+-$THREADS}" env ${THREADS:+CONFORM_THREADS=$THREADS} $(environment "$1" "$4") \
        $(launcher "$1" "$2") "$conform" "$3"
}

# fits NAME PROCESSES DRIVER: true if the test applies to the driver
fits() {
    [ -z "$TESTS" ] || case " $TESTS " in *" $1 "*) ;; *) return 1 ;; esac
    # libfabric's shm cannot connect two sessions of one process.
    case $3:$1 in *ofi-shm:sessions_talk | *ofi-shm:sessions_last_request | *ofi-shm:sessions_beside) return 1 ;; esac
    # Ethernet returns no frames to their sender, so two sessions of one process need interfaces of their own.
    case $3:$1 in *eth:sessions_talk | *eth:sessions_last_request | *eth:sessions_beside | *eth:sessions_wrong_key) return 1 ;; esac
    case $3:$2 in
    self:2 | fault:self:2) return 0 ;;
    self:* | fault:self:*) return 1 ;;
    esac
}

"$conform" --list >"$log" || exit 1
tests=$(cat "$log")
while [ "$seeds" -gt 0 ]; do
    for driver in ${*:-self shm tcp seal skeleton pipes rails datagram $ofi $ucx $verbs $mpi fault:self fault:shm fault:tcp fault:seal fault:datagram}; do
        # In the shorter form all tests of two processes run in one session: behind fault, with user-level threads, and among
        # all drivers, over all but these three.
        together=1
        [ -n "$TOGETHER" ] || case $THREADS:$driver:$# in :self:0 | :shm:0 | :tcp:0) together= ;; :fault:* | marcel:* | *:0) ;; *) together= ;; esac
        [ -z "$LONG$TESTS" ] || together=
        while read -r name procs alone; do
            fits "$name" "$procs" "$driver" || continue
            [ -n "$together" ] && [ "$procs" = 2 ] && [ -z "$alone" ] && continue
            one "$driver" "$procs" "$name" "$first" </dev/null
        done <<EOF
$tests
EOF
        [ -n "$TESTS" ] && continue
        one "$driver" 2 all "$first" </dev/null
        [ -n "$THREADS" ] && continue # cut.c uses plain threads only
        case $driver in
        fault:rails) ;;   # tests/system/rails_test.sh cuts rails
        fault:ofi-shm) ;; # cut.c has two sessions in one process
        fault:seal) passes "cut-seal-$first" env MAD_TCP_SECURITY=seal "$BUILD/tests/cut" tcp "$first" ${LONG:+5}5 ;;
        fault:ofi-*) passes "cut-${driver#fault:}-$first" env "MAD_OFI_PROVIDERS=${driver#fault:ofi-}" "$BUILD/tests/cut" ofi "$first" ${LONG:+5}5 ;;
        # shellcheck disable=SC2046
        fault:mpi-*) passes "cut-${driver#fault:}-$first" $(launcher "$driver" 1) "$BUILD/tests/cut" mpi "$first" ${LONG:+5}5 ;;
        fault:verbs-soft) passes "cut-verbs-$first" env "LD_LIBRARY_PATH=$soft" "$BUILD/tests/cut" verbs "$first" ${LONG:+5}5 ;;
        fault:verbs-iwarp) passes "cut-verbs-iwarp-$first" env "LD_LIBRARY_PATH=$soft" "SOFT_VERBS_IWARP=$own_address" "$BUILD/tests/cut" verbs "$first" ${LONG:+5}5 ;;
        fault:ucx-*) passes "cut-${driver#fault:}-$first" env "UCX_TLS=${driver#fault:ucx-}" "$BUILD/tests/cut" ucx "$first" ${LONG:+5}5 ;;
        fault:*) passes "cut-${driver#fault:}-$first" "$BUILD/tests/cut" "${driver#fault:}" "$first" ${LONG:+5}5 ;;
        esac
        # With this seed a link was once cut that was up at the peer only, and the test hung.
        case $driver in fault:shm) passes cut-shm-known "$BUILD/tests/cut" shm 1795911907 3 ;; esac
    done
    first=$((first + 1))
    seeds=$((seeds - 1))
    # Only fault uses seeds.
    set -- $(for d in ${*:-fault:self fault:shm fault:tcp}; do case $d in fault:*) echo "$d" ;; esac; done)
    [ $# -gt 0 ] || break
done
[ $failures = 0 ]

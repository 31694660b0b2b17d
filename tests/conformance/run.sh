#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The conformance suite over each driver: BUILD=<build folder> run.sh [DRIVER...]
#   DRIVER   self, shm, tcp, seal (tcp with security seal), skeleton, pipes, datagram, rails (skeleton and pipes
#            together).  Or one of these:
#            ofi-PROVIDER (ofi over a provider of libfabric), ucx-TLS (ucx over a transport of UCX).
#            verbs (on a host with an RDMA device), verbs-soft (verbs over tests/system/soft_verbs.c).
#            verbs-iwarp (the same as a device of iWARP), fault:DRIVER (DRIVER behind fault).
#            mpi-openmpi, mpi-mpich (mpi over that library; THREADS_OF_MPI=multiple: with MPI_THREAD_MULTIPLE).
#            Without arguments: all of them but verbs, with ofi-tcp.  A shorter form, except over self, shm and tcp.
#   TESTS="a b"  run only these tests
#   SEEDS=N      fault: number of seeds (1); the first is SEED (else chosen by the clock)
#   LONG=1       each test in processes of its own over each driver; fault: 20 seeds
#   THREADS=marcel  all calls are made by user-level threads
# Behind fault, links are cut too (cut.c).
# Prints 'ok NAME', or 'not ok NAME' and the command that repeats the failure.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
conform=$BUILD/tests/conform
[ -x "$conform" ] || { echo "$conform is missing: make check builds it"; exit 1; }
seeds=${SEEDS:-${LONG:+20}}
seeds=${seeds:-1}
first=${SEED:-$(date +%s)}
log=$(mktemp) || exit 1
soft=$(mktemp -d) || exit 1 # the folder of the libibverbs for verbs-soft
trap 'rm -f "$log"; rm -rf "$soft"' EXIT
trap 'exit 1' INT TERM HUP
. "$here/../harness/checks.sh"
export MAD_MODULES="${MAD_MODULES-$BUILD/drivers/.libs}" # datagram, mpi, ofi, ucx and verbs are modules

# environment DRIVER SEED: prints the variables that select the driver
environment() {
    case $1 in
    self) ;;
    rails) echo "MAD_DRIVERS=self,skeleton,pipes MAD_PREFER=skeleton" ;;
    skeleton | pipes | datagram) echo "MAD_DRIVERS=$1 MAD_PREFER=$1" ;;
    verbs) echo "MAD_DRIVERS=self,verbs MAD_PREFER=verbs" ;;
    verbs-soft) echo "MAD_DRIVERS=self,verbs MAD_PREFER=verbs LD_LIBRARY_PATH=$soft" ;;
    verbs-iwarp) echo "MAD_DRIVERS=self,verbs MAD_PREFER=verbs LD_LIBRARY_PATH=$soft SOFT_VERBS_IWARP=$own_address" ;;
    fault:verbs-soft) echo "MAD_DRIVERS=fault MAD_FAULT=verbs MAD_PREFER=fault MAD_FAULT_SEED=$2 LD_LIBRARY_PATH=$soft" ;;
    ofi-*) echo "MAD_DRIVERS=self,ofi MAD_PREFER=ofi MAD_OFI_PROVIDERS=${1#ofi-}" ;;
    fault:ofi-*) echo "MAD_DRIVERS=fault MAD_FAULT=ofi MAD_PREFER=fault MAD_FAULT_SEED=$2 MAD_OFI_PROVIDERS=${1#fault:ofi-}" ;;
    ucx-*) echo "MAD_DRIVERS=self,ucx MAD_PREFER=ucx UCX_TLS=${1#ucx-}" ;;
    fault:ucx-*) echo "MAD_DRIVERS=fault MAD_FAULT=ucx MAD_PREFER=fault MAD_FAULT_SEED=$2 UCX_TLS=${1#fault:ucx-}" ;;
    mpi-*) echo "MAD_DRIVERS=self,mpi MAD_PREFER=mpi MAD_MPI_THREADS=${THREADS_OF_MPI:-serialized}" ;;
    fault:mpi-*) echo "MAD_DRIVERS=fault MAD_FAULT=mpi MAD_PREFER=fault MAD_FAULT_SEED=$2" ;;
    seal) echo "MAD_PREFER=tcp MAD_TCP_SECURITY=seal" ;;
    fault:rails) echo "MAD_DRIVERS=fault MAD_FAULT=self,skeleton,pipes MAD_PREFER=fault MAD_FAULT_SEED=$2" ;;
    fault:seal) echo "MAD_DRIVERS=fault MAD_FAULT=tcp MAD_PREFER=fault MAD_FAULT_SEED=$2 MAD_TCP_SECURITY=seal" ;;
    fault:*) echo "MAD_DRIVERS=fault MAD_FAULT=${1#fault:} MAD_PREFER=fault MAD_FAULT_SEED=$2" ;;
    *) echo "MAD_PREFER=$1" ;;
    esac
}

root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
# launcher DRIVER PROCESSES
launcher() {
    case $1:$2 in
    self:* | fault:self:*) ;;
    *mpi-openmpi:*) echo "mpirun.openmpi $root --oversubscribe --bind-to none -n $2" ;;
    *mpi-mpich:*) echo "mpiexec.mpich -n $2" ;;
    *:1) ;;
    *) echo "$BUILD/madrun -n $2" ;;
    esac
}

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
    case $3:$1 in ofi-shm:sessions_talk | ofi-shm:sessions_last_request | ofi-shm:sessions_beside) return 1 ;; esac
    case $3:$2 in
    self:2 | fault:self:2) return 0 ;;
    self:* | fault:self:*) return 1 ;;
    esac
}

# Drivers of vendors' libraries, if they were built; the libraries of ofi and ucx are then there, too.
ofi=
[ -e "$MAD_MODULES/ofi.so" ] && ofi=ofi-tcp
ucx=
[ -e "$MAD_MODULES/ucx.so" ] && ucx='ucx-tcp ucx-posix'
verbs=
[ -e "$MAD_MODULES/verbs.so" ] && cp "$BUILD/tests/.libs/soft_verbs.so" "$soft/libibverbs.so.1" 2>/dev/null &&
    ln -s libibverbs.so.1 "$soft/librdmacm.so.1" && verbs=verbs-soft
# A device of iWARP needs an address that is not loopback's.
own_address=$(ip -o -4 address show scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
[ -z "$verbs" ] || [ -z "$own_address" ] || verbs="$verbs verbs-iwarp"

mpi=
for library in openmpi mpich; do
    grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && continue # MPI libraries leak
    [ -e "$MAD_MODULES/mpi.so" ] && command -v "mpirun.$library" >/dev/null && mpi="$mpi mpi-$library"
done

"$conform" --list >"$log" || exit 1
tests=$(cat "$log")
while [ "$seeds" -gt 0 ]; do
    for driver in ${*:-self shm tcp seal skeleton pipes rails datagram $ofi $ucx $verbs $mpi fault:self fault:shm fault:tcp fault:seal fault:datagram fault:rails}; do
        # In the shorter form all tests of two processes run in one session: behind fault, with user-level threads, and among
        # all drivers, over all but these three.
        together=1
        case $THREADS:$driver:$# in :self:0 | :shm:0 | :tcp:0) together= ;; :fault:* | marcel:* | *:0) ;; *) together= ;; esac
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
        fault:rails) ;; # tests/system/rails_test.sh cuts rails
        fault:seal) passes "cut-seal-$first" env MAD_TCP_SECURITY=seal "$BUILD/tests/cut" tcp "$first" ${LONG:+5}5 ;;
        fault:ofi-*) passes "cut-${driver#fault:}-$first" env "MAD_OFI_PROVIDERS=${driver#fault:ofi-}" "$BUILD/tests/cut" ofi "$first" ${LONG:+5}5 ;;
        # shellcheck disable=SC2046
        fault:mpi-*) passes "cut-${driver#fault:}-$first" $(launcher "$driver" 1) "$BUILD/tests/cut" mpi "$first" ${LONG:+5}5 ;;
        fault:verbs-soft) passes "cut-verbs-$first" env "LD_LIBRARY_PATH=$soft" "$BUILD/tests/cut" verbs "$first" ${LONG:+5}5 ;;
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

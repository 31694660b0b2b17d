#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver mpi when MPI fails (mpi_fault.c): another driver serves where the start fails, what fails later is reported, and
# nothing hangs, crashes, or leaves a request open.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/mpi.so" ] || { echo "skipped: the driver mpi is not a module here"; exit 77; }
grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { echo "skipped: MPI libraries leak in builds with a sanitizer"; exit 77; }
libraries=
for library in openmpi mpich; do
    command -v mpirun.$library >/dev/null && command -v mpicc.$library >/dev/null && libraries="$libraries $library"
done
[ -n "$libraries" ] || { echo "skipped: neither Open MPI nor MPICH is installed (openmpi-bin, libopenmpi-dev)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_PREFER=mpi MAD_PEER_TIMEOUT=5000 TMPDIR="$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_backing_directory="$work"

# mpi COMMAND...: two ranks with the library that fails
mpi() {
    case $library in
    openmpi) within 40 mpirun.openmpi --oversubscribe --bind-to none -n 2 "$@" </dev/null ;;
    mpich) within 40 mpiexec.mpich -n 2 "$@" </dev/null ;;
    esac
}
# falls NAME TEXT VARIABLE=VALUE...: ping goes on over tcp, and the log has the reason
falls() {
    name="$library: $1" text=$2
    shift 2
    mpi env MAD_DRIVERS=self,mpi,tcp MAD_MPI_LIBRARY="$work/$library.so" "$@" "$BUILD/examples/ping" >out 2>&1
    code=$?
    if [ $code = 0 ] && grep -q 'the number came back as 5' out && grep -qF -- "$text" out && ! grep -q ' [1-9][0-9]* requests' out; then
        ok "$name"
    else
        not_ok "$name" "exit status $code, wanted: $text" "$(head -c 2000 out)"
    fi
}
# perf FAULT: mad_perf over mpi alone, with the fault in rank 1
perf() {
    mpi env MAD_DRIVERS=self,mpi MAD_MPI_LIBRARY="$work/$library.so" FAULT_MPI="$1" FAULT_MPI_RANK=1 "$BUILD/mad_perf" pingpong \
        --driver mpi --sizes 8,1K,64K,1M --iters 20 --batches 2 >out 2>&1
    code=$?
}
# reports FAULT TEXT: the processes end by themselves, and the text is in what they say
reports() {
    perf "$1"
    if [ $code -gt 0 ] && [ $code -lt 124 ] && grep -qF -- "$2" out; then
        ok "$library: $1: reports it"
    else
        not_ok "$library: $1: exit status $code, wanted: $2" "$(tail -n 12 out)"
    fi
}

for library in $libraries; do
    "mpicc.$library" -std=gnu11 -shared -fPIC -o "$library.so" "$here/mpi_fault.c" >err 2>&1 ||
        { not_ok "$library: mpi_fault is compiled" "$(cat err)"; continue; }

    # ---- The start
    echo "no library" >broken.so
    falls "a library that cannot be opened" "file too short" MAD_MPI_LIBRARY="$work/broken.so"
    falls "a library that is not of MPI" "neither the binary interface" MAD_MPI_LIBRARY=libc.so.6
    for call in initialized init; do
        falls "$call fails" "of MPI" FAULT_MPI=$call,1,0
    done
    case $library in openmpi) text="internal error" ;; mpich) text="Internal MPI error" ;; esac
    for call in rank size errhandler receive; do
        falls "$call fails" "$text" FAULT_MPI=$call,1,0
    done
    # ---- Later
    perf none,1,0
    if [ $code = 0 ] && [ "$(grep -c 'mpi_fault: 0 faults, 0 requests' out)" = 2 ]; then
        ok "$library: without faults nothing is left"
    else
        not_ok "$library: without faults" "$(tail -n 12 out)"
    fi
    for fault in send,20,0 send,200,1 receive,60,0 test,50,0 test,300,1; do
        reports $fault "MPI has lost rank"
    done
    # Open MPI 4.1 writes a message that is too long behind the buffer, if one process copies from the other's memory
    export OMPI_MCA_btl_vader_single_copy_mechanism=none
    reports long,60,1 "a message is longer than a packet, from rank 1"
    unset OMPI_MCA_btl_vader_single_copy_mechanism
done
[ $failures = 0 ]

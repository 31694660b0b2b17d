#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The driver mpi over Open MPI and MPICH: the binary interfaces, messages of all lengths, a process that waits, programs that
# use MPI themselves at each level of threads, and where the driver is refused.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -e "${BUILD:?}/drivers/.libs/mpi.so" ] || { echo "skipped: the driver mpi is not a module here"; exit 77; }
grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { echo "skipped: MPI libraries leak in builds with a sanitizer"; exit 77; }
libraries=
for library in openmpi mpich; do
    command -v mpirun.$library >/dev/null && command -v mpicc.$library >/dev/null && libraries="$libraries $library"
done
[ -n "$libraries" ] || { echo "skipped: neither Open MPI nor MPICH is installed (openmpi-bin, libopenmpi-dev)"; exit 77; }
top=$(cd "$here/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export MAD_MODULES="$BUILD/drivers/.libs" MAD_DRIVERS=self,mpi MAD_LOG=info TMPDIR="$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_backing_directory="$work"

# compile LIBRARY SOURCE OPTION...: makes the program SOURCE.LIBRARY
compile() {
    library=$1 source=$2
    shift 2
    "mpicc.$library" -std=gnu11 -D_GNU_SOURCE -I"$top/include" -I"$BUILD/include" -I"$top/src" "$@" -o "$source.$library" \
        "$here/$source.c" -L"$BUILD/.libs" -lmadeleine -Wl,-rpath,"$BUILD/.libs" -lpthread >err 2>&1
}
# mpi LIBRARY N COMMAND...
mpi() {
    library=$1 n=$2
    shift 2
    case $library in
    openmpi) within 60 mpirun.openmpi --oversubscribe --bind-to none -n "$n" "$@" </dev/null ;;
    mpich) within 60 mpiexec.mpich -n "$n" "$@" </dev/null ;;
    esac
}
# good NAME LIBRARY OPTION...: runs mpi_program
good() {
    name=$1 library=$2
    shift 2
    mpi "$library" 2 "./mpi_program.$library" "$@" >out 2>&1
    code=$?
    if [ $code = 0 ] && [ "$(grep -c '^good, level' out)" = 2 ] && grep -q 'mpi on world .* is used' out; then
        ok "$name"
    else
        not_ok "$name: $code" "$(tail -n 12 out)"
    fi
}

within 20 "$BUILD/mad_info" >out 2>err
check_has "without a launcher of MPI the log has the reason" "no MPI launcher has started this process" err

for library in $libraries; do
    compile $library mpi_abi -DMPI_ABI="\"drivers/mpi/mpi_abi_$library.h\"" || { not_ok "$library: mpi_abi is compiled" "$(cat err)"; continue; }
    check "$library: the binary interface" "the same" "$(mpi $library 1 ./mpi_abi.$library 2>&1)"
    compile $library mpi_program || { not_ok "$library: mpi_program is compiled" "$(cat err)"; continue; }

    mpi $library 2 "$BUILD/mad_perf" mixed --driver mpi --iters 20 --batches 2 >out 2>&1
    check "$library: blocks of mixed lengths and modes" 0 $?
    check_has "$library: MPI is initialised by the driver" "initialised by the driver, level of threads 2" out
    MAD_MPI_THREADS=multiple mpi $library 2 "$BUILD/mad_perf" mixed --driver mpi --iters 20 --batches 2 >out 2>&1
    check "$library: the same with MPI_THREAD_MULTIPLE" 0 $?
    check_has "$library: MPI is initialised with it" "initialised by the driver, level of threads 3" out
    mpi $library 2 "$BUILD/mad_perf" idle --driver mpi --sizes 8 --iters 1 --batches 1 >out 2>&1
    busy=$(sed -n 's/.*"cpu_us_per_s": \([0-9]*\).*/\1/p' out)
    if [ "${busy:-1000000}" -lt 200000 ]; then
        ok "$library: a process that waits sleeps"
    else
        not_ok "$library: a process that waits uses ${busy:-?} us of a processor in a second" "$(tail -5 out)"
    fi

    for level in single funneled serialized multiple; do
        good "$library: a program of MPI, level $level" $library $level
    done
    check_has "$library: at level multiple every thread calls MPI" "initialised by the program, level of threads 3" out
    good "$library: with a communicator of its own, beside a thread that uses MPI" $library multiple own
    mpi $library 1 "./mpi_program.$library" address address.$library >out 2>&1
    mpi $library 1 "./mpi_program.$library" stranger address.$library >out 2>&1
    check "$library: a message to another job" refused "$(grep -x 'refused\|sent' out)"
    # Open MPI's launcher names the job, and so the network; MPICH's does not.
    case $library in
    openmpi) check_has "$library: another job is another network" "no network in common" out ;;
    mpich) check_has "$library: a process of another job is refused" "rank 0 of this MPI job is another process" out ;;
    esac
    MAD_DRIVERS=self,mpi,tcp mpi $library 2 "./mpi_program.$library" single late >out 2>&1
    check_has "$library: a program that has not initialised MPI" "call MPI_Init_thread before mad_init" out
    MAD_MPI_COMM=12345 MAD_DRIVERS=self,mpi,tcp mpi $library 2 "$BUILD/examples/ping" >out 2>&1
    check_has "$library: a communicator that is none" "the communicator (MAD_MPI_COMM=12345)" out
done

case $libraries in *openmpi*)
    # MPI over Madeleine over MPI: the point-to-point layer's own session, and the program's, leave mpi out.
    if [ -e "$BUILD/.libs/mca_pml_mad.so" ]; then
        own=$(ompi_info --path pkglibdir --parsable 2>/dev/null | sed 's/.*://')
        MAD_DRIVERS=self,mpi,tcp mpi openmpi 2 env OMPI_MCA_mca_base_component_path="$BUILD/.libs:$own" OMPI_MCA_pml=mad \
            ./mpi_program.openmpi multiple >out 2>&1
        check "MPI over Madeleine: all messages arrive" 2 "$(grep -c '^good' out)"
        check_has "MPI over Madeleine: the driver is refused" "MPI itself runs over Madeleine" out
    else
        echo "# not tried: MPI over Madeleine, as the point-to-point layer was not built"
    fi ;;
esac
[ $failures = 0 ]

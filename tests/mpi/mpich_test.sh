#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# MPICH over libfabric's provider mad (device ch4:ofi): our programs check every byte, over shared memory, over TCP, and
# with the driver fault.  MAD_TEST_MPICH names the folder in which MPICH is installed; doc/mpi.md describes how to get
# one.
. "$(dirname "$0")/openmpi.sh"
[ -f "$BUILD/.libs/libmad-fi.so" ] || { echo "no provider for libfabric was built: configure says why"; exit 77; }
[ -n "$MAD_TEST_MPICH" ] || { echo "no MPICH is named: MAD_TEST_MPICH, see doc/mpi.md"; exit 77; }
bin=$MAD_TEST_MPICH/bin
"$bin/mpichversion" 2>/dev/null | grep -q 'ch4:ofi' || { echo "in $bin is no MPICH with the device ch4:ofi"; exit 77; }
mpi_start "a provider"
mpicc="$bin/mpicc -Wno-stringop-overflow" # its header takes MPI_STATUSES_IGNORE for an array
export FI_PROVIDER_PATH="$BUILD/.libs" FI_PROVIDER=mad FI_MAD_KEY=a-key-for-these-tests MPIR_CVAR_NOLOCAL=1

# mpi N COMMAND...: runs the command on N processes over Madeleine
mpi() {
    n=$1
    shift
    within $limit "$bin/mpiexec" -launcher fork -n "$n" "$@" </dev/null
}

compile messages types groups threads windows later

# The provider is used, and windows are accessed without messages of MPICH's own
MAD_LOG=info MPIR_CVAR_DEBUG_SUMMARY=1 mpi 2 ./messages >out 2>err
check_has "MPICH goes over Madeleine" "mad: shm: info: peer 1: shm on memory" err
check_has "... with remote memory access" "MPIDI_OFI_ENABLE_RMA: 1" out
check_has "... and atomic operations" "MPIDI_OFI_ENABLE_ATOMICS: 1" out

for p in messages types groups threads windows; do
    passes shm 3 $p
    MAD_DRIVERS=self,tcp passes tcp 3 $p
done
passes shm 3 later
MAD_DRIVERS=self,fault MAD_FAULT=shm passes fault_shm 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 messages
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI over libfabric's provider mad (pml cm, mtl ofi): own programs that check every byte, over shared memory, over TCP,
# and behind faults.
. "$(dirname "$0")/openmpi.sh"
[ -f "$BUILD/.libs/libmad-fi.so" ] || { echo "no provider for libfabric was built: configure says why"; exit 77; }
openmpi_start "a provider"
ompi_info --parsable 2>/dev/null | grep -q '^mca:mtl:ofi:' || { echo "this Open MPI has no mtl ofi"; exit 77; }
export FI_PROVIDER_PATH="$BUILD/.libs"

# mpi N COMMAND...: on N processes over Madeleine
mpi() {
    n=$1
    shift
    within $limit mpirun.openmpi --oversubscribe -np "$n" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mad \
        "$@" </dev/null
}

compile messages types groups threads
for p in messages types groups threads; do
    passes shm 3 $p
    MAD_DRIVERS=self,tcp passes tcp 3 $p
done
MAD_DRIVERS=self,fault MAD_FAULT=shm passes fault_shm 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 messages
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI over libfabric's provider mad (pml cm, mtl ofi): our programs check every byte, over shared memory, over TCP,
# and with the driver fault.
. "$(dirname "$0")/openmpi.sh"
[ -f "$BUILD/.libs/libmad-fi.so" ] || { echo "no provider for libfabric was built: configure says why"; exit 77; }
openmpi_start "a provider"
ompi_info --parsable 2>/dev/null | grep -q '^mca:mtl:ofi:' || { echo "this Open MPI has no mtl ofi"; exit 77; }
export FI_PROVIDER_PATH="$BUILD/.libs"

# mpi N COMMAND...: runs the command on N processes over Madeleine
mpi() {
    n=$1
    shift
    within $limit mpirun.openmpi --oversubscribe -np "$n" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mad \
        "$@" </dev/null
}

compile messages types groups threads windows
for p in messages types groups threads windows; do
    passes shm 3 $p
    MAD_DRIVERS=self,tcp passes tcp 3 $p
done
# Windows by libfabric's remote memory access, which needs memory served while the program computes
if ompi_info --parsable | grep -q '^mca:btl:ofi:'; then
    OMPI_MCA_osc=rdma OMPI_MCA_btl=ofi,self OMPI_MCA_btl_ofi_provider_include=mad OMPI_MCA_btl_ofi_progress_mode=auto \
        passes osc_rdma 2 windows
else
    echo "# this Open MPI has no btl ofi: windows by it are left out"
fi
MAD_DRIVERS=self,fault MAD_FAULT=shm passes fault_shm 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 messages
[ $failures = 0 ]

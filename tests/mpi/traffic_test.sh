#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Random traffic of MPI programs over each plug-in, with every byte checked: one thread, and several with
# MPI_THREAD_MULTIPLE.  LONG=1: ten minutes each, with more processes (SECONDS_=N: another time); SEED=N: another seed,
# else chosen by the clock.
. "$(dirname "$0")/plugs.sh"
plugs_start openmpi-bin /usr/bin/mpirun.openmpi
duration=${SECONDS_:-$([ -n "$LONG" ] && echo 600 || echo 1)}
limit=$((duration + 100))
seed=${SEED:-$(date +%s)}
compile traffic

# random NAME N THREADS
random() {
    mpi "$2" ./traffic "$3" "$duration" "$seed" >out 2>err
    rc=$?
    if [ $rc = 0 ] && grep -q '^ok traffic' out && ! grep -q '^not ok' out; then
        ok "$1: $(sed -n 's/^rank 0: //p' err)"
    else
        not_ok "$1, seed $seed: exit code $rc" "$(head -c 3000 err)"
    fi
}
for over in $plugs; do
    unset TRAFFIC_MATCHED
    [ $over != ofi ] || export TRAFFIC_MATCHED=no # Open MPI 4.1 hangs in matched receives over every provider
    random "$over, shm" 3 1
    random "$over, shm, threads" 2 3
    MAD_DRIVERS=self,tcp random "$over, tcp, threads" 3 2
    [ $over = btl ] && OMPI_MCA_btl_mad_async=2 random "$over, shm, a thread of the component" 3 1
    [ -n "$LONG" ] || continue
    random "$over, shm, eight" 8 1
    MAD_DRIVERS=self,tcp random "$over, tcp" 4 1
    MAD_DRIVERS=self,fault MAD_FAULT=shm random "$over, shm behind faults" 3 2
    MAD_DRIVERS=self,fault MAD_FAULT=tcp random "$over, tcp behind faults" 3 2
done
[ $failures = 0 ]

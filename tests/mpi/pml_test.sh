#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI over the point-to-point layer mad: our programs check every byte, over shared memory, over TCP, and with the
# driver fault; the layer is really used; and a job without a session, or with a dead process, ends.
. "$(dirname "$0")/openmpi.sh"
[ -f "$BUILD/.libs/mca_pml_mad.so" ] || { echo "no point-to-point layer of Open MPI was built: configure says why"; exit 77; }
openmpi_start "a layer"
own=$(own_components)
bind=

# mpi N COMMAND...: runs the command on N processes over Madeleine
mpi() {
    n=$1
    shift
    # shellcheck disable=SC2086
    within $limit mpirun.openmpi --oversubscribe $bind -np "$n" --mca pml mad --mca osc ^ucx \
        --mca mca_base_component_path "$BUILD/.libs:$own" "$@" </dev/null
}

compile count groups later layer messages threads types windows

for p in messages types groups layer windows threads; do
    passes shm 3 $p
    MAD_DRIVERS=self,tcp passes tcp 3 $p
done
passes shm_one 1 groups
passes shm_four 4 groups
passes shm_four 4 layer
passes shm 2 later
MAD_DRIVERS=self,tcp passes tcp 3 later
# ... on cores that their parents use, so each poll must yield the core to them
bind="--bind-to core:overload-allowed" passes bound 2 later
MAD_DRIVERS=self,fault MAD_FAULT=shm passes fault_shm 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 layer

# ---- The way taken: each process of a ring of four sends 100 messages of 20,000 bytes, or 10 of 1,000,000
# moved NAME N LEN: what all processes report is what they sent, and less than 10,000 bytes of Open MPI's own
moved() {
    mpi 4 --mca pml_mad_report 1 ./count "$2" "$3" >out 2>err
    check_lines "$1: every process reports" 4 '^pml mad: sent [0-9]+ messages' err
    awk -v want=$((4 * $2 * $3)) '
        /^pml mad:/ { sent += $6; received += $11 }
        END {
            printf "sent %d received %d wanted %d\n", sent, received, want
            exit !(sent == received && sent >= want && sent <= want + 10000)
        }' err >sums && ok "$1: what Madeleine moved is what MPI sent" ||
        not_ok "$1: what Madeleine moved" "$(cat sums; tail -n 20 err)"
}
moved shm 100 20000
moved shm_long 10 1000000
MAD_DRIVERS=self,tcp moved tcp_long 10 1000000

# ---- A process that names another layer, or none, gets no session
within $limit mpirun.openmpi --oversubscribe -np 2 --mca pml ob1 --mca btl vader,self \
    --mca mca_base_component_path "$BUILD/.libs:$own" --mca pml_mad_report 1 ./count 1 1 </dev/null >out 2>err
check "another layer is named: exit code" 0 $?
check_lines "... and this one does nothing" 0 'pml mad' err

# ---- Without a session Open MPI reports the reason, and a death ends the job
MAD_SPIN=nonsense mpi 2 ./count 1 1 >out 2>err
check "a knob with a bad value: the job does not run over something else" 1 $(($? != 0))
check_has "... and says why" "MAD_SPIN='nonsense' is not valid" err
cat >dies.c <<'END'
#include <mpi.h>
#include <signal.h>
int main(int argc, char **argv)
{
    int rank, x = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    MPI_Recv(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
END
mpicc.openmpi -o dies dies.c
mpi 3 ./dies >out 2>err
rc=$?
[ $rc != 0 ] && [ $rc != 124 ] && ok "a process is killed: the job ends" ||
    not_ok "a process is killed: exit code $rc" "$(cat err)"

[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# MPI programs over Madeleine: the component mad of Open MPI.  Our programs check every byte, over shared memory, over
# TCP, and with the driver fault.  Madeleine's counters equal what MPI has sent.  Windows use remote memory.
. "$(dirname "$0")/openmpi.sh"
component=$BUILD/.libs/mca_btl_mad.so
[ -f "$component" ] || { echo "no component for Open MPI was built: configure says why"; exit 77; }
openmpi_start "a component"
own=$(own_components)
bind=

# mpi N COMMAND...: runs the command on N processes over Madeleine
mpi() {
    n=$1
    shift
    within $limit mpirun.openmpi --oversubscribe $bind -np "$n" --mca pml ob1 --mca btl mad,self \
        --mca mca_base_component_path "$(dirname "$component"):$own" "$@" </dev/null
}

compile async count flood groups later messages threads types windows

for p in messages types groups threads; do
    passes shm 3 $p
    MAD_DRIVERS=self,tcp passes tcp 3 $p
done
passes shm_four 4 groups
passes shm 2 later
passes shm 2 flood
rm -f sent
MAD_DRIVERS=self,tcp passes tcp 2 flood
# ... on cores that their parents use, so each poll must yield the core to them
bind="--bind-to core:overload-allowed" passes bound 2 later
MAD_DRIVERS=self,tcp passes tcp 3 later
MAD_DRIVERS=self,fault MAD_FAULT=shm passes fault_shm 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 messages

# ---- A long message leaves while its sender makes no call, also in shared memory, and is received so with a thread;
# parts of registered memory are requested
for p in async messages types; do
    OMPI_MCA_btl_mad_async=1 passes async_shm 2 $p
    OMPI_MCA_btl_mad_async=1 MAD_DRIVERS=self,tcp passes async_tcp 2 $p
done
OMPI_MCA_btl_mad_async=1 passes async_shm 3 threads
for p in "async receives" messages groups later threads; do
    OMPI_MCA_btl_mad_async=2 passes thread_shm 2 $p
    OMPI_MCA_btl_mad_async=2 MAD_DRIVERS=self,tcp passes thread_tcp 2 $p
done
OMPI_MCA_btl_mad_async=1 MAD_DRIVERS=self,fault MAD_FAULT=tcp passes async_fault 2 async
OMPI_MCA_btl_mad_get_limit=300000 MAD_DRIVERS=self,tcp passes parts_tcp 2 messages

# ---- The way taken: each process of a ring of four sends 100 messages of 20,000 bytes, or 10 of 1,000,000
# moved NAME N LEN: what all processes report is what they sent, and the headers (less than a hundredth and 10,000)
moved() {
    mpi 4 --mca btl_mad_report 1 ./count "$2" "$3" >out 2>err
    check_lines "$1: every process reports" 4 '^btl mad: sent [0-9]+ fragments' err
    btl_moved "$1" $((4 * $2 * $3))
}
moved shm 100 20000
moved shm_long 10 1000000
MAD_DRIVERS=self,tcp moved tcp_long 10 1000000
check_has "tcp: long messages are got" " got 10 blocks 10000000 bytes" err
MAD_DRIVERS=self,tcp moved tcp_unasked 50 50000
check_has "tcp: up to 64 KiB go before they are asked for" " got 0 blocks" err
OMPI_MCA_btl_mad_async=1 moved async_long 10 1000000
check_has "btl_mad_async: in shared memory, too" " got 10 blocks 10000000 bytes" err

# ---- Windows by remote memory, for which Open MPI chooses osc rdma by itself, and by messages
export OMPI_MCA_osc=^ucx OMPI_MCA_btl_mad_report=1 # ucx takes windows, and fails, where it has no network
export OMPI_MCA_btl_mad_windows=1 WORDS=1001
# by_memory NAME N: checks that N processes have written and read what the program wants (10 MiB each, or more) by remote
# memory, and have sent less than 1 MiB by messages
by_memory() {
    awk -v n="$2" '
        /^btl mad:/ { sent += $6 + $16; windows += $21 }
        END {
            printf "by messages %d, by remote memory %d\n", sent, windows
            exit !(windows >= n * 10 * 1024 * 1024 && sent < 1024 * 1024)
        }' err >sums && ok "$1: by remote memory" || not_ok "$1: by remote memory" "$(cat sums; tail -n 20 err)"
}
for n in 2 4; do
    passes "shm_$n" $n windows
    by_memory "shm_$n" $n
    MAD_DRIVERS=self,tcp passes "tcp_$n" $n windows
    by_memory "tcp_$n" $n
done
for async in 1 2; do
    OMPI_MCA_btl_mad_async=$async passes "async_${async}_shm" 2 windows
    OMPI_MCA_btl_mad_async=$async MAD_DRIVERS=self,tcp passes "async_${async}_tcp" 2 windows
done
unset OMPI_MCA_btl_mad_windows WORDS # with threads remote memory is the default
passes threads_shm 3 windows threads
MAD_DRIVERS=self,tcp passes threads_tcp 3 windows threads
OMPI_MCA_btl_mad_async=2 passes threads_async 2 windows threads
OMPI_MCA_btl_mad_windows=1 MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 windows
passes messages_shm 2 windows
check_has "windows of messages are the default: nothing by remote memory" "windows 0 operations 0 bytes" err
unset OMPI_MCA_osc OMPI_MCA_btl_mad_report

# ---- Without a session Open MPI reports the reason, and a death ends the job
MAD_SPIN=nonsense mpi 2 --mca btl_base_verbose 1 ./count 1 1 >out 2>err
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

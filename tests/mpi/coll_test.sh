#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI's collective operations over the component coll mad: every operation with the layer and with the component btl,
# over shared memory and TCP, by several threads; what is passed on, and the reason; a dead process; two hosts.
. "$(dirname "$0")/openmpi.sh"
[ -f "$BUILD/.libs/mca_coll_mad.so" ] || { echo "no collective component of Open MPI was built: configure says why"; exit 77; }
openmpi_start "a component"
own=$(own_components)
over=pml
flags=

# mpi N COMMAND...: runs the command on N processes, over $over, with $flags
mpi() {
    n=$1
    shift
    case $over in
    pml) set -- --mca pml mad "$@" ;;
    btl) set -- --mca pml ob1 --mca btl mad,self "$@" ;;
    esac
    # shellcheck disable=SC2086
    within $limit mpirun.openmpi --oversubscribe -np "$n" --mca osc ^ucx $flags \
        --mca mca_base_component_path "$BUILD/.libs:$own" "$@" </dev/null
}

compile collectives

# ---- Every operation.  `short` 0: nothing is left to Open MPI because it is short
for n in 2 3 4 5 8; do
    flags="--mca coll_mad_short 0"
    passes "$n" $n collectives
done
passes threads 3 collectives threads
MAD_DRIVERS=self,tcp passes tcp 3 collectives
over=btl
passes btl 3 collectives
MAD_DRIVERS=self,tcp passes btl_tcp 4 collectives
over=pml
flags=
passes short_passed_on 4 collectives

# ---- Operations that are served, and those that are passed on
cat >ops.c <<'END'
#include <mpi.h>
#include <string.h>
int main(int argc, char **argv)
{
    static char buf[100000], all[300000];
    MPI_Comm half, both;
    int rank, sum, counts[3] = {1, 2, 3}, in[6] = {1, 1, 1, 1, 1, 1}, out[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(argv[1], "long"))
        for (int i = 0; i < 10; i++)
            MPI_Bcast(buf, sizeof buf, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!strcmp(argv[1], "short"))
        for (int i = 0; i < 10; i++)
            MPI_Bcast(buf, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!strcmp(argv[1], "uneven"))
        for (int i = 0; i < 10; i++)
            MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(argv[1], "inter")) {
        MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !rank, 1, &both);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, both);
        MPI_Comm_set_name(both, "both");
        if (sum != (rank ? 0 : 3))
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    (void)all;
    return 0;
}
END
$mpicc -std=c11 -O1 -o ops ops.c || not_ok "compile ops.c"
# served NAME ARGUMENT LEAST PASSED: with 3 processes, each reports at least LEAST operations, and PASSED more than an empty
# program passes on
served() {
    flags="--mca coll_mad_report 1" mpi 3 ./ops none >out 2>err
    before=$(sed -n 's/^coll mad: \([0-9]*\) operations, and \([0-9]*\) passed on$/\1 \2/p' err | sort -n | head -1)
    flags="--mca coll_mad_report 1" mpi 3 ./ops "$2" >out 2>err
    check "$1: exit code" 0 $?
    after=$(sed -n 's/^coll mad: \([0-9]*\) operations, and \([0-9]*\) passed on$/\1 \2/p' err | sort -n | head -1)
    # shellcheck disable=SC2086
    set -- "$1" "$3" "$4" $before $after
    [ $# = 7 ] && [ $(($6 - $4)) -ge "$2" ] && [ $(($7 - $5)) -ge "$3" ] && ok "$1: as expected" ||
        not_ok "$1: $2 served, $3 passed on" "$* $(cat err)"
}
served "long broadcasts" long 10 0
served "short broadcasts" short 0 10
served "blocks of different lengths" uneven 0 10
flags="--mca coll_base_verbose 10" mpi 3 ./ops inter >out 2>err
check "an intercommunicator: Open MPI's own operations" 0 $?
check_has "... and the reason is said" "the communicator is one between two groups" err
flags="--mca coll_mad_priority 0 --mca coll_mad_report 1" mpi 2 ./ops long >out 2>err
check_lines "priority 0: never used" 2 '^coll mad: 0 operations, and 0 passed on$' err
over=none
flags="--mca pml ob1 --mca btl vader,self --mca coll_base_verbose 10" mpi 2 ./ops long >out 2>err
over=pml
check "without pml mad and btl mad: exit code" 0 $?
check_has "... and the reason is said" "coll mad: not for communicator MPI_COMM_WORLD: neither pml mad nor btl mad is in use" err

# ---- A process dies in the middle of each kind of operation: the others end, with an error
cat >dies.c <<'END'
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static double in[40000], out[40000];
    int rank, rc = MPI_SUCCESS;
    MPI_Request r;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; rc == MPI_SUCCESS; i++) {
        if (i == 50 && rank == 1)
            raise(SIGKILL);
        switch (argv[1][0]) {
        case 'b': rc = MPI_Barrier(MPI_COMM_WORLD); break;
        case 'c': rc = MPI_Bcast(in, 40000, MPI_DOUBLE, i % 4, MPI_COMM_WORLD); break;
        case 'r': rc = MPI_Allreduce(in, out, 10000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
        case 'g': rc = MPI_Allgather(in, 10000, MPI_DOUBLE, out, 10000, MPI_DOUBLE, MPI_COMM_WORLD); break;
        case 'a': rc = MPI_Alltoall(in, 10000, MPI_DOUBLE, out, 10000, MPI_DOUBLE, MPI_COMM_WORLD); break;
        case 'n':
            rc = MPI_Iallreduce(in, out, 10000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
            if (rc == MPI_SUCCESS)
                rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
            break;
        }
    }
    printf("rank %d has an error\n", rank);
    fflush(stdout);
    _exit(0);
}
END
$mpicc -std=c11 -D_GNU_SOURCE -O1 -o dies dies.c || not_ok "compile dies.c"
# Without --enable-recovery, Open MPI itself ends the job as soon as a process is killed.
for op in barrier copy reduce gather all-to-all non-blocking; do
    flags="--enable-recovery --mca coll_mad_short 0" limit=60 mpi 4 ./dies $op >out 2>err
    rc=$?
    check_lines "a process is killed in operations ($op), exit code $rc: all others get an error" 3 '^rank [023] has an error' out
    check_has "... and the cause is said" "coll mad: an operation on communicator MPI_COMM_WORLD has failed" err
done

[ $failures = 0 ]

/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that join later.  Some are started by the program (MPI_Comm_spawn, twice: the second group after the first one
 * has ended), others connect at a port (MPI_Comm_accept, MPI_Comm_connect).  An argument names the program to start instead
 * of this one. */
#include "check.h"

#define CHILDREN 2
static const int lens[] = {1, 300, 5000, 40000, 300000};

/* Exchange messages with every process of the other group, in both directions at once; then among all. */
static void exchange(MPI_Comm other, int high)
{
    int me, n, one = 1, sum = 0, all;
    MPI_Comm both;
    MPI_Comm_rank(other, &me);
    MPI_Comm_remote_size(other, &n);
    for (unsigned k = 0; k < sizeof lens / sizeof *lens; k++)
        for (int i = 0; i < n; i++) {
            unsigned char *out = get((size_t)lens[k]), *in = get((size_t)lens[k]);
            fill(out, (size_t)lens[k], me, i);
            MPI_Sendrecv(out, lens[k], MPI_BYTE, i, 1, in, lens[k], MPI_BYTE, i, 1, other, MPI_STATUS_IGNORE);
            expect_bytes(in, (size_t)lens[k], i, me);
            free(out);
            free(in);
        }
    MPI_Intercomm_merge(other, high, &both);
    MPI_Comm_size(both, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
    EXPECT(sum == all);
    MPI_Comm_free(&both);
}

static int child(MPI_Comm parents)
{
    int none = 0;
    exchange(parents, 1);
    MPI_Reduce(&wrong, &none, 1, MPI_INT, MPI_SUM, 0, parents); /* the parent prints the result */
    MPI_Comm_disconnect(&parents);
    MPI_Finalize();
    return 0;
}

static void spawn(char *program)
{
    int errors[CHILDREN], theirs = 0, none = 0;
    MPI_Comm children;
    MPI_Comm_spawn(program, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errors);
    exchange(children, 0);
    MPI_Reduce(&none, &theirs, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    EXPECT(!theirs);
    MPI_Comm_disconnect(&children);
}

/* Connect the two halves of the job: the first half waits at a port for the second one. */
static void meet(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int accepts = rank < (size + 1) / 2;
    MPI_Comm half, other;
    MPI_Comm_split(MPI_COMM_WORLD, accepts, rank, &half);
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (accepts)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
    exchange(other, accepts);
    MPI_Comm_disconnect(&other);
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    MPI_Comm parents;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL)
        return child(parents);
    meet();
    check_end("meet_at_port");
    for (int i = 0; i < 2; i++)
        spawn(argc > 1 ? argv[1] : argv[0]);
    check_end("spawn_twice");
    return finish();
}

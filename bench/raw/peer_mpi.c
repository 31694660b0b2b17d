/* SPDX-License-Identifier: BSD-3-Clause */
/* The same ping-pong over MPI, by the same rules, for whatever MPI it is compiled with. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine.h"

typedef struct side {
    int rank, size;
    char *send, *receive;
} side_t;

static int mpi_body(void *arg, int n)
{
    side_t *s = arg;
    int other = !s->rank;
    for (int i = 0; i < n; i++) {
        if (s->rank == 0)
            MPI_Send(s->send, s->size, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        MPI_Recv(s->receive, s->size, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (s->rank == 1)
            MPI_Send(s->send, s->size, MPI_BYTE, other, 1, MPI_COMM_WORLD);
    }
    return 0;
}

static int sizes_run(side_t *s, const bench_options_t *o, const char *who)
{
    for (int i = 0; i < o->n_sizes; i++) {
        bench_stats_t us;
        size_t size = o->sizes[i];
        s->size = (int)size;
        MPI_Barrier(MPI_COMM_WORLD);
        if (bench_measure(o, size, 2, mpi_body, s, s->rank == 0 ? &us : NULL))
            return 1;
        if (!bench_check(s->receive, size, 7))
            return fprintf(stderr, "%s: wrong data at %zu bytes\n", who, size), 1;
        if (s->rank == 0)
            bench_row_print(o, &(bench_row_t){.who = who, .test = "pingpong", .size = size, .us = us,
                                              .iterations = (long)bench_iterations(o, size) * bench_batches(o, size),
                                              .bytes_per_us = (double)size / us.best});
    }
    return 0;
}

int main(int argc, char **argv)
{
    int ranks, len;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    bench_options_t o;
    side_t side;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &side.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(version, &len);
    const char *who = strstr(version, "Open MPI") ? "openmpi" : strstr(version, "MPICH") ? "mpich" : "mpi";
    if (bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M") || ranks != 2)
        return MPI_Abort(MPI_COMM_WORLD, 2);
    size_t most = 1;
    for (int i = 0; i < o.n_sizes; i++)
        most = o.sizes[i] > most ? o.sizes[i] : most;
    side.send = malloc(most);
    side.receive = malloc(most);
    if (!side.send || !side.receive || bench_pin(o.cpus[side.rank]))
        return MPI_Abort(MPI_COMM_WORLD, 1);
    bench_fill(side.send, most, 7);
    memset(side.receive, 0, most);
    if (sizes_run(&side, &o, who))
        return MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    free(side.send);
    free(side.receive);
    return 0;
}

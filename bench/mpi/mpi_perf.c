/* SPDX-License-Identifier: BSD-3-Clause */
/* Benchmarks of an MPI library, by the rules of the other benchmarks:
 *
 *   mpi_perf overlap       the part of a message's time that computing hides
 *   mpi_perf matching      8 bytes there and back, with other messages in the queues (--sizes: their number)
 *   mpi_perf collectives   barrier, broadcast, sum, and all to all
 *   mpi_perf crowd         every process sends to every other one for the first time
 *   mpi_perf rma           memory of the other process is written, read, and added to
 *
 * The options are those of all benchmarks (engine.h).  peer_mpi measures the ping-pong and rates. */
#include "mpi_perf.h"

#include <string.h>

static const mpi_perf_test_t *const tests[] = {&mpi_perf_overlap, &mpi_perf_matching, &mpi_perf_collectives, &mpi_perf_crowd,
                                               &mpi_perf_rma};

int mpi_perf_print(const mpi_perf_t *p, const char *test, bench_stats_t us, int units, const char *extra)
{
    long iterations = (long)bench_iterations(&p->options, p->size) * bench_batches(&p->options, p->size) * units;
    bench_row_print(&p->options, &(bench_row_t){.who = "mpi",
                                                .test = test,
                                                .size = p->size,
                                                .us = us,
                                                .extra = extra,
                                                .iterations = iterations,
                                                .bytes_per_us = (double)p->size / us.best});
    return 0;
}

int mpi_perf_measure(mpi_perf_t *p, const char *test, int units, bench_body_t body)
{
    bench_stats_t us;
    char extra[64];
    if (bench_measure(&p->options, p->size, units, body, p, p->first ? &us : NULL))
        return -1;
    if (!p->first)
        return 0;
    snprintf(extra, sizeof extra, "\"per_us_best\": %.4f", 1 / us.best);
    return mpi_perf_print(p, test, us, units, extra);
}

static const mpi_perf_test_t *test_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i]->name, name))
            return tests[i];
    return NULL;
}

/* Start the test. 0, or -1 after a line on stderr by rank 0. */
static int start(mpi_perf_t *p, const mpi_perf_test_t *test, int argc, char **argv)
{
    size_t most = 8;
    if (!test || p->ranks < 2 || (test->ranks && test->ranks != p->ranks)) {
        if (p->first)
            fputs("usage: mpirun -n 2 mpi_perf overlap|matching|collectives|crowd|rma [--sizes LIST] [--cpus A,B]\n"
                  "       [--iters N] [--batches N] [--json]; collectives, crowd: also more processes\n",
                  stderr);
        return -1;
    }
    if (bench_options_parse(&p->options, argc, argv, 2, test->sizes) ||
        (p->rank < BENCH_CPUS_MAX && bench_pin(p->options.cpus[p->rank])))
        return -1;
    for (int i = 0; i < p->options.n_sizes; i++)
        most = p->options.sizes[i] > most ? p->options.sizes[i] : most;
    p->send = calloc((size_t)p->ranks, most);
    p->receive = calloc((size_t)p->ranks, most);
    return p->send && p->receive ? 0 : -1;
}

int main(int argc, char **argv)
{
    mpi_perf_t p = {0};
    const mpi_perf_test_t *test = test_find(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
    p.first = p.rank == 0;
    if (start(&p, test, argc, argv))
        return MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < p.options.n_sizes; i++) {
        p.size = p.options.sizes[i];
        if (test->run(&p))
            return MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    free(p.send);
    free(p.receive);
    return 0;
}

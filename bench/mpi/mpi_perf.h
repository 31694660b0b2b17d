/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the tests of mpi_perf.  A test is a file with one function; all processes call it for each size. */
#ifndef BENCH_MPI_PERF_H
#define BENCH_MPI_PERF_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../engine.h"

typedef struct mpi_perf {
    bench_options_t options;
    int rank, ranks;
    bool first;           /* true: this process times and prints */
    size_t size;          /* size of the current measurement; its meaning depends on the test */
    char *send, *receive; /* buffers of size bytes for each process, at least 8 */
    void *more;           /* private to the test */
} mpi_perf_t;

typedef struct mpi_perf_test {
    const char *name;
    const char *sizes;         /* default of --sizes */
    int ranks;                 /* required number of processes; 0: any number from 2 on */
    int (*run)(mpi_perf_t *p); /* 0, or the code that ends the measurement */
} mpi_perf_test_t;

extern const mpi_perf_test_t mpi_perf_overlap, mpi_perf_matching, mpi_perf_collectives, mpi_perf_crowd, mpi_perf_rma;

/* Rank 0 prints a row. units: number of operations in one iteration, for which us is given.  Return 0. */
int mpi_perf_print(const mpi_perf_t *p, const char *test, bench_stats_t us, int units, const char *extra);
/* Measure body as bench_measure does, and print the row. */
int mpi_perf_measure(mpi_perf_t *p, const char *test, int units, bench_body_t body);

#endif

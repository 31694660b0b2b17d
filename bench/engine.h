/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of all benchmarks: clock, sizes, batches, statistics, output, progress.  A measurement of one size
 * consists of batches; a batch times many iterations together, so the clock costs nothing per iteration.  A batch gives
 * one sample: microseconds per unit (one way for a ping-pong).  The engine knows nothing of what is measured: mad_perf,
 * the raw floors and the peers all use it, and so follow the same rules. */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_SIZES_MAX 256
#define BENCH_CPUS_MAX 2

/* Options of the command line. iterations and batches are 0 if the rules decide by size. */
typedef struct bench_options {
    const char *driver;
    const char *channel;
    size_t sizes[BENCH_SIZES_MAX];
    int n_sizes;
    int iterations;
    int batches;
    int pairs;                         /* number of pairs; 0: all */
    int ms;                            /* ms: duration of tests that run for a time */
    const char *form, *receive, *ways; /* options of tests of rates; NULL: the default */
    int cpus[BENCH_CPUS_MAX];          /* processors to which the processes are bound; -1: not bound */
    bool json;
    bool help;
    bool user_level; /* true with --threads marcel */
} bench_options_t;

typedef struct bench_stats {
    double best;   /* time per unit of the best batch */
    double median; /* median of all batches */
    double mean;   /* mean of all batches, so that rare events count */
} bench_stats_t;

/* One line of results.  Text fields may be NULL; extra is text for the JSON object, or NULL. */
typedef struct bench_row {
    const char *who;
    const char *test;
    const char *driver;
    size_t size;
    long iterations;     /* number of all timed iterations: batches times iterations per batch */
    bench_stats_t us;    /* microseconds */
    double bytes_per_us; /* bandwidth of the best batch; equals 10^6 bytes a second */
    const char *extra;
} bench_row_t;

/* Do n iterations.  Returns 0, or the code that ends the measurement. */
typedef int (*bench_body_t)(void *arg, int n);

/* Return the time of the monotonic clock in ns. */
uint64_t bench_now(void);

/* Tie the calling thread to a processor; cpu < 0 does nothing.  0 or -1 with errno. */
int bench_pin(int cpu);

/* Parse "8,1K,65536" or "1K-1M" (doubling, ends included), suffixes K, M, G binary.  Return the number of sizes, or -1. */
int bench_sizes_parse(const char *text, size_t *sizes, int max);

/* Parse the options after argv[first].  0, or -1 after one line on stderr. */
int bench_options_parse(bench_options_t *options, int argc, char **argv, int first, const char *default_sizes);

/* Return the number of iterations of a batch, or the number of batches.  The rules give minimum values unless the command
 * line sets them. */
int bench_iterations(const bench_options_t *options, size_t size);
int bench_batches(const bench_options_t *options, size_t size);

/* Return best, median and mean of n samples; sorts them. */
bench_stats_t bench_stats(double *samples, int n);

/* Run one batch to warm up, then the batches.  Each sample is the time of a batch in microseconds divided by
 * (iterations * divisor).  The side that does not time passes stats NULL, and does the same number of iterations. */
int bench_measure(const bench_options_t *options, size_t size, double divisor, bench_body_t body, void *arg,
                  bench_stats_t *stats);

/* Subtract ns nanoseconds from the current batch. */
void bench_untimed(uint64_t ns);

/* Print a row: a JSON object on one line, or a line of a table (with the table's head before the first row of a test). */
void bench_row_print(const bench_options_t *options, const bench_row_t *row);

/* Report progress on stderr: always on a terminal, elsewhere once the measurement has lasted two seconds. */
void bench_progress(const char *what, size_t size, int done, int of);
void bench_progress_end(void);

/* Fill and check a payload; the pattern depends on seed, so that an old message cannot pass for a new one. */
void bench_fill(void *buf, size_t len, unsigned seed);
bool bench_check(const void *buf, size_t len, unsigned seed);

#endif

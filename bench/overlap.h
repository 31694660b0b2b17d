/* SPDX-License-Identifier: BSD-3-Clause */
/* Overlap of computation and communication, measured by the same rules for all programs: mad_perf with the library, and
 * raw_overlap with plain sockets and a thread. */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "engine.h"

#define OVERLAP_LENGTHS 3 /* lengths of computing: (2 + i) / 2 times the message's duration */
#define OVERLAP_EXTRA 240

/* Result for one length of computing: the row's times, and its further fields as text. */
typedef struct overlap {
    bench_stats_t us;
    char extra[OVERLAP_EXTRA];
} overlap_t;

/* Times of a round in us: all of it, the call that begins, and the wait at the end. */
typedef struct overlap_time {
    double us, begin_us, end_us;
} overlap_time_t;

/* One round of the computing side: begin to send (or to receive), compute `steps` without calling the library, wait for
 * the end. 0 or -1. */
typedef int (*overlap_round_t)(void *arg, bool sends, uint64_t steps, overlap_time_t *time);

/* Return the number of rounds that overlap_measure needs from the other side. */
int overlap_rounds(const bench_options_t *o);

/* Measure one direction: the message alone, computing alone, and both, in turn in each round. exposed_percent is the
 * part of the shorter of the two that the longer did not hide: (total - max) / min, median of the rounds. begin_us and
 * end_us are the durations of the calls in rounds with computing. 0 or -1. */
int overlap_measure(const bench_options_t *o, bool sends, overlap_round_t round, void *arg, overlap_t rows[OVERLAP_LENGTHS]);

/* Compute without memory and without a clock, so that it takes longer if the processor is shared. overlap_rate: steps
 * per us of a thread that has a processor. */
void overlap_compute(uint64_t steps);
double overlap_steps_per_us(void);
double overlap_us_since(uint64_t start); /* Return the time since `start`, a time of bench_now. */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Computing while a message goes, measured by the same rules whoever moves the message: mad_perf by the library,
 * raw_overlap by plain sockets and a thread. */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "engine.h"

#define OVERLAP_LENGTHS 3 /* of computing: (2 + i) / 2 times the message */
#define OVERLAP_EXTRA 240

/* What one length of computing gave: the row's times, and the rest of its fields as text. */
typedef struct overlap {
    bench_stats_t us;
    char extra[OVERLAP_EXTRA];
} overlap_t;

/* What a round took, in microseconds; of it the call that begins, and the wait at the end. */
typedef struct overlap_time {
    double us, begin_us, end_us;
} overlap_time_t;

/* One round of who computes: begin to send (or to receive), do so many steps without calling in, wait for the end.
 * 0 or -1. */
typedef int (*overlap_round_t)(void *arg, bool sends, uint64_t steps, overlap_time_t *time);

/* How many rounds all of overlap_measure takes of who only answers. */
int overlap_rounds(const bench_options_t *o);

/* One way: the message alone, computing alone, and both, one after another in each round.  exposed_percent is the part of
 * the shorter of the two that was not hidden by the longer: (total - max) / min, the median of the rounds; begin_us and
 * end_us what the calls took, in those with computing.  0 or -1. */
int overlap_measure(const bench_options_t *o, bool sends, overlap_round_t round, void *arg, overlap_t rows[OVERLAP_LENGTHS]);

/* Compute: no memory, no clock, so that it takes longer when something takes the processor away; and how much is done in a
 * microsecond by a thread that has one. */
void overlap_compute(uint64_t steps);
double overlap_steps_per_us(void);
double overlap_us_since(uint64_t start); /* of bench_now */

#endif

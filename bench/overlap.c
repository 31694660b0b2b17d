/* SPDX-License-Identifier: BSD-3-Clause */
#include "overlap.h"

#include <stdio.h>

#define ROUNDS 60
#define WARM_UP 60 /* number of rounds that are not timed */

static volatile uint64_t sink;

void overlap_compute(uint64_t steps)
{
    uint64_t x = sink + 1;
    for (uint64_t i = 0; i < steps; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

double overlap_us_since(uint64_t start)
{
    return (double)(bench_now() - start) / 1e3;
}

double overlap_steps_per_us(void)
{
    double best = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t start = bench_now();
        overlap_compute(100000);
        double rate = 100000 / overlap_us_since(start);
        best = rate > best ? rate : best;
    }
    return best;
}

static int timed_rounds(const bench_options_t *o)
{
    return o->batches && o->batches < ROUNDS ? o->batches : ROUNDS;
}

int overlap_rounds(const bench_options_t *o)
{
    return WARM_UP + timed_rounds(o) * (1 + 2 * OVERLAP_LENGTHS);
}

static double exposed(double total, double message, double computing)
{
    double less = message < computing ? message : computing, more = message < computing ? computing : message;
    return 100 * (total - more) / less;
}

static int length_measure(const bench_options_t *o, bool sends, overlap_round_t round, void *arg, double message,
                          uint64_t steps, overlap_t *row)
{
    double share[ROUNDS], us[ROUNDS], computing[ROUNDS], begin[ROUNDS], end[ROUNDS];
    int rounds = timed_rounds(o);
    for (int i = 0; i < rounds; i++) {
        overlap_time_t alone, both;
        uint64_t begun;
        if (round(arg, sends, 0, &alone))
            return -1;
        begun = bench_now();
        overlap_compute(steps);
        computing[i] = overlap_us_since(begun);
        if (round(arg, sends, steps, &both))
            return -1;
        us[i] = both.us;
        begin[i] = both.begin_us;
        end[i] = both.end_us;
        share[i] = exposed(both.us, alone.us, computing[i]);
    }
    double median = bench_stats(share, rounds).median;
    row->us = bench_stats(us, rounds);
    snprintf(row->extra, sizeof row->extra,
             "\"way\": \"%s\", \"message_us\": %.1f, \"computing_us\": %.1f, \"exposed_percent\": %.2f, \"begin_us\": %.1f, "
             "\"end_us\": %.1f",
             sends ? "send" : "receive", message, bench_stats(computing, rounds).median, median > 0 ? median : 0,
             bench_stats(begin, rounds).median, bench_stats(end, rounds).median);
    return 0;
}

int overlap_measure(const bench_options_t *o, bool sends, overlap_round_t round, void *arg, overlap_t rows[OVERLAP_LENGTHS])
{
    double us[ROUNDS], rate, message;
    int rounds = timed_rounds(o), rc = 0;
    for (int i = -WARM_UP; i < rounds; i++) {
        overlap_time_t alone;
        if (round(arg, sends, 0, &alone))
            return -1;
        us[i < 0 ? 0 : i] = alone.us;
    }
    message = bench_stats(us, rounds).median;
    rate = overlap_steps_per_us();
    for (int i = 0; i < OVERLAP_LENGTHS && !rc; i++)
        rc = length_measure(o, sends, round, arg, message, (uint64_t)(message * (2 + i) / 2 * rate), &rows[i]);
    return rc;
}

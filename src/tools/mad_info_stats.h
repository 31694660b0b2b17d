/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared declarations of "mad_info stats".  A process is {pid program sessions[]}; core/inspect/stats.c makes the sessions. */
#ifndef MAD_INFO_STATS_H
#define MAD_INFO_STATS_H

#include "core/inspect/counters.h"
#include "tools/mad_info.h"

#include <stdint.h>
#include <stdio.h>

/* Query a process, or all processes (pid -1).  Return [{pid program sessions[]}], with {pid program error} for a
 * process that does not answer.  Return NULL if process pid does not answer; `why` gives the reason. */
json_t *madi_stats_gather(const madi_info_options_t *options, int pid, char *why);
/* Return the process with that number among those that have answered; NULL if there is none. */
const json_t *madi_stats_process(const json_t *processes, double pid);
void madi_info_sleep_until(int64_t when); /* ns of the monotonic clock */

/* mad_info_metrics.c */
/* Return the sessions with counters as rates per second since `before` (NULL: as totals); gauges are unchanged. */
json_t *madi_stats_rates(const json_t *sessions, const json_t *before);
/* Print the processes for Prometheus, including those with an error. */
void madi_stats_prometheus(const json_t *processes);

/* mad_info_table.c: a table; cells are copied, the first row is the head, numbers are right-aligned. */
typedef struct madi_table {
    char **cells;
    int n, columns;
} madi_table_t;
void madi_table_text(madi_table_t *table, const char *text);
void madi_table_number(madi_table_t *table, double n);
void madi_table_bytes(madi_table_t *table, double n);
/* print the table unless it has only a head; then empty it */
void madi_table_print(madi_table_t *table, const char *indent);

#endif

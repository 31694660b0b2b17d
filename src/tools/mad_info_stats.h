/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of "mad_info stats" share.  A process is {pid program sessions[]}, as core/stats.c answers. */
#ifndef MAD_INFO_STATS_H
#define MAD_INFO_STATS_H

#include "tools/mad_info.h"

#include <stdint.h>
#include <stdio.h>

/* What processes answer: {pid program sessions[]} or {pid program error} of each; pid -1: of all.  NULL: not even one, and
 * why. */
json_t *madi_stats_gather(const madi_info_options_t *options, int pid, char *why);
/* The process of that number among such as have answered; NULL: none. */
const json_t *madi_stats_process(const json_t *processes, double pid);
void madi_sleep_until(int64_t when); /* ns of the monotonic clock */

/* mad_info_metrics.c */
/* The same sessions with what was counted since `before` (or ever, if that is NULL), by second; gauges as they are. */
json_t *madi_stats_rates(const json_t *sessions, const json_t *before);
/* Text for Prometheus: processes as above, and {pid error} of those that do not answer. */
void madi_stats_prometheus(const json_t *processes);

/* mad_info_table.c: cells are copied; the first row is the head.  Numbers stand on the right. */
typedef struct madi_table {
    char **cells;
    int n, columns;
} madi_table_t;
void madi_table_text(madi_table_t *table, const char *text);
void madi_table_number(madi_table_t *table, double n);
void madi_table_bytes(madi_table_t *table, double n);
void madi_table_print(madi_table_t *table, const char *indent); /* unless there is but a head; and empty it */

#endif

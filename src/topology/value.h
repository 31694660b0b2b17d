/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units, as they are written in topology files and on command lines, and the other way round.  Locales have
 * no say in it. */
#ifndef MADI_TOPOLOGY_VALUE_H
#define MADI_TOPOLOGY_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "1.5us": a number and ns, us, ms or s; from 0.001 ns to 1000 s.  In picoseconds. */
bool madi_value_time(const char *text, int64_t *ps);
/* "10Gbit/s", "1.2GB/s": a number, nothing or k, M, G, T (Ki, Mi, Gi, Ti), and bit/s or B/s; from 1 kB/s to 1 PB/s.  In
 * bytes in a second. */
bool madi_value_bandwidth(const char *text, int64_t *bytes);
/* "64KiB", "1MB", "8": up to 1 TiB.  In bytes. */
bool madi_value_bytes(const char *text, int64_t *bytes);

/* The shortest of these forms; constant memory of the caller's. */
#define MADI_VALUE_MAX 32
const char *madi_value_time_text(int64_t ps, char text[MADI_VALUE_MAX]);
const char *madi_value_bandwidth_text(int64_t bytes, char text[MADI_VALUE_MAX]);
const char *madi_value_bytes_text(int64_t bytes, char text[MADI_VALUE_MAX]);

#endif

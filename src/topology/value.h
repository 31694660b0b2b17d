/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units, in topology files and on command lines: parsing and formatting.  The locale has no effect. */
#ifndef MADI_TOPOLOGY_VALUE_H
#define MADI_TOPOLOGY_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parse a time, "1.5us": a number and ns, us, ms or s; 0.001 ns to 1000 s.  Set *ps to picoseconds. */
bool madi_value_time(const char *text, int64_t *ps);
/* Parse a bandwidth, "10Gbit/s", "1.2GB/s": a number, an optional k, M, G, T (Ki, Mi, Gi, Ti), and bit/s or B/s; 1 kB/s
 * to 1 PB/s.  Set *bytes to bytes per second. */
bool madi_value_bandwidth(const char *text, int64_t *bytes);
/* Parse a size, "64KiB", "1MB", "8"; up to 1 TiB.  Set *bytes to the size in bytes. */
bool madi_value_bytes(const char *text, int64_t *bytes);

/* Format a value in the shortest of the forms above, into the caller's memory, which is returned. */
#define MADI_VALUE_MAX 32
const char *madi_value_time_text(int64_t ps, char text[MADI_VALUE_MAX]);
const char *madi_value_bandwidth_text(int64_t bytes, char text[MADI_VALUE_MAX]);
const char *madi_value_bytes_text(int64_t bytes, char text[MADI_VALUE_MAX]);

#endif

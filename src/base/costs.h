/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of moving bytes on this host: measured by mad_info, kept in a file in the user's cache folder, and read by every
 * session.  The file's name identifies the processor and the kernel, so hosts that share a home directory have separate
 * files. */
#ifndef MADI_COSTS_H
#define MADI_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Costs of a link within this host; core/send/policy.h derives limits from them. */
typedef struct madi_costs {
    uint32_t copy_ps;   /* picoseconds per byte of one copy between buffers that are in a cache */
    uint32_t turn_ns;   /* nanoseconds of a short packet, one way */
    uint32_t direct_ns; /* nanoseconds of one short read of the peer's memory; 0 if such reads are impossible */
    uint32_t direct_ps; /* picoseconds that each byte of such a read adds */
    uint32_t both_ps;   /* picoseconds per byte of a block if each side moves one half directly; 0 if impossible */
    /* picoseconds per byte if one side copies a block into shared memory in pieces while the other copies it out; the first
     * piece counts twice, since the second side waits for it */
    uint32_t pipe_ps;
    /* nanoseconds of MADI_COSTS_TCP_LEN bytes over TCP between two processors of this host, one way: sent at once, and sent
     * after an announcement was answered; 0 if the host has no such connection */
    uint32_t tcp_sent_ns, tcp_granted_ns;
    uint32_t runs; /* number of measurements of which each figure is the least */
} madi_costs_t;

/* Number of measurements after which the figures are kept.  A virtual machine moves its processors between near and far
 * cores, so one measurement may show a phase of seconds. */
#define MADI_COSTS_RUNS 4

#define MADI_COSTS_TCP_LEN ((size_t)256 << 10)
#define MADI_COSTS_PATH_MAX 512
#define MADI_COSTS_TEXT_MAX 512

/* Combine the figures kept so far with those of one more measurement: the least of each.  A path that is impossible (0)
 * in the new measurement is impossible in the result. */
madi_costs_t madi_costs_least(const madi_costs_t *kept, const madi_costs_t *measured);
/* Write the file's path.  given: value of MAD_COSTS; NULL or empty if the knob has none.  Return false if no folder is
 * known, if the name is too long, or if given is "none". */
bool madi_costs_path(const char *given, char path[MADI_COSTS_PATH_MAX]);
/* Return the whole text of the file. */
void madi_costs_text(const madi_costs_t *costs, char text[MADI_COSTS_TEXT_MAX]);
/* Parse the text of such a file.  False, with *costs unchanged, if the text is invalid or of another host, or if a value
 * is out of bounds. */
bool madi_costs_parse(const char *text, madi_costs_t *costs);
/* Read the file, if it belongs to this user or root and no other user can have written it.  On failure return false, and
 * leave *costs unchanged. */
bool madi_costs_load(const char *given, madi_costs_t *costs);

#endif

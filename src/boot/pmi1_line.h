/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection to a PMI-1 launcher: lines of "name=value" words in both directions.  No locking: the caller holds a lock. */
#ifndef MADI_BOOT_PMI1_LINE_H
#define MADI_BOOT_PMI1_LINE_H

#include "boot/boot.h"

#include <stdbool.h>
#include <stdint.h>

#define MADI_PMI1_LINE_MAX (MADI_BOOT_VALUE_MAX + 1024)

typedef struct madi_pmi1_line {
    int fd;
    bool gone;                     /* the launcher does not answer any more; already logged */
    int64_t deadline;              /* ns (monotonic clock) by which the pending answer has to be there; INT64_MAX: none */
    char text[MADI_PMI1_LINE_MAX]; /* the last answer */
    size_t in_len;
    char in[MADI_PMI1_LINE_MAX]; /* bytes read beyond it */
} madi_pmi1_line_t;

/* Set the deadline for an answer that the launcher can give by itself: MAD_CONNECT_TIMEOUT from now. */
void madi_pmi1_deadline_set(madi_pmi1_line_t *line);

/* Send len bytes, or read one line into `text`, without its newline.  Both calls wait until the deadline.  MAD_ERR_BOOT,
 * logged, with `gone` set: the launcher is gone, does not answer, or does not use PMI-1. */
mad_status_t madi_pmi1_send(madi_pmi1_line_t *line, const char *data, size_t len);
mad_status_t madi_pmi1_read(madi_pmi1_line_t *line);

/* Return the value of a word of the last answer: a pointer into `text`, and its length; NULL if there is none.
 * madi_pmi1_number returns it as a number. */
const char *madi_pmi1_word(const madi_pmi1_line_t *line, const char *name, size_t *len);
long madi_pmi1_number(const madi_pmi1_line_t *line, const char *name, long otherwise);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to a launcher that speaks PMI-1: lines of "name=value" words out and in.  No locks: the caller has one. */
#ifndef MADI_BOOT_PMI1_LINE_H
#define MADI_BOOT_PMI1_LINE_H

#include "boot/boot.h"

#include <stdbool.h>
#include <stdint.h>

#define MADI_PMI1_LINE_MAX (MADI_BOOT_VALUE_MAX + 1024)

typedef struct madi_pmi1_line {
    int fd;
    bool gone;                     /* the launcher does not answer any more, and this was said */
    int64_t deadline;              /* of the answer that is waited for, and of what is sent; INT64_MAX: none */
    char text[MADI_PMI1_LINE_MAX]; /* the last answer */
    size_t in_len;
    char in[MADI_PMI1_LINE_MAX];   /* what was read beyond it */
} madi_pmi1_line_t;

/* The deadline is that of an answer for which the launcher waits for nobody: MAD_CONNECT_TIMEOUT from now. */
void madi_pmi1_deadline_set(madi_pmi1_line_t *line);

/* Send len bytes; read one line into `text`, without its end.  Wait until the deadline.  MAD_ERR_BOOT, said and `gone`
 * set: the launcher is gone, says nothing, or is none. */
mad_status_t madi_pmi1_send(madi_pmi1_line_t *line, const char *data, size_t len);
mad_status_t madi_pmi1_read(madi_pmi1_line_t *line);

/* The value of a word of the last answer: its beginning, in `text`, and length; or NULL.  The same as a number. */
const char *madi_pmi1_word(const madi_pmi1_line_t *line, const char *name, size_t *len);
long madi_pmi1_number(const madi_pmi1_line_t *line, const char *name, long otherwise);

#endif

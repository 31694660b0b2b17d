/* SPDX-License-Identifier: BSD-3-Clause */
/* Explanations of paths, put together from parts.  Private to src/core/connect. */
#ifndef MADI_CONNECT_TEXT_H
#define MADI_CONNECT_TEXT_H

#include <stddef.h>

typedef struct madi_text {
    const char *begin;
    char *at;    /* where the next part goes */
    size_t left; /* bytes from there on */
} madi_text_t;

/* Append a part, as far as it fits.  Characters that are not printable are escaped, because names of networks come from the
 * peer. */
void madi_text_add(madi_text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions used by all parts of madlab. */
#ifndef MADI_MADLAB_BASE_H
#define MADI_MADLAB_BASE_H

#include <stdbool.h>
#include <stddef.h>

/* Print one sentence on standard error, after "madlab: ". */
void madi_lab_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocate; the tool exits if out of memory. */
void *madi_lab_alloc(size_t count, size_t size);
char *madi_lab_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Title that ps shows for processes that execute no other program. madi_lab_title_prepare returns a copy of the command
 * line's words, because titles overwrite them; call it before any title. */
char **madi_lab_title_prepare(int argc, char **argv);
void madi_lab_title(const char *name, const char *host);

#endif

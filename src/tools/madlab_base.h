/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions used by all parts of madlab. */
#ifndef MADI_MADLAB_BASE_H
#define MADI_MADLAB_BASE_H

#include <stdbool.h>
#include <stddef.h>

/* Print one sentence on standard error, preceded by "madlab: ". */
void madi_lab_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocate; the tool exits if out of memory. */
void *madi_lab_alloc(size_t count, size_t size);
char *madi_lab_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Set the title that ps shows for processes that execute no other program.  Call madi_lab_title_prepare before any title;
 * it returns a copy of the command line's words, because titles overwrite them. */
char **madi_lab_title_prepare(int argc, char **argv);
void madi_lab_title(const char *name, const char *host);

#endif

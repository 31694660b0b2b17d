/* SPDX-License-Identifier: BSD-3-Clause */
/* What all parts of madlab use. */
#ifndef MADI_MADLAB_BASE_H
#define MADI_MADLAB_BASE_H

#include <stdbool.h>
#include <stddef.h>

/* One sentence on standard error, after "madlab: ". */
void madi_lab_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory, or the end of the tool. */
void *madi_lab_alloc(size_t count, size_t size);
char *madi_lab_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What ps shows of processes that run no program of their own.  Before any title, the words of the command line are copied:
 * titles are written where they were. */
char **madi_lab_title_prepare(int argc, char **argv);
void madi_lab_title(const char *name, const char *host);

#endif

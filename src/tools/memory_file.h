/* SPDX-License-Identifier: BSD-3-Clause */
/* A file that is in memory only, for what other programs open by a path: it goes with the process. */
#ifndef MADI_MEMORY_FILE_H
#define MADI_MEMORY_FILE_H

#include <stddef.h>

/* Returns its descriptor, closed by exec, or -1 with errno; path is how all processes of this user and host open it, as
 * long as this process has the descriptor. */
int madi_memory_file(const char *name, const void *data, size_t len, char path[static 40]);

#endif

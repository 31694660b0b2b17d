/* SPDX-License-Identifier: BSD-3-Clause */
/* A file in memory, for programs that open it by a path.  The file disappears with the process. */
#ifndef MADI_MEMORY_FILE_H
#define MADI_MEMORY_FILE_H

#include <stddef.h>

/* Make a file in memory with these bytes.  Return its descriptor, which exec closes, or -1 with errno.  path: set to a
 * name by which processes of this user and host can open the file while this process keeps the descriptor. */
int madi_memory_file(const char *name, const void *data, size_t len, char path[static 40]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Output files, which are never written through a link, never left half written, and never written into another
 * user's file.  Secret files, which are only read if no other user could have read or written them. */
#ifndef MADI_FILE_H
#define MADI_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct madi_output {
    FILE *file;
    char path[PATH_MAX], next[PATH_MAX]; /* temporary name until the file is complete; "" for a device or a pipe */
} madi_output_t;

/* Begin to write the file path: a new file with this mode, less the umask.  devices: an existing device or pipe is
 * legal too, also behind a link (for a path that a user has given, such as /dev/stdout).  Return false if that is
 * impossible, or if a link or another object lies there; `why` gives the reason and a remedy. */
bool madi_output_open(madi_output_t *output, const char *path, mode_t mode, bool devices, char *why, size_t len);
/* Finish the file.  path is then the complete file or, if good is false or an error occurs, unchanged.  Return false on
 * an error; if good was true, why describes it. */
bool madi_output_close(madi_output_t *output, bool good, char *why, size_t len);

/* Return true if path can hold a secret: nothing lies there, or a file of this user to which nobody else has access.
 * Otherwise return false; `why` describes what lies there, and a remedy. */
bool madi_secret_free(const char *path, char *why, size_t len);
/* Open an existing secret file, with flags as for open(2).  Return -1 if that fails, if the file belongs to neither
 * this user nor root, or if others have access to it; `why` gives the reason and a remedy. */
int madi_secret_open(const char *path, int flags, char *why, size_t len);

#endif

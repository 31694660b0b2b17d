/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are written for somebody: never through a link, never half, never into what another user has put there; and
 * files with a secret, which are read only where nobody else could have read or written them. */
#ifndef MADI_FILE_H
#define MADI_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct madi_output {
    FILE *file;
    char path[PATH_MAX], next[PATH_MAX]; /* next: what path is called until it is whole; "": it is a device or a pipe */
} madi_output_t;

/* Begin to write what path names: a new file with these rights less the umask; with `devices`, also a device or pipe that is
 * there, perhaps behind a link (for a path that a person has named: /dev/stdout).  False if it cannot be, or a link or another
 * thing lies there; why says what, with a remedy. */
bool madi_output_open(madi_output_t *output, const char *path, mode_t mode, bool devices, char *why, size_t len);
/* End it: path is the whole file, or what it was before (good is false, or it cannot be; why says so if good was true). */
bool madi_output_close(madi_output_t *output, bool good, char *why, size_t len);

/* True if path is free for a file with a secret: nothing lies there, or a file of this user that nobody else may read or write.
 * False: why says what lies there, with a remedy. */
bool madi_secret_free(const char *path, char *why, size_t len);
/* Open a file with a secret that is there, as open does.  -1 if it cannot be, does not belong to this user or to root, or others
 * may read or write it; why says which, with a remedy. */
int madi_secret_open(const char *path, int flags, char *why, size_t len);

#endif

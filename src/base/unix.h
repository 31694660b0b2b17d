/* SPDX-License-Identifier: BSD-3-Clause */
/* The user's private directory, and the UNIX sockets in it, by which processes of one user find each other. */
#ifndef MADI_UNIX_H
#define MADI_UNIX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define MADI_UNIX_PATH_MAX 108 /* the kernel's limit, including the final zero */

/* Write the default location of the directory: "/tmp/madeleine-UID". */
void madi_unix_dir_default(char *dir, size_t len);

/* Create the directory if needed, with mode 0700 whatever the umask.  False if others than this user could write to it:
 * it is a link, belongs to somebody else, is writable by others, or can be replaced by others. reason says which, and a
 * remedy. */
bool madi_unix_dir(const char *dir, struct stat *st, char *reason, size_t len);

/* Return a non-blocking socket that listens at path, with mode 0600 whatever the umask.  Nobody finds it there before
 * it listens. -1: see errno. */
int madi_unix_listen(const char *path, int backlog);

/* Return a non-blocking socket connected to the listener at path. -1: see errno (ECONNREFUSED: its owner is gone). */
int madi_unix_connect(const char *path);

/* Remove sockets whose owners were killed (others remove their own).  Those killed before the socket got its name are
 * removed after a minute.  At most about 500 sockets are checked. suspect: true if a socket of that name is worth a
 * check, which costs a live owner one connection that ends at once. */
void madi_unix_sweep(const char *dir, bool (*suspect)(const char *name));

#endif

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

/* Create the directory if needed, with mode 0700 whatever the umask.  Return false if other users could write to the
 * directory: it is a link, belongs to another user, is writable by others, or can be replaced by others.  reason names
 * the problem and a remedy. */
bool madi_unix_dir(const char *dir, struct stat *st, char *reason, size_t len);

/* Return a non-blocking socket that listens at path, with mode 0600 whatever the umask.  No process finds it there
 * before it listens.  -1: see errno. */
int madi_unix_listen(const char *path, int backlog);

/* Return a non-blocking socket connected to the listener at path. -1: see errno (ECONNREFUSED: its owner is gone). */
int madi_unix_connect(const char *path);

/* Remove sockets whose owners were killed (other processes remove their own).  If the owner was killed before the
 * socket got its final name, the socket is removed after a minute.  At most about 500 sockets are checked. suspect:
 * returns true if a socket of that name should be checked, which costs a live owner one connection that ends
 * immediately. */
void madi_unix_sweep(const char *dir, bool (*suspect)(const char *name));

#endif

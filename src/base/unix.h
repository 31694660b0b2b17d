/* SPDX-License-Identifier: BSD-3-Clause */
/* The user's private directory, and the UNIX sockets in it by which processes of one user find each other. */
#ifndef MADI_UNIX_H
#define MADI_UNIX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define MADI_UNIX_PATH_MAX 108 /* what the kernel takes, final zero included */

/* Where the directory is when no knob says otherwise: "/tmp/madeleine-UID". */
void madi_unix_dir_default(char *dir, size_t len);

/* Make the directory if need be, with mode 0700 whatever the umask.  False if it is not one that only this user can write (a
 * link, somebody else's, others may write there, or may put another in its place); reason says which, and a remedy. */
bool madi_unix_dir(const char *dir, struct stat *st, char *reason, size_t len);

/* A non-blocking socket that listens under this path, with mode 0600 whatever the umask; nobody finds it there before it
 * listens.  -1: see errno. */
int madi_unix_listen(const char *path, int backlog);

/* A non-blocking socket connected to the listener at path.  -1: see errno (ECONNREFUSED: its owner is gone). */
int madi_unix_connect(const char *path);

/* Remove the sockets whose owners are gone (killed: others remove their own), after a minute also those that were killed
 * before the socket had its name; at most about 500 are looked at.  suspect: is one of that name worth a try?  It costs
 * the owner, if there is one, a connection that ends at once. */
void madi_unix_sweep(const char *dir, bool (*suspect)(const char *name));

#endif

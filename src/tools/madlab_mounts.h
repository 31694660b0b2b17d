/* SPDX-License-Identifier: BSD-3-Clause */
/* The files that a host sees: those of the machine, but with /proc, /sys, /tmp and /dev/shm of its own.  /tmp
 * contains the lab's directory.  Shared directories and files in /tmp and /dev/shm are visible to all of the lab as
 * they are on the machine. */
#ifndef MADI_MADLAB_MOUNTS_H
#define MADI_MADLAB_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

#define MADI_LAB_DIR "/tmp/madlab"            /* path of the lab's directory in every host */
#define MADI_LAB_SOCKETS MADI_LAB_DIR "/host" /* sockets of the hosts' first processes, by host name */

typedef struct madi_lab_shares {
    char **path;
    int count;
} madi_lab_shares_t;

/* Add a directory or file.  Only those in /tmp and /dev/shm are kept; others are visible anyway.  Return false if the
 * path does not exist, or is /tmp or /dev/shm itself; `why` gives the reason. */
bool madi_lab_shares_add(madi_lab_shares_t *shares, const char *path, char *why, size_t len);
/* True if no host will see path: it is in /tmp or /dev/shm, and not shared. */
bool madi_lab_shares_hide(const madi_lab_shares_t *shares, const char *path);

/* Make the mounts, in the calling process's own mount namespace.  first: this is the lab's first process, which makes
 * the lab's directory; otherwise it is a host's.  Return false on failure; `why` gives the reason. */
bool madi_lab_mounts_make(const madi_lab_shares_t *shares, bool first, char *why, size_t len);
/* Replace a file of the machine, if it exists, by one of the lab's directory. */
void madi_lab_mounts_replace(const char *file, const char *with);

#endif

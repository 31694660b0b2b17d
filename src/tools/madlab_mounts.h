/* SPDX-License-Identifier: BSD-3-Clause */
/* The files that a host sees: those of the machine, but /proc, /sys, /tmp and /dev/shm of its own, the lab's directory in
 * /tmp, and in these what is shared: the directories and files that all of the lab see as they are on the machine. */
#ifndef MADI_MADLAB_MOUNTS_H
#define MADI_MADLAB_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

#define MADI_LAB_DIR "/tmp/madlab"            /* in every host, the same */
#define MADI_LAB_SOCKETS MADI_LAB_DIR "/host" /* the socket of each host's first process, by its name */

typedef struct madi_lab_shares {
    char **path;
    int count;
} madi_lab_shares_t;

/* Add a directory or file.  Only those in /tmp and /dev/shm are kept, the others are seen anyway.  False: it is not there,
 * or is /tmp or /dev/shm itself; why has the reason. */
bool madi_lab_shares_add(madi_lab_shares_t *shares, const char *path, char *why, size_t len);
/* Path is in /tmp or /dev/shm and not in what is shared: no host will see it. */
bool madi_lab_shares_hide(const madi_lab_shares_t *shares, const char *path);

/* In a mount namespace of our own.  first: this is the lab's first process, and the lab's directory is made; else it is one
 * of its hosts.  False: why has the reason. */
bool madi_lab_mounts_make(const madi_lab_shares_t *shares, bool first, char *why, size_t len);
/* A file of the lab's directory takes the place of one of the machine, where there is one. */
void madi_lab_mounts_replace(const char *file, const char *with);

#endif

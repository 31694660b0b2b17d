/* SPDX-License-Identifier: BSD-3-Clause */
/* Privileges that a gateway process gives up, since it does not need them:
 *
 *   madi_confine_begin    no new privileges, no capabilities, no core files
 *   madi_confine_user     root becomes another user
 *       (the session opens: threads, sockets, files)
 *   madi_confine_memory   limits of memory and addresses
 *   madi_confine_end      no inspection by other processes of the user; the filter of system calls (madgw_filter.h)
 *
 * If the host does not permit a step, one line is written to standard error, and the gateway continues.
 * madi_confine_user is the exception: a gateway does not continue as root if no other user is available. */
#ifndef MADI_MADGW_CONFINE_H
#define MADI_MADGW_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MADI_CONFINE_NOBODY "nobody" /* user for a gateway that belongs to root */

/* Find a user by name or number.  Return 0; or -1 if there is no such user, or if the user is root, with the reason in
 * `why`. */
int madi_confine_find(const char *name, uid_t *uid, gid_t *gid, char *why, size_t len);
/* Return the group of a user; the group of nobody if the user is not in the user database. */
gid_t madi_confine_group(uid_t uid);

/* Call before there are other threads. */
void madi_confine_begin(void);
/* Like madi_confine_begin, but for the process of --serve: if it is root, it keeps the rights to start and end
 * other users' processes. */
void madi_confine_serve(void);
/* If this process is root: become uid and gid permanently, without supplementary groups.  In a user namespace whose
 * only user is its root, the process keeps that number, which is an ordinary user outside.  Return 0, or -1 with the
 * reason in why. */
int madi_confine_user(uid_t uid, gid_t gid, char *why, size_t len);
/* Limit memory. budget: bytes of fragments, as MAD_FORWARD_BUDGET; the program's own needs are added. */
void madi_confine_memory(int64_t budget);
/* Complete the confinement once the session is open. filter: install the filter of system calls. traces: allow writing
 * files at the end (MAD_TRACE). */
void madi_confine_end(bool filter, bool traces);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a gateway's process gives away, since it needs none of it:
 *
 *   madi_confine_begin    no new privileges, no capabilities, no core files
 *   madi_confine_user     root becomes another user
 *       (the session opens: threads, sockets, files)
 *   madi_confine_memory   limits of memory and descriptors
 *   madi_confine_end      no other process of the user looks in; the filter of system calls (madgw_filter.h)
 *
 * Each writes one line to standard error where the host does not let it, and the gateway goes on, but for
 * madi_confine_user: a gateway does not run as root because another user could not be had. */
#ifndef MADI_MADGW_CONFINE_H
#define MADI_MADGW_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MADI_CONFINE_NOBODY "nobody" /* whose rights a gateway has that belongs to root */

/* A user by name or number.  -1: there is none, or it is root; the reason is in why. */
int madi_confine_find(const char *name, uid_t *uid, gid_t *gid, char *why, size_t len);
/* The group of that user; that of nobody if the user database does not know the user. */
gid_t madi_confine_group(uid_t uid);

/* Before there are other threads. */
void madi_confine_begin(void);
/* Like madi_confine_begin, but of the process that serves: as root it goes on to start and end those of others. */
void madi_confine_serve(void);
/* If this process is root: become uid and gid for ever, without other groups.  In a user namespace that knows no other user
 * than its root the process keeps that number, which outside is an ordinary user's.  0, or -1 with the reason in why. */
int madi_confine_user(uid_t uid, gid_t gid, char *why, size_t len);
/* budget: bytes of fragments, as MAD_FORWARD_BUDGET; more than them is allowed for what the process is made of. */
void madi_confine_memory(int64_t budget);
/* Precondition: the session is open.  filter: install that of system calls.  traces: files are written at the end
 * (MAD_TRACE). */
void madi_confine_end(bool filter, bool traces);

#endif

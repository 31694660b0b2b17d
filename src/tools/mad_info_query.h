/* SPDX-License-Identifier: BSD-3-Clause */
/* Live processes: found by their sockets, and queried (core/inspect/query.h). */
#ifndef MAD_INFO_QUERY_H
#define MAD_INFO_QUERY_H

#include "tools/mad_info.h"

#define MADI_SESSIONS_MAX 16

typedef struct madi_target {
    int pid, inner_pid;         /* process number as seen here, and as the process itself sees it */
    int fds[MADI_SESSIONS_MAX]; /* connected sockets, owned by the caller */
    int count;
    bool full; /* a socket refused a connection because its queue is full */
} madi_target_t;

/* mad_info_answer.c: parse the object with which a session has answered.  Return NULL if the text is no object, or has
 * bytes that no session writes. */
json_t *madi_info_answer(const char *text, size_t len);
/* mad_info_find.c: connect to the sockets of a process, of which only pid is set before.  On failure return false; `why` has
 * the reason. */
bool madi_target_find(madi_target_t *target, char *why);
/* Find the processes of this user (as root: of all users).  Return their number; the caller owns the array. */
int madi_target_find_all(madi_target_t **targets);
/* Read a line of /proc/PID/status, without its label ("State:"). */
bool madi_status_line(int pid, const char *name, char *value, size_t len);

#endif

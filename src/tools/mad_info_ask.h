/* SPDX-License-Identifier: BSD-3-Clause */
/* Live processes: found by their sockets, and asked (core/ask.h). */
#ifndef MAD_INFO_ASK_H
#define MAD_INFO_ASK_H

#include "tools/mad_info.h"

#define MADI_SESSIONS_MAX 16

typedef struct madi_target {
    int pid, inner_pid; /* as seen here, as it sees itself */
    int fds[MADI_SESSIONS_MAX]; /* connected; the caller's */
    int count;
    bool full; /* a socket took no connection */
} madi_target_t;

/* mad_info_answer.c: the object that a session has answered; NULL: it is none, or holds what no session writes. */
json_t *madi_info_answer(const char *text, size_t len);
/* mad_info_find.c: that process's sockets (only pid is set before).  False: why says why there are none. */
bool madi_target_find(madi_target_t *target, char *why);
/* Those of all processes of this user, or for root of all users; returns how many, the array is the caller's. */
int madi_target_find_all(madi_target_t **targets);
/* A line of /proc/PID/status, without its name ("State:"). */
bool madi_status_line(int pid, const char *name, char *value, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The start and the end of sessions. */
#ifndef MADI_SESSION_H
#define MADI_SESSION_H

#include "core/object/session.h"
#include "core/security/secret.h"

/* session.c */
/* Like mad_open, but for a process of this role, with a key as in secret.h. */
mad_status_t madi_session_open(madi_role_t role, const void *key, size_t key_len, mad_session_t **session);

/* fork.c */
void madi_fork_watch(mad_session_t *session);  /* make the session unusable in children of fork; called without locks */
void madi_fork_forget(mad_session_t *session); /* undo madi_fork_watch at the session's end; called without locks */

/* wait.c */
mad_status_t madi_wait_init(mad_session_t *session);
void madi_wait_sharers(mad_session_t *session, int sharers); /* set the number of processes on these processors; called
                                                              * without locks */
void madi_wait_job(mad_session_t *session, const madi_boot_t *boot); /* like madi_wait_sharers, by the launcher's numbers */
mad_status_t madi_wait_start(mad_session_t *session);                /* let other threads poll the session from now on */
void madi_wait_accept(mad_session_t *session); /* start to serve incoming connections: the job's key is known */
void madi_wait_stop(mad_session_t *session);   /* stop polling by other threads; no thread may wait; called without locks */
void madi_wait_fini(mad_session_t *session);

#endif

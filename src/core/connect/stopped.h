/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of this host at the other end of a socket, and whether they are stopped.  Any lock. */
#ifndef MADI_STOPPED_H
#define MADI_STOPPED_H

#include "core/object/types.h"

#include <sys/types.h>

/* Return the process of this host at the other end of a connected socket; 0: on another host, or not known.  Slow for tcp:
 * examines all processes. */
pid_t madi_process_behind(int fd);
pid_t madi_process_near(int fd);      /* like madi_process_behind, but returns 0 where the search would be slow */
char madi_process_stopped(pid_t pid); /* return 'T': stopped by a signal, 't': by a debugger, 0: not stopped, or gone */

/* If the process is stopped, postpone the deadline of a handshake with it, and that of the gate: time for which it is
 * stopped does not count.  gate NULL: an incoming connection, which has none.  Under session->lock. */
void madi_stopped_postpone(pid_t process, madi_gate_t *gate, int64_t *deadline);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of this host at the other end of a socket, and whether they are stopped.  Any lock. */
#ifndef MADI_STOPPED_H
#define MADI_STOPPED_H

#include "core/object/types.h"

#include <sys/types.h>

/* The stopped processes of this host, as they were found last. */
#define MADI_STOPPED_MAX 256 /* further ones are not recognized */
typedef struct madi_stopped {
    int n;
    pid_t pids[MADI_STOPPED_MAX];
} madi_stopped_t;

/* Examine all processes of this host: slow on a host with many. */
void madi_stopped_find(madi_stopped_t *stopped);
/* Return which of these processes is at the other end of a tcp connection.  Return 0 if none is, or if the other end has not
 * accepted the connection yet.  Slow if there are stopped processes: examines all connections, and their descriptors. */
pid_t madi_stopped_behind(const madi_stopped_t *stopped, int fd);

/* Return the process at the other end of a socket of the family AF_UNIX; 0: a socket of another family. */
pid_t madi_process_near(int fd);
char madi_process_stopped(pid_t pid); /* return 'T': stopped by a signal, 't': by a debugger, 0: not stopped, or gone */

/* If the process is stopped, postpone the deadline of a handshake with it, and that of the gate: time for which it is
 * stopped does not count.  gate NULL: an incoming connection, which has none.  Under session->lock. */
void madi_stopped_postpone(pid_t process, madi_gate_t *gate, int64_t *deadline);

#endif

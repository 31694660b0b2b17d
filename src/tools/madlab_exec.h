/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting processes on a host of a lab.  The host's first process listens on a socket in the lab's directory.  A client
 * sends a request with its standard descriptors, so that no data have to be forwarded.  After that, the client sends single
 * bytes, each the number of a signal for the started process.  The answer is the process's wait status.  If the client
 * disappears before, the process is ended by SIGTERM, and after a while by SIGKILL. */
#ifndef MADI_MADLAB_EXEC_H
#define MADI_MADLAB_EXEC_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Start argv on host, in the current directory, with the caller's standard descriptors.  foreground: keep the caller's
 * session and process group, so that argv may use the terminal.  Return the socket; -1 on failure, which was reported. */
int madi_lab_exec_start(const char *host, char *const argv[], bool foreground);
/* Receive the status.  Return 0 with the exit code to end with in *code, or -1 if the host is gone. */
int madi_lab_exec_code(int socket, int *code);
/* Run `madlab exec HOST [--] COMMAND...`.  Return the exit code. */
int madi_lab_exec(int argc, char **argv);

/* Bind and listen, on the host's side.  -1: see errno. */
int madi_lab_exec_listen(const char *host);
/* Serve one connection, in a separate process.  mask: signals that the started command will block. */
_Noreturn void madi_lab_exec_serve(int socket, const char *host, const sigset_t *mask);

#endif

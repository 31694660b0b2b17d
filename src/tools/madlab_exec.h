/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting processes on a host of a lab.  The host's first process listens on a socket in the lab's directory.  Who connects
 * sends a request with its standard descriptors, so that nothing has to be passed on; then single bytes, the numbers of
 * signals for what was started.  The answer is its status, of waitpid.  When the caller goes away before that, what was
 * started is ended: SIGTERM, and SIGKILL after a while. */
#ifndef MADI_MADLAB_EXEC_H
#define MADI_MADLAB_EXEC_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Start argv on host, in the current directory, with our standard descriptors.  foreground: it stays in our session and
 * process group, so that it may use the terminal.  Returns the socket, or -1 when it has said why not. */
int madi_lab_exec_start(const char *host, char *const argv[], bool foreground);
/* The status has come: 0 and *code, the exit code to end with; -1: the host is gone. */
int madi_lab_exec_code(int socket, int *code);
/* All of `madlab exec HOST [--] COMMAND...`.  Returns the exit code. */
int madi_lab_exec(int argc, char **argv);

/* The host's side: bind and listen.  -1: errno. */
int madi_lab_exec_listen(const char *host);
/* Serve one connection, in a process of its own; mask: the signals that its command is to have blocked. */
_Noreturn void madi_lab_exec_serve(int socket, const char *host, const sigset_t *mask);

#endif

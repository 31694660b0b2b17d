/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of this host: started, supervised, signalled, and completely removed at the end.  Used by madrun itself,
 * and by its proxies on other hosts. */
#ifndef MADI_MADRUN_LOCAL_H
#define MADI_MADRUN_LOCAL_H

#include "tools/madrun_bind.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct madi_run_spec {
    int first, count, size; /* ranks first .. first + count - 1 of size run here */
    madi_run_bind_t bind;
    int reserve, stdin_rank; /* -1: none */
    bool verbose;
    bool beside;          /* true for the processes of gateways, not of ranks; not sent to proxies */
    bool foreign;         /* another launcher, which gets no rank's environment; not sent to proxies */
    const char *wdir;     /* NULL: unchanged */
    const char *topology; /* text of the topology file; "" if none */
    char **env;           /* "NAME=VALUE" texts, then NULL */
    char **argv;          /* the program and its arguments, then NULL */
} madi_run_spec_t;

/* Events of ranks, here or on another host. */
typedef struct madi_run_events {
    void (*line)(int rank, const char *line);                           /* a PMI request, without its newline */
    void (*output)(int rank, int stream, const char *data, size_t len); /* stream 1 or 2; len 0: its end */
    void (*taken)(int rank, size_t len); /* number of consumed bytes of the rank's standard input */
    /* the rank has ended, with a status as from wait; all its output was delivered before */
    void (*ended)(int rank, int status);
    void (*failed)(int rank, int code, const char *text); /* the rank could not be started: exit code and reason */
    void (*done)(void);                                   /* all ranks have ended, and no process of them is left */
} madi_run_events_t;

/* Start the ranks.  mask: signal mask that they get.  Failures are reported as events. */
void madi_run_local_start(const madi_run_spec_t *spec, const madi_run_events_t *events, const sigset_t *mask);
void madi_run_local_reply(int rank, const char *text, size_t len); /* reply to a PMI request */
void madi_run_local_stdin(int rank, const char *data, size_t len); /* len 0: its end */
void madi_run_local_hold(int rank, int stream, bool on);           /* stop reading the rank's stream, or resume */
/* send a signal to the process groups of all ranks started here */
void madi_run_local_signal(int number);
void madi_run_local_reap(void);     /* after SIGCHLD */
bool madi_run_local_has(pid_t pid); /* true if pid is a rank */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of this host: started, fed, listened to, signalled, and none left behind.  Both madrun itself and its
 * proxies on other hosts use this. */
#ifndef MADI_MADRUN_LOCAL_H
#define MADI_MADRUN_LOCAL_H

#include "tools/madrun_bind.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct madi_run_spec {
    int first, count, size;  /* ranks first .. first + count - 1 of size are started here */
    madi_run_bind_t bind;
    int reserve, stdin_rank; /* -1: none */
    bool verbose;
    bool beside;          /* a gateway, no rank; not told to proxies */
    bool foreign;         /* another launcher: the job is not told to it as to a rank; not told to proxies */
    const char *wdir;     /* NULL: stay */
    const char *topology; /* what the topology file says; "": there is none */
    char **env;       /* "K=V" ... NULL */
    char **argv;      /* ... NULL */
} madi_run_spec_t;

/* What happens to ranks, here or on another host. */
typedef struct madi_run_events {
    void (*line)(int rank, const char *line); /* a PMI request, without its newline */
    void (*output)(int rank, int stream, const char *data, size_t len); /* stream 1 or 2; len 0: its end */
    void (*taken)(int rank, size_t len);      /* so much of its standard input was passed on */
    void (*ended)(int rank, int status);      /* as from wait; all it wrote before was delivered */
    void (*failed)(int rank, int code, const char *text); /* could not be started, exit code and reason */
    void (*done)(void);                       /* all ended, and nothing of them is left */
} madi_run_events_t;

/* mask: the signals as the ranks shall have them.  Failures come as events. */
void madi_run_local_start(const madi_run_spec_t *spec, const madi_run_events_t *events, const sigset_t *mask);
void madi_run_local_reply(int rank, const char *text, size_t len); /* to a PMI request */
void madi_run_local_stdin(int rank, const char *data, size_t len); /* len 0: its end */
void madi_run_local_hold(int rank, int stream, bool on); /* cease to read what the rank writes to it, or go on */
void madi_run_local_signal(int number); /* to the process groups of all ranks that were started here */
void madi_run_local_reap(void);         /* after SIGCHLD */
bool madi_run_local_has(pid_t pid);     /* true if pid is a rank */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on other hosts: madrun starts itself there as a proxy, through a launch agent such as ssh. */
#ifndef MADI_MADRUN_REMOTE_H
#define MADI_MADRUN_REMOTE_H

#include "tools/madrun_local.h"
#include "tools/madrun_loop.h"

typedef struct madi_run_remote madi_run_remote_t;

#define MADI_RUN_HERE "" /* name of an agent that stands for a proxy on this host */

/* Start spec's ranks on host through agent, a command of words separated by blanks (NULL: ssh).  If the host cannot be
 * reached, or is lost, events follow: `failed` once, `ended` for each rank, `done`. */
madi_run_remote_t *madi_run_remote_start(const char *host, const char *agent, const madi_run_spec_t *spec,
                                         const madi_run_events_t *events, const sigset_t *mask);
void madi_run_remote_reply(madi_run_remote_t *remote, int rank, const char *text, size_t len);
void madi_run_remote_stdin(madi_run_remote_t *remote, int rank, const char *data, size_t len);
void madi_run_remote_hold(madi_run_remote_t *remote, int rank, int stream, bool on);
void madi_run_remote_signal_one(madi_run_remote_t *remote, int number);
/* For all hosts: */
void madi_run_remote_signal(int number); /* sends the signal to ranks, not to gateways */
void madi_run_remote_reap(void);
bool madi_run_remote_has(pid_t pid); /* true if pid is one of their launch agents */
void madi_run_remote_kill(void);     /* kills the launch agents themselves */
void madi_run_remote_fini(void);

/* Return NULL if ssh can resolve host, else the reason (a constant). */
const char *madi_run_remote_resolve(const char *host);
/* Run the proxy.  Return the exit code. */
int madi_run_proxy(void);

/* Write the data of a START frame: the numbers of a spec, and its texts, each followed by a zero byte. */
void madi_run_spec_pack(const madi_run_spec_t *spec, madi_run_buffer_t *buffer);
/* copy the texts; return -1 if data is garbled */
int madi_run_spec_unpack(madi_run_spec_t *spec, const char *data, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of madgw --serve.  Each is a file of the directory, and has a gateway process with the rights of the file's
 * owner.  Separate processes keep the jobs' keys, credits, memory and descriptors apart; bandwidth is divided among
 * them (madgw_rate.h).
 *
 *     file appears --> REFUSED  (reported once)
 *                  --> WAITS    for a free place
 *                  --> RUNS     has a process            --> OVER   ended normally, or failed repeatedly
 *     file gone    --> LEAVES   until its process has ended
 */
#ifndef MADI_MADGW_JOBS_H
#define MADI_MADGW_JOBS_H

#include "gateway/daemon.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define MADI_JOB_SUFFIX ".job" /* suffix of job files */

typedef struct madi_serve_options {
    const char *dir;
    uid_t uid; /* the user whose rights the gateways of root's files get */
    gid_t gid;
    int64_t budget, rate; /* limits for all jobs together: bytes; bytes per second, 0 for unlimited */
    int jobs, user_jobs;  /* maximum number of jobs at a time; maximum for one user */
    bool verbose, no_filter;
} madi_serve_options_t;

typedef enum madi_job_state {
    MADI_JOB_REFUSED,
    MADI_JOB_WAITS,
    MADI_JOB_RUNS,
    MADI_JOB_LEAVES,
    MADI_JOB_OVER
} madi_job_state_t;

typedef struct madi_job {
    struct madi_job *next;
    char name[256]; /* name of the file in the directory */
    struct stat file;
    madi_job_state_t state;
    const char *why; /* if REFUSED: the reason that was reported; else NULL */
    bool seen;       /* true if the current scan has found the file */
    uid_t uid;       /* user whose rights the gateway process has */
    gid_t gid;
    pid_t pid;      /* process number of the gateway; 0 if none */
    int log;        /* pipe from the standard error of the job's process; -1: none */
    char line[400]; /* output since the last newline */
    size_t line_len;
    int64_t log_since; /* ns: start of the minute in which lines are counted */
    int log_lines;
    int64_t started, again, pause; /* ns: time of the start; earliest next start, 0 for immediately; last pause */
    int fails;                     /* consecutive failures */
    int rate_fd;                   /* memory of the page that is shared with the gateway's process */
    madi_gateway_rate_t *rate;
    uint64_t passed; /* value of the page's `passed` at the last check, in bytes */
    double need;     /* need estimated by the last check, in bytes per second */
} madi_job_t;

/* All functions are called only by the serving process, which has a single thread. */
/* Open and check the directory.  Return 0, or -1 with the reason in why. */
int madi_jobs_open(const madi_serve_options_t *options, char *why, size_t len);
madi_job_t *madi_jobs_first(void);
/* Scan the directory: add new jobs, and end gateways whose files are gone. */
void madi_jobs_scan(void);
/* Collect processes that have ended. */
void madi_jobs_collect(void);
/* Start waiting jobs that are due.  Return the milliseconds until the next one is due; -1 if no job waits for a time. */
int madi_jobs_start_due(void);
/* Copy the output of a gateway to standard error, each line with the job's name. */
void madi_job_log(madi_job_t *job);
/* Send a signal to all gateways, and start no further ones.  Return the number of gateways. */
int madi_jobs_signal(int number);
/* Free all jobs, after their processes have ended. */
void madi_jobs_close(void);

#endif

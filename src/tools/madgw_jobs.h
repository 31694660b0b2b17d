/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of madgw --serve: each is a file of the directory, and a gateway process of its own with the rights of the file's
 * owner.  Keys, credits, memory and descriptors of jobs are apart because processes are; of bandwidth each gets its share
 * (madgw_rate.h).
 *
 *     file appears --> REFUSED  (said why, once)
 *                  --> WAITS    for one of the places
 *                  --> RUNS     its process is there      --> OVER   it ended well, or fails again and again
 *     file goes    --> LEAVES   until its process has ended
 */
#ifndef MADI_MADGW_JOBS_H
#define MADI_MADGW_JOBS_H

#include "gateway/daemon.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define MADI_JOB_SUFFIX ".job" /* of the files that are jobs */

typedef struct madi_serve_options {
    const char *dir;
    uid_t uid; /* whose rights the gateways of root's files have */
    gid_t gid;
    int64_t budget, rate; /* bytes; bytes a second, 0: unlimited; of all jobs together */
    int jobs, user_jobs;  /* at most at once, and of one user */
    bool verbose, no_filter;
} madi_serve_options_t;

typedef enum madi_job_state { MADI_JOB_REFUSED, MADI_JOB_WAITS, MADI_JOB_RUNS, MADI_JOB_LEAVES, MADI_JOB_OVER } madi_job_state_t;

typedef struct madi_job {
    struct madi_job *next;
    char name[256]; /* of the file in the directory */
    struct stat file;
    madi_job_state_t state;
    const char *why;  /* REFUSED: what was said; else NULL */
    bool seen;        /* by the scan that is going on */
    uid_t uid;        /* whose rights its process has */
    gid_t gid;
    pid_t pid;        /* 0: none */
    int log;          /* what its process writes to standard error; -1: none */
    char line[400];   /* of that, up to the end of a line */
    size_t line_len;
    int64_t log_since; /* ns; of the minute whose lines are counted */
    int log_lines;
    int64_t started, again, pause; /* ns; again: when it is to be started, 0: at once */
    int fails;                     /* in a row */
    int rate_fd;                   /* of the page that it shares with this process */
    madi_gateway_rate_t *rate;
    uint64_t passed;               /* at the last look; */
    double need;                   /* and what it was taken to need, bytes/s */
} madi_job_t;

/* Precondition of all: this process is the one that serves, and has no other thread. */
/* Check the directory.  0, or -1 with the reason in why. */
int madi_jobs_open(const madi_serve_options_t *options, char *why, size_t len);
madi_job_t *madi_jobs_first(void);
/* Look which files are there, and start and end gateways. */
void madi_jobs_scan(void);
/* Collect processes that have ended. */
void madi_jobs_collect(void);
/* Start those that wait and may.  Returns the time until the next may, in ms; -1: none waits for a time. */
int madi_jobs_start_due(void);
/* Write what a gateway has said to this process's standard error, each line with the job's name. */
void madi_job_log(madi_job_t *job);
/* Send a signal to all gateways, and start none from now on.  Returns how many there are. */
int madi_jobs_signal(int number);
/* Forget all.  Precondition: their processes have ended. */
void madi_jobs_close(void);

#endif

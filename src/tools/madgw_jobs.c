/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_jobs.h"

#include "base/ascii.h"
#include "base/clock.h"
#include "tools/madgw_confine.h"
#include "tools/madgw_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define PAUSE_LEAST (SECOND / 10)
#define PAUSE_MOST (30 * SECOND)
#define LIVED (10 * SECOND) /* ns: a gateway that has lived this long did not fail at its start */
#define TRIES_KILLED 5      /* maximum number of consecutive restarts of a gateway that a signal has ended */
#define TRIES_FAILED 1      /* maximum number of consecutive restarts of a gateway that could not join */
#define LINES_MAX 120       /* maximum number of lines that a job's gateway may write per minute */
#define SAID_MAX 300        /* maximum number of lines about jobs per minute */
#define FILES_MAX 1024      /* maximum number of job files that are read */

static const madi_serve_options_t *options;
static madi_job_t *jobs;
static int n_jobs, dir_fd = -1;
static bool ending;

static void job_log(const madi_job_t *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void job_log(const madi_job_t *job, const char *format, ...)
{
    static int64_t since;
    static int lines;
    char text[500];
    va_list args;
    int64_t now = madi_now();
    if (!since || now - since > 60 * SECOND) {
        since = now;
        lines = 0;
    }
    if (++lines > SAID_MAX) {
        if (lines == SAID_MAX + 1)
            fprintf(stderr, "madgw: %d lines about jobs in a minute: the rest of them is left out\n", SAID_MAX);
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "madgw: job %s (user %u): %s\n", job->name, (unsigned)job->file.st_uid, text);
}

madi_job_t *madi_jobs_first(void)
{
    return jobs;
}

/* ---- Job files -------------------------------------------------------------------------------------------------- */

int madi_jobs_open(const madi_serve_options_t *asked, char *why, size_t len)
{
    struct stat st;
    options = asked;
    dir_fd = open(asked->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || fstat(dir_fd, &st) != 0) {
        snprintf(why, len, "%s", strerror(errno));
        return -1;
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        snprintf(why, len,
                 "it belongs to user %u, and this user could replace every job: change its owner to root or yourself",
                 (unsigned)st.st_uid);
        return -1;
    }
    if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX)) {
        snprintf(why, len, "others can write there and remove files that are not theirs: chmod +t %s", asked->dir);
        return -1;
    }
    return 0;
}

/* True for names of jobs that can be printed unchanged.  Files that are still being written have other endings (those of
 * madrun have six more letters). */
static bool is_job_name(const char *name)
{
    size_t len = strlen(name), end = sizeof MADI_JOB_SUFFIX - 1;
    if (len <= end || len >= sizeof jobs->name || name[0] == '.' || strcmp(name + len - end, MADI_JOB_SUFFIX) != 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!madi_is_alnum(name[i]) && !strchr("._-+", name[i]))
            return false;
    return true;
}

/* Return the reason why a file is no valid job; NULL if it is valid. */
static const char *file_refused(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a plain file";
    if (geteuid() != 0 && st->st_uid != geteuid())
        return "it belongs to another user, whose rights this process cannot have: start madgw --serve as root";
    if (st->st_mode & 077)
        return "it has a key, and others than its owner can read or write it: chmod 600";
    if (st->st_nlink != 1)
        return "it has another name (hard link), so its owner may not have put it here";
    return NULL;
}

static void file_judge(madi_job_t *job, const struct stat *st)
{
    const char *why = file_refused(st);
    job->file = *st;
    job->state = why ? MADI_JOB_REFUSED : MADI_JOB_WAITS;
    job->uid = st->st_uid ? st->st_uid : options->uid;
    job->gid = st->st_uid ? madi_confine_group(st->st_uid) : options->gid;
    job->fails = 0;
    job->again = job->pause = 0;
    if (why && why != job->why)
        job_log(job, "refused: %s", why);
    job->why = why;
}

/* ---- Jobs that come and go -------------------------------------------------------------------------------------- */

static bool job_pages(madi_job_t *job)
{
    job->rate_fd = memfd_create("madgw-rate", MFD_CLOEXEC);
    if (job->rate_fd < 0 || ftruncate(job->rate_fd, (off_t)sizeof *job->rate) != 0)
        return false;
    job->rate = mmap(NULL, sizeof *job->rate, PROT_READ | PROT_WRITE, MAP_SHARED, job->rate_fd, 0);
    if (job->rate == MAP_FAILED)
        job->rate = NULL;
    return job->rate != NULL;
}

static void job_free(madi_job_t *job)
{
    if (job->rate)
        munmap(job->rate, sizeof *job->rate);
    if (job->rate_fd >= 0)
        close(job->rate_fd);
    if (job->log >= 0)
        close(job->log);
    free(job);
}

static void job_add(const char *name, const struct stat *st)
{
    madi_job_t *job = n_jobs < FILES_MAX ? calloc(1, sizeof *job) : NULL;
    if (!job)
        return; /* the next scan will find the job again */
    snprintf(job->name, sizeof job->name, "%s", name);
    job->log = job->rate_fd = -1;
    job->seen = true;
    if (!job_pages(job)) {
        job_free(job);
        return;
    }
    job->next = jobs;
    jobs = job;
    n_jobs++;
    file_judge(job, st);
}

/* Drain the gateway of a job whose file is gone. */
static void job_leave(madi_job_t *job)
{
    if (job->state == MADI_JOB_RUNS && options->verbose)
        job_log(job, "its file was removed: drains");
    if (job->pid)
        kill(job->pid, SIGTERM);
    job->state = MADI_JOB_LEAVES;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_uid == b->st_uid;
}

static bool file_changed(const struct stat *a, const struct stat *b)
{
    return a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

static void file_found(const char *name)
{
    struct stat st;
    madi_job_t *job = jobs;
    if (!is_job_name(name) || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    while (job && (job->state == MADI_JOB_LEAVES || strcmp(job->name, name) != 0))
        job = job->next;
    if (job && !same_file(&job->file, &st)) {
        job_leave(job);
        job = NULL;
    }
    if (!job) {
        job_add(name, &st);
        return;
    }
    job->seen = true;
    if ((job->state == MADI_JOB_REFUSED || job->state == MADI_JOB_OVER) && file_changed(&job->file, &st))
        file_judge(job, &st);
}

void madi_jobs_scan(void)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (madi_job_t *job = jobs; job; job = job->next)
        job->seen = false;
    while ((entry = readdir(dir)))
        file_found(entry->d_name);
    closedir(dir);
    for (madi_job_t **p = &jobs, *job; (job = *p);) {
        if (!job->seen && job->state != MADI_JOB_LEAVES)
            job_leave(job);
        if (job->state != MADI_JOB_LEAVES || job->pid) {
            p = &job->next;
            continue;
        }
        *p = job->next;
        n_jobs--;
        job_free(job);
    }
}

/* ---- Processes -------------------------------------------------------------------------------------------------- */

/* Count the places in use by all jobs, and those in use by this job's user. */
static void count_places(const madi_job_t *like, int *all, int *own)
{
    *all = *own = 0;
    for (const madi_job_t *job = jobs; job; job = job->next) {
        *all += job->pid != 0;
        *own += job->pid != 0 && job->file.st_uid == like->file.st_uid;
    }
}

int madi_jobs_start_due(void)
{
    int64_t now = madi_now(), first = INT64_MAX;
    for (madi_job_t *job = jobs; job && !ending; job = job->next) {
        int all, own;
        if (job->state != MADI_JOB_WAITS)
            continue;
        if (job->again > now) {
            first = job->again < first ? job->again : first;
            continue;
        }
        count_places(job, &all, &own);
        if (all >= options->jobs || own >= options->user_jobs) {
            if (job->again != -1)
                job_log(job, "waits: %d jobs are served, %d of this user; at most %d and %d (--jobs, --user-jobs)", all, own,
                        options->jobs, options->user_jobs);
            job->again = -1; /* the failure was reported */
        } else if (madi_process_start(job, options, dir_fd)) {
            job->state = MADI_JOB_RUNS;
            job->started = now;
        } else {
            job_log(job, "cannot be started: %s; tried again", strerror(errno));
            job->again = now + SECOND;
            first = job->again < first ? job->again : first;
        }
    }
    return first == INT64_MAX ? -1 : (int)((first - now) / 1000000 + 1);
}

/* Handle a gateway that ended by itself. */
static void job_failed(madi_job_t *job, const char *how, int tries)
{
    int64_t now = madi_now();
    job->fails = now - job->started >= LIVED ? 0 : job->fails + 1;
    job->pause = job->fails && job->pause ? 2 * job->pause : PAUSE_LEAST;
    if (job->pause > PAUSE_MOST)
        job->pause = PAUSE_MOST;
    if (job->fails <= tries) {
        job->state = MADI_JOB_WAITS;
        job->again = now + job->pause;
        job_log(job, "its gateway %s; starting it again in %.1f s", how, (double)job->pause / 1e9);
        return;
    }
    job->state = MADI_JOB_OVER;
    job_log(job, "its gateway %s; not started again until the file changes", how);
}

static void line_end(madi_job_t *job);

static void job_ended(madi_job_t *job, int status)
{
    char how[100];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    struct stat st;
    if (job->log >= 0)
        madi_job_log(job);
    line_end(job); /* ends an unfinished last line */
    if (job->log >= 0)
        close(job->log);
    job->log = -1;
    job->pid = 0;
    if (job->state != MADI_JOB_RUNS)
        return;
    if (fstatat(dir_fd, job->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && same_file(&job->file, &st))
        job->file = st; /* the gateway has added its line to the file */
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "ended with exit code %d", code);
    if (code == 0 || code == 128 + SIGTERM) {
        job->state = MADI_JOB_OVER; /* the job has ended, or its gateway was ended on purpose */
        if (options->verbose)
            job_log(job, "its gateway has ended");
    } else {
        job_failed(job, how, code < 0 ? TRIES_KILLED : code == 1 ? TRIES_FAILED : 0);
    }
}

void madi_jobs_collect(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (madi_job_t *job = jobs; job; job = job->next)
            if (job->pid == pid) {
                job_ended(job, status);
                break;
            }
}

int madi_jobs_signal(int number)
{
    int n = 0;
    ending = true;
    for (madi_job_t *job = jobs; job; job = job->next) {
        if (job->state == MADI_JOB_RUNS)
            job->state = MADI_JOB_LEAVES;
        n += job->pid && kill(job->pid, number) == 0;
    }
    return n;
}

void madi_jobs_close(void)
{
    for (madi_job_t *job; (job = jobs);) {
        jobs = job->next;
        job_free(job);
    }
    if (dir_fd >= 0)
        close(dir_fd);
    dir_fd = -1;
}

/* ---- Output of gateways ----------------------------------------------------------------------------------------- */

static void line_end(madi_job_t *job)
{
    int64_t now = madi_now();
    if (now - job->log_since > 60 * SECOND) {
        job->log_since = now;
        job->log_lines = 0;
    }
    if (!job->line_len)
        return;
    job->line[job->line_len] = 0;
    if (job->log_lines < LINES_MAX)
        fprintf(stderr, "madgw: job %s (user %u): %s\n", job->name, (unsigned)job->file.st_uid, job->line);
    else if (job->log_lines == LINES_MAX)
        job_log(job, "%d lines in a minute: the rest of them is left out", LINES_MAX);
    job->log_lines++;
    job->line_len = 0;
}

void madi_job_log(madi_job_t *job)
{
    char bytes[2048];
    ssize_t n = 1;
    for (int i = 0; i < 16 && (n = read(job->log, bytes, sizeof bytes)) > 0; i++)
        for (ssize_t k = 0; k < n; k++) {
            if (bytes[k] != '\n')
                job->line[job->line_len++] = bytes[k] >= ' ' && bytes[k] <= '~' ? bytes[k] : '?';
            if (bytes[k] == '\n' || job->line_len == sizeof job->line - 1)
                line_end(job);
        }
    if (n == 0) { /* the gateway has closed its standard error, or has ended */
        close(job->log);
        job->log = -1;
    }
}

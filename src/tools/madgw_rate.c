/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_rate.h"

#include "tools/madgw_jobs.h"

#define JOBS_MAX 256 /* largest --jobs */
/* fraction of the previous need that is kept, so that a pause of some milliseconds does not cost a job its share */
#define KEEPS 0.7

void madi_rate_divide(uint64_t total, uint64_t *need, size_t n)
{
    uint64_t rest = total;
    size_t open = n; /* number of gateways whose share is not decided yet */
    bool done[JOBS_MAX] = {false};
    while (open) { /* jobs that need at most an equal share get what they need; the rest is divided among the others */
        uint64_t part = rest / open;
        size_t before = open;
        for (size_t i = 0; i < n; i++)
            if (!done[i] && need[i] <= part) {
                done[i] = true;
                rest -= need[i];
                open--;
            }
        if (open == before) {
            for (size_t i = 0; i < n; i++)
                if (!done[i])
                    need[i] = part;
            return;
        }
    }
}

/* Estimate a job's need.  The page is not trusted, because the job's process writes it. */
static uint64_t need_of(madi_job_t *job, uint64_t total, uint64_t least, int64_t ns)
{
    uint64_t passed = atomic_load_explicit(&job->rate->passed, memory_order_relaxed);
    double need = (double)(passed - job->passed) * 1e9 / (double)(ns > 0 ? ns : 1) * 1.5;
    bool starved = atomic_exchange_explicit(&job->rate->starved, 0, memory_order_relaxed);
    job->passed = passed;
    if (starved || need > (double)total)
        need = (double)total;
    if (need < job->need * KEEPS)
        need = job->need * KEEPS;
    job->need = need;
    return need > (double)least ? (uint64_t)need : least;
}

void madi_rate_look(uint64_t total, int64_t ns)
{
    uint64_t need[JOBS_MAX];
    size_t n = 0, running = 0;
    for (madi_job_t *job = madi_jobs_first(); job && running < JOBS_MAX; job = job->next)
        running += job->pid != 0;
    for (madi_job_t *job = madi_jobs_first(); job && n < running; job = job->next)
        if (job->pid)
            need[n++] = need_of(job, total, total / running / 10 + 1, ns);
    madi_rate_divide(total, need, n);
    n = 0;
    for (madi_job_t *job = madi_jobs_first(); job && n < running; job = job->next)
        if (job->pid) /* 0 would mean unlimited */
            atomic_store_explicit(&job->rate->limit, need[n] ? need[n] : 1, memory_order_relaxed), n++;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of the polling server, which its files share.
 *
 *   engine.c           categories, the leader's sleep
 *   leader.c           choice of the leader, course of a wait
 *   wait_policy.[ch]   how long a wait spins, yields and sleeps
 *   follower.c         sleep behind a leader
 *   progress_thread.c  the progress thread */
#ifndef MADI_LEADER_H
#define MADI_LEADER_H

#include "engine/engine.h"
#include "marcel/worker.h"

#include <sched.h>

#define MADI_CATEGORIES 1024
#define MADI_SLEEPS 1        /* bit of marceli_leader_sleeps: the leader has announced its sleep itself */
#define MADI_SLEEPS_THREAD 2 /* bit: the progress thread sleeps; the thread that woke it announced that sleep */

/* A slot for one category.  All fields are protected by `turn`.  Pollers only try to take this lock, so exactly one
 * thread polls a category at a time. */
typedef struct madi_source {
    _Alignas(MADI_LINE) madi_lock_t turn;
    bool live;
    bool armed;          /* between enter_blocking and exit_blocking */
    _Atomic(int) users;  /* number of threads that run the category's calls, or are about to; changed without `turn` */
    _Atomic(bool) apart; /* true if a user-level thread was created to run the calls, and has not begun yet */
    marceli_category_t c;
    madi_counter_t polls, hits; /* read without `turn`, since the thread that answers a query may hold it */
    _Atomic(const char *) name;
} madi_source_t;

/* Kind of the leader.  The last two kinds give way to a thread that waits itself. */
enum madi_led {
    MADI_LED_BY_NOBODY,
    MADI_LED_BY_WAITER, /* a thread that waits itself: a plain pthread, or an idle worker with waiting threads */
    MADI_LED_BY_OTHER,  /* an idle worker that leads for waiting threads of other, busy workers */
    MADI_LED_BY_THREAD  /* the progress thread */
};

typedef struct madi_server {
    madi_source_t sources[MADI_CATEGORIES];
    _Atomic(int) n_sources; /* number of entries of `source` that have ever been used */
    _Atomic(int) epfd;      /* -1 before the first category; stays open until the process ends, like wake_fd */
    int wake_fd;
    bool asymmetric; /* membarrier works in this process */
    /* number usable by this process, and number on the host; workers may read them before the first category */
    _Atomic(int) cores, host_cores;
    /* processors of this process at its start; a thread that binds itself later does not change them */
    cpu_set_t cpus;
    _Atomic(int) processes;   /* number of processes of the job on this host: the maximum over all categories */
    _Atomic(int64_t) spin_ns; /* ns: MAD_SPIN; -1 if the spin time depends on the number of waiting threads */
    _Alignas(MADI_LINE) _Atomic(int) leader; /* madi_led */
    /* number of kernel threads inside a wait, which poll, or would poll if no other thread did */
    _Atomic(int) inside;
    _Atomic(int) blocked; /* number of user-level threads that wait and have not been woken */
    madi_lock_t lock;
    marceli_waiter_t *followers; /* plain pthreads that sleep while another thread leads; protected by `lock` */
    marceli_waiter_t *idle;      /* idle workers that sleep while another thread leads; protected by `lock` */
    _Atomic(int) n_followers, n_idle;
    /* number of threads that want to replace a MADI_LED_BY_OTHER leader, and poll until it gives way */
    _Atomic(int) claimants;
    _Atomic(int) deputy;           /* 1 if one of the idle workers checks now and then whether a thread leads */
    _Atomic(int64_t) prompt_until; /* ns: until then an idle worker is woken immediately instead of relying on the deputy */
    madi_counter_t terms;          /* number of times that a thread has taken the lead; counted by the leader */
    madi_counter_t sleeps;
    madi_counter_t thread_terms, ticks; /* number of times that the progress thread has led, and of its periodic checks */
    _Atomic(uint64_t) wakes;
} madi_server_t;

#pragma GCC visibility push(hidden)

extern madi_server_t madi_server;

/* ---- engine.c --------------------------------------------------------------------------------------------------- */

/* Determine what every wait depends on: spin_ns, asymmetric, cores.  Call before workers or categories; no effect when
 * repeated.  Return 0, or -1 if the knob is wrong (logged). */
int madi_server_probe(void);
/* Poll all categories that no other thread polls; return the number of events.  *calls: a source with calls that no
 * thread runs yet, or NULL.  The caller runs these calls (madi_server_calls_run) or releases them. */
int madi_server_poll(bool deep, madi_source_t **calls);
extern MADI_THREAD_LOCAL bool madi_polls_are_dear; /* true if a poll of this kernel thread did more than read memory */
/* Return a source like *calls of madi_server_poll, without polling.  Sources that other threads poll are included. */
madi_source_t *madi_server_calls(void);
void madi_server_calls_run(madi_source_t *source);
void madi_server_calls_release(madi_source_t *source);
/* Let the leader sleep once, unless test(arg) is true, and poll all categories afterwards.  announced: the sleep was already
 * announced by the bit MADI_SLEEPS_THREAD and a later barrier; the bit is still set on return. */
void madi_leader_sleep(marceli_waiter_t *w, bool (*test)(void *arg), void *arg, int64_t deadline, bool announced);

/* ---- leader.c --------------------------------------------------------------------------------------------------- */

/* Take the lead as `led_by` (enum madi_led); false if another thread leads. */
bool madi_lead_take(int led_by);
void madi_lead_drop(void);
/* Make the progress thread lead, if no other thread leads.  The progress thread sleeps until an event has come, or until
 * test is true because the thread is not needed.  yields: poll and yield before the sleep, as a wait does.  announced: see
 * madi_leader_sleep. */
void madi_progress_thread_lead(marceli_waiter_t *waiter, bool (*test)(void *arg), bool yields, bool announced);
/* Wait until test(arg) is true, or until the deadline, on a worker that has nothing to run. */
void madi_worker_idle_wait(madi_worker_t *worker, bool (*test)(void *arg), void *arg, int64_t deadline);
/* Poll now and then for waiting threads; called by the scheduler of a busy worker.  now: madi_now. */
void madi_server_tick(madi_worker_t *worker, int64_t now);
/* True if a user-level thread waits. */
static inline bool madi_server_has_waiters(void)
{
    return atomic_load_explicit(&madi_server.blocked, memory_order_relaxed);
}

/* ---- follower.c ------------------------------------------------------------------------------------------------- */

/* Wake an idle worker to lead, if user-level threads wait and no thread leads.  Called by a worker that will run a thread
 * for any length of time, and so will not lead. */
void madi_leader_wanted_elsewhere(madi_worker_t *worker);

/* ---- wait_policy.c ---------------------------------------------------------------------------------------------- */

/* True if `processes` processes, each with `waiting` waiting threads, have more waiting threads than cores. */
bool madi_oversubscribed(int processes, int waiting);
int64_t madi_spin_ns(int processes, int waiting); /* time of a wait's spinning */
int64_t madi_yield_ns(int64_t spin_ns);           /* ns for which a leader yields after it has spun for spin_ns */
/* Return the time until which no thread yields, after a slow yield from `before` to `after`. */
int64_t madi_ban_until(int64_t before, int64_t after);
/* True if the yield took longer than `slow`; *banned is then the time until which there are no further yields. */
bool madi_yield_was_slow(int64_t before, int64_t after, int64_t slow, int64_t *banned);

/* ---- waiter.c --------------------------------------------------------------------------------------------------- */

/* true if this kernel thread has woken a thread that runs on another kernel thread */
extern MADI_THREAD_LOCAL bool madi_woke_other;

/* ---- progress_thread.c ------------------------------------------------------------------------------------------ */

/* True on the progress thread, which need not be woken if it is itself the leader that is about to sleep. */
extern MADI_THREAD_LOCAL bool madi_is_progress_thread;
/* Record that a kernel thread begins to wait, and so makes progress.  Return the number of waiting kernel threads. */
int madi_progress_enter(void);
/* Record that a kernel thread stops waiting.  returns: this thread, or another one, is likely to wait again soon. */
void madi_progress_leave(bool returns);
bool madi_progress_thread_exists(void);
/* Reset in the child of a fork, where the progress thread does not exist. */
void madi_progress_thread_forked(void);
/* Choose the processors of the progress thread: all that the process had at its start, even if the calling thread has bound
 * itself since; those near the adapter, if that is known (marceli_progress_near).  cpu, the processor of the calling thread,
 * which is about to compute, is left out.  Otherwise the kernel would wake the progress thread there when all others are
 * in use, even if only by a peer that waits for it.  Return cpu + 1; 0 if no processor of the caller matters. */
int madi_progress_processors(int cpu, cpu_set_t *set);
/* End the progress thread.  A later kick creates it again. */
void madi_progress_thread_stop(void);

#pragma GCC visibility pop

#endif

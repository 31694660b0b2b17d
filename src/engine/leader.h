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
#define MADI_SLEEPS 1        /* bit of marceli_leader_sleeps: a leader that has announced its sleep itself */
#define MADI_SLEEPS_THREAD 2 /* bit: the progress thread, whose sleep was announced by the thread that woke it */

/* A place for a category.  All fields are under `turn`, which a poller only tries to take: exactly one polls at a time. */
typedef struct madi_source {
    _Alignas(MADI_LINE) madi_lock_t turn;
    bool live;
    bool armed;          /* between enter_blocking and exit_blocking */
    _Atomic(int) users;  /* threads that run its calls, or are about to; without the turn */
    _Atomic(bool) apart; /* a user-level thread was made to run the calls, and has not begun */
    marceli_category_t c;
    madi_counter_t polls, hits; /* read without the turn, which the thread that answers a query may have */
    _Atomic(const char *) name;
} madi_source_t;

/* Kind of the leader.  The last two make room for a thread that waits itself. */
enum madi_led {
    MADI_LED_BY_NOBODY,
    MADI_LED_BY_WAITER, /* a thread that waits itself: a plain pthread, or an idle worker some of whose threads wait */
    MADI_LED_BY_OTHER,  /* an idle worker, for waiting threads of other workers, which are busy */
    MADI_LED_BY_THREAD  /* the progress thread */
};

typedef struct madi_server {
    madi_source_t sources[MADI_CATEGORIES];
    _Atomic(int) n_sources; /* that have ever been used */
    _Atomic(int) epfd;      /* -1 before the first category; stays open, as wake_fd does */
    int wake_fd;
    bool asymmetric;                /* membarrier works in this process */
    _Atomic(int) cores, host_cores; /* of this process, of the host; workers may read them before the first category */
    cpu_set_t cpus;                 /* of this process at the start: a thread that binds itself later does not bind others */
    _Atomic(int) processes;         /* of the job on this host: the largest number of all categories */
    _Atomic(int64_t) spin_ns;       /* MAD_SPIN; -1 if it follows from the number of waiting threads */
    _Alignas(MADI_LINE) _Atomic(int) leader; /* madi_led */
    _Atomic(int) inside;                     /* kernel threads that wait and poll, or would */
    _Atomic(int) blocked;                    /* user-level threads that wait, until they are woken */
    madi_lock_t lock;
    marceli_waiter_t *followers; /* under lock: plain pthreads that sleep while another thread leads ... */
    marceli_waiter_t *idle;      /* ... and workers */
    _Atomic(int) n_followers, n_idle;
    _Atomic(int) claimants; /* threads that want to lead in place of MADI_LED_BY_OTHER, and poll until it makes room */
    _Atomic(int) deputy;    /* 1 if one of the idle workers looks now and then whether a thread leads ... */
    _Atomic(int64_t) prompt_until; /* ns: ... but until then an idle worker is woken at once */
    madi_counter_t terms;          /* of leaders; counted by the one that leads */
    madi_counter_t sleeps;
    madi_counter_t thread_terms, ticks; /* terms of the progress thread, and its looks by the clock */
    _Atomic(uint64_t) wakes;
} madi_server_t;

#pragma GCC visibility push(hidden)

extern madi_server_t madi_server;

/* ---- engine.c --------------------------------------------------------------------------------------------------- */

/* Find out what every wait depends on: spin_ns, asymmetric, cores.  Before workers or categories; no effect when repeated.
 * Return 0, or -1 if the knob is wrong (logged). */
int madi_server_probe(void);
/* Poll all categories that no other thread polls; return the number of events.  *calls: a source with calls that no thread
 * runs, or NULL.  The caller runs them (madi_server_calls_run) or releases them. */
int madi_server_poll(bool deep, madi_source_t **calls);
extern _Thread_local bool madi_polls_are_dear; /* a poll of this kernel thread did more than a look at memory */
/* Like *calls of madi_server_poll, but without a poll, and no source is passed over because another thread polls it. */
madi_source_t *madi_server_calls(void);
void madi_server_calls_run(madi_source_t *source);
void madi_server_calls_release(madi_source_t *source);
/* Let the leader sleep once, unless test(arg) is true, and poll all categories afterwards.  said: the bit
 * MADI_SLEEPS_THREAD announces the sleep, with a barrier since; it is still set when this returns. */
void madi_leader_sleep(marceli_waiter_t *w, bool (*test)(void *arg), void *arg, int64_t deadline, bool said);

/* ---- leader.c --------------------------------------------------------------------------------------------------- */

/* Take the lead as `led_by` (enum madi_led); false if another thread leads. */
bool madi_lead_take(int led_by);
void madi_lead_drop(void);
/* Let the progress thread lead, if no thread does.  It sleeps until an event has come, or until test is true because the
 * thread is not needed.  yields: before the sleep it polls and yields as a wait does.  said: as in madi_leader_sleep. */
void madi_progress_thread_lead(marceli_waiter_t *waiter, bool (*test)(void *arg), bool yields, bool said);
/* Let a worker with nothing to run wait until test(arg) is true, or the deadline has passed. */
void madi_worker_idle_wait(madi_worker_t *worker, bool (*test)(void *arg), void *arg, int64_t deadline);
/* Poll now and then for waiting threads; called by a scheduler whose worker is busy.  now: madi_now. */
void madi_server_tick(madi_worker_t *worker, int64_t now);
/* True if a user-level thread waits. */
static inline bool madi_server_has_waiters(void)
{
    return atomic_load_explicit(&madi_server.blocked, memory_order_relaxed);
}

/* ---- follower.c ------------------------------------------------------------------------------------------------- */

/* Called by a worker that will run a thread, for any length of time, and so not lead: if user-level threads wait and no
 * thread leads, wake an idle worker to lead. */
void madi_leader_wanted_elsewhere(madi_worker_t *worker);

/* ---- wait_policy.c ---------------------------------------------------------------------------------------------- */

/* True if the processes, each with that number of waiting threads, have more waiting threads than cores. */
bool madi_oversubscribed(int processes, int waiting);
int64_t madi_spin_ns(int processes, int waiting); /* time of a wait's spinning */
int64_t madi_yield_ns(int64_t spin_ns);           /* time of a leader's yields after that spinning */
/* Return the end of the ban on yields after one that began at `before` and ended at `after`. */
int64_t madi_ban_until(int64_t before, int64_t after);
/* True if that yield took longer than `slow`; then there are none until *banned. */
bool madi_yield_was_slow(int64_t before, int64_t after, int64_t slow, int64_t *banned);

/* ---- waiter.c --------------------------------------------------------------------------------------------------- */

extern _Thread_local bool madi_woke_other; /* this kernel thread has woken a thread that another kernel thread runs */

/* ---- progress_thread.c ------------------------------------------------------------------------------------------ */

/* True on the progress thread, which need not be woken if it is the leader that may sleep. */
extern _Thread_local bool madi_is_progress_thread;
/* A kernel thread begins to wait, and so makes progress.  Return the number of those that do. */
int madi_progress_enter(void);
/* The kernel thread stops waiting.  returns: this thread, or another one, is likely to wait again soon. */
void madi_progress_leave(bool returns);
bool madi_progress_thread_exists(void);
/* In the child of a fork: the thread does not exist. */
void madi_progress_thread_forked(void);
/* End the thread.  A later kick makes it again. */
void madi_progress_thread_stop(void);

#pragma GCC visibility pop

#endif

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
#define MADI_SLEEPS 1        /* of marceli_leader_sleeps: a leader, which has said so itself */
#define MADI_SLEEPS_THREAD 2 /* the progress thread, as its caller has said */

/* A place for a category.  Everything under `turn`, which a poller only tries to take: exactly one polls at a time. */
typedef struct madi_source {
    _Alignas(MADI_LINE) madi_lock_t turn;
    bool live;
    bool armed;           /* between enter_blocking and exit_blocking */
    _Atomic(int) users;   /* threads that run its calls, or are about to; without the turn */
    _Atomic(bool) apart;  /* a thread was made for that, and has not begun */
    marceli_category_t c;
    madi_counter_t polls, hits; /* read without the turn, which the thread that answers queries may have */
    _Atomic(const char *) name;
} madi_source_t;

/* The leader: a thread that waits itself (a plain pthread, or an idle worker of whose threads some wait); an idle
 * worker for threads of others, which are busy; the progress thread.  The last two make room for a thread that waits
 * itself. */
enum madi_led { MADI_LED_BY_NOBODY, MADI_LED_BY_WAITER, MADI_LED_BY_OTHER, MADI_LED_BY_THREAD };

typedef struct madi_server {
    madi_source_t sources[MADI_CATEGORIES];
    _Atomic(int) n_sources;    /* that have ever been used */
    _Atomic(int) epfd;       /* -1 before the first category; stays open, as wake_fd does */
    int wake_fd;
    bool asymmetric;         /* membarrier works in this process */
    _Atomic(int) cores, host_cores; /* of this process, of the host; workers may look before the first category */
    cpu_set_t cpus;          /* of this process at the start: a thread that binds itself later does not bind others */
    _Atomic(int) processes;  /* of the job on this host: the most that a category says */
    _Atomic(int64_t) spin_ns; /* MAD_SPIN; -1: by how many wait */
    _Alignas(MADI_LINE) _Atomic(int) leader; /* madi_led */
    _Atomic(int) inside;     /* kernel threads that wait and poll, or would */
    _Atomic(int) blocked;    /* user-level threads that wait, until they are woken */
    madi_lock_t lock;
    marceli_waiter_t *followers; /* under lock: plain pthreads that sleep while another one leads ... */
    marceli_waiter_t *idle;      /* ... and workers */
    _Atomic(int) n_followers, n_idle;
    _Atomic(int) askers;     /* threads that want to lead in place of MADI_LED_BY_OTHER; they poll until it has made room */
    _Atomic(int) deputy;     /* one of the idle looks now and then whether somebody leads ... */
    _Atomic(int64_t) prompt_until; /* ... but until then it is called at once */
    madi_counter_t terms;    /* of leaders; counted by the one that leads */
    madi_counter_t sleeps;
    madi_counter_t thread_terms, ticks; /* how often the progress thread led, and how often it looked by its clock */
    _Atomic(uint64_t) wakes;
} madi_server_t;

#pragma GCC visibility push(hidden)

extern madi_server_t madi_server;

/* engine.c */
/* Find out what every wait goes by: spin_ns, asymmetric, cores.  Before workers or categories; again: nothing.  -1: the knob
 * is wrong (logged). */
int madi_server_facts(void);
/* Poll what is not being polled; how many events.  *calls: a source with calls that nobody runs, or NULL; the caller runs
 * them, or says no. */
int madi_server_look(bool deep, madi_source_t **calls);
extern _Thread_local bool madi_looks_dear; /* one of this kernel thread's was more than a look at memory */
madi_source_t *madi_server_calls(void); /* the same without a poll, and surely */
void madi_server_run(madi_source_t *source);
void madi_server_calls_no(madi_source_t *source);
/* The leader sleeps once, unless test(arg) is true, and polls everything when it comes back.  said: marceli_leader_sleeps
 * says so already, and a barrier was executed since; it still does when this returns. */
void madi_lead_sleep(marceli_waiter_t *w, bool (*test)(void *arg), void *arg, int64_t deadline, bool said);

/* leader.c */
bool madi_lead(int who);
void madi_lead_no_more(void);
/* The progress thread leads, if nobody does: it sleeps until something has come, or test says that it is not needed; before
 * that it polls and yields as a wait does, if yields.  said: see madi_lead_sleep. */
void madi_lead_beside(marceli_waiter_t *waiter, bool (*test)(void *arg), bool yields, bool said);
/* A worker with nothing to run waits: until test(arg) is true, or the deadline has passed. */
void madi_idle_wait(madi_worker_t *worker, bool (*test)(void *arg), void *arg, int64_t deadline);
/* From a scheduler whose worker is busy: poll now and then for the threads that wait. now: madi_now. */
void madi_server_tick(madi_worker_t *worker, int64_t now);
static inline bool madi_server_waits(void) /* does anybody? */
{
    return atomic_load_explicit(&madi_server.blocked, memory_order_relaxed);
}

/* follower.c */
/* The worker will run a thread, however long, and not lead: if user-level threads wait and nobody leads, an idle worker
 * shall. */
void madi_lead_elsewhere(madi_worker_t *worker);

/* wait_policy.c */
/* True if the processes, each with that number of waiting threads, have more waiting threads than cores. */
bool madi_oversubscribed(int processes, int waiting);
int64_t madi_spin_ns(int processes, int waiting); /* time of a wait's spinning */
int64_t madi_yield_ns(int64_t spin_ns);           /* time of a leader's yields after that spinning */
/* Return the end of the ban on yields after one that began at `before` and ended at `after`. */
int64_t madi_ban_until(int64_t before, int64_t after);
/* True if that yield took longer than `slow`; then there are none until *banned. */
bool madi_yield_was_slow(int64_t before, int64_t after, int64_t slow, int64_t *banned);

/* waiter.c */
extern _Thread_local bool madi_woke_other; /* this kernel thread has woken what another one has to run */

/* progress_thread.c */
extern _Thread_local bool madi_is_progress_thread; /* nobody has to wake it, if it is the one that may sleep */
int madi_async_enter(void); /* a kernel thread waits, and so makes progress, from now on ... */
void madi_async_leave(bool returns); /* ... no more.  enter: how many do; returns: it, or another one, will do so soon */
bool madi_async_exists(void); /* now */
void madi_async_forked(void); /* in the child: there is no such thread */
void madi_async_stop(void);  /* the thread ends; it is made again when it is needed */

#pragma GCC visibility pop

#endif

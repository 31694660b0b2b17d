/* SPDX-License-Identifier: BSD-3-Clause */
/* The polling server: the one place where a process waits for what comes from outside.  Used by libraries (libmadeleine),
 * not by programs: its symbols (marceli_) may change with every release.
 *
 * A *category* is one source of events: a session with all its networks, or the descriptors that threads wait for.  One
 * of the kernel threads that wait is the *leader*, which polls every category for all.  The leader spins, yields a few
 * times, and sleeps in epoll with all categories armed.  The other threads, *followers*, each sleep until their waiter is
 * woken (waiter.h).  A leader that leaves wakes one follower, which then leads.
 *
 * Workers with nothing to run wait like plain pthreads, so user-level threads that wait cost no kernel thread: an idle
 * worker leads for them.  While all workers are busy, their schedulers poll now and then.  See doc/threads.md.
 *
 * Locks.  The callbacks of a category are called with the category's lock `turn` held, and no other lock.  One thread
 * polls a category at a time; the others skip it instead of waiting for the lock.  Any kernel thread may call the
 * callbacks, but never on the stack of a user-level thread in the middle of a switch.  Callbacks may wake waiters, and
 * must not block or switch. */
#ifndef MARCELI_ENGINE_H
#define MARCELI_ENGINE_H

#include "engine/waiter.h"

typedef struct marceli_category {
    const char *name; /* shown in statistics and logs */
    void *arg;        /* argument of the callbacks */
    /* Handle pending events; return their number.  deep: poll also where a poll costs a system call. */
    int (*poll)(void *arg, bool deep);
    /* True if there may be events.  Cheap, takes no lock, changes nothing. */
    bool (*pure_poll)(void *arg);
    /* Prepare for the leader's sleep.  From now on an event makes fd readable, or calls marceli_leader_wake.  Return false
     * if there is an event already.  Lower *deadline (madi_now's ns) to the latest time at which poll has to be called.  In
     * either case exit_blocking and poll follow.  The poll is deep, unless only marceli_leader_wake woke the leader. */
    bool (*enter_blocking)(void *arg, int64_t *deadline);
    void (*exit_blocking)(void *arg);
    int fd; /* the descriptor; -1 if there is none */
    /* Handlers and callbacks of the program.  has_calls: true if some are due and no thread runs them.  run_calls: run
     * them; may block and switch.  Both are NULL if the category never has any. */
    bool (*has_calls)(void *arg);
    void (*run_calls)(void *arg);
    int processes; /* number of processes of this job on this host, which share its cores */
} marceli_category_t;

/* Start the polling server, before any other call; no effect when repeated.  Return 0, or -1 if there are no descriptors or
 * a knob is wrong (logged). */
int marceli_server_open(void);

/* Register a category, which is copied.  Return its number, or 0 if there are too many or no descriptors (logged). */
int marceli_category_add(const marceli_category_t *category);
/* Change the number of processes of a category (marceli_category_t). */
void marceli_category_processes(int category, int processes);
/* Remove a category.  No callback runs any more when it returns.  No thread may wait for its events. */
void marceli_category_del(int category);

/* Wait until test(arg) is true, making progress.  Return false if the deadline (madi_now's ns) has passed.  A thread
 * that changes what `test` reads wakes the caller by its waiter `w`.  May switch.  No lock held. */
bool marceli_wait(marceli_waiter_t *w, bool (*test)(void *arg), void *arg, int64_t deadline);

/* ---- Towards a sleeping leader -------------------------------------------------------------------------------- */

/* Execute a full barrier on every thread of this process (membarrier): earlier stores of all threads are visible to the
 * caller, and their later loads are fresh.  The light barrier, on the other side, then restrains only the compiler.
 * Where the kernel has no membarrier, both are full fences of their callers. */
void marceli_barrier(void);
void marceli_barrier_light(void);

/* Wake the leader if it sleeps: something has changed that no descriptor announces.  Any lock may be held. */
void marceli_leader_wake(void);

/* Not 0 while the leader sleeps or is about to sleep.  A thread that changes something then calls marceli_leader_wake. */
extern _Atomic(int) marceli_leader_sleeps;
/* Address of marceli_leader_sleeps; without membarrier, address of a word that is always 1. */
const _Atomic(int) *marceli_leader_sleeps_flag(void);

/* ---- While no thread waits ------------------------------------------------------------------------------------ */

/* Add n to the number of operations that need progress while no thread waits.  While it is above 0 the progress thread
 * leads whenever no other thread does.  Any lock may be held. */
void marceli_progress_count(int n);
/* Like marceli_progress_count, but for operations that other processes may request at any time: handlers, forwarding. */
void marceli_progress_count_serving(int n);
/* Allow or forbid the progress thread, overriding MAD_PROGRESS_THREAD.  Call it before anything is counted. */
void marceli_progress_allow(bool allowed);
/* True if the progress thread may be used. */
bool marceli_progress_is_allowed(void);
/* True if the program has enabled the progress thread itself, and therefore relies on it. */
bool marceli_progress_is_required(void);
/* Have the progress thread run near this NUMA node (numa.h), unless the process has too few processors there;
 * MARCELI_NUMA_UNKNOWN: anywhere.  Any thread, any lock; a thread that runs already moves when it is next needed. */
void marceli_progress_near(int node);
/* Return that node; MARCELI_NUMA_UNKNOWN if there is none. */
int marceli_progress_node(void);
/* Move the progress thread off the processor of the caller, which polls and may then compute.  A kick does not move a
 * thread that leads all the time (as with handlers), and the caller may have moved or bound itself since the last kick. */
void marceli_progress_move_aside(void);
/* Wake the progress thread if it is needed.  Called before a call returns that leaves operations pending.  No lock held. */
void marceli_progress_kick(void);
/* Like marceli_progress_kick, but for a request that the program will poll for, or leave pending while it computes. */
void marceli_progress_kick_left(void);
/* Record that the program polls (marceli_progress_poll is its fast path). */
void marceli_progress_polled(void);
/* Time (madi_now's ns) when an operation was left pending, or when the progress thread began to lead; 0 if the program
 * has polled since. */
extern _Atomic(int64_t) marceli_progress_left_at;
static inline void marceli_progress_poll(void)
{
    if (__builtin_expect(atomic_load_explicit(&marceli_progress_left_at, memory_order_relaxed) != 0, 0))
        marceli_progress_polled();
}
/* Make the progress thread lead from now on, even if the program has polled: the caller will sleep outside the library
 * until one of its handlers or callbacks wakes it.  No lock held. */
void marceli_progress_hand_over(void);
/* Like marceli_progress_count and marceli_progress_kick, but for operations that another process usually finishes.  The
 * progress thread serves them only after some milliseconds without a call of the library. */
void marceli_progress_count_later(int n);
void marceli_progress_kick_later(void);
/* Record that an operation counted by marceli_progress_count_later moved on; for one that is counted once and lasts long.
 * Any lock may be held; cheap. */
void marceli_progress_note_move(void);
/* Record that calls are due (see has_calls), perhaps because the last operation has ended.  Any lock may be held. */
void marceli_progress_has_calls(void);

/* ---- Queries -------------------------------------------------------------------------------------------------- */

/* True if the host has fewer cores than the job has processes.  Waiting threads then sleep often, and sleeping has to
 * be cheap. */
bool marceli_oversubscribed(int processes);
/* Scale `sharers`, the number of processes that share this process's processors, to the whole host: return the
 * number of processes that would leave each the same share of the host's processors. */
int marceli_processes_equivalent(int sharers);
/* Number of processes per core of the host, rounded down, if the host runs that number of processes.  The server must be
 * open. */
int marceli_processes_per_core(int processes);

/* State as mad_info shows it.  Counts begin at the start of the process. */
#define MARCELI_KINDS 4 /* most names of categories */
typedef struct marceli_state {
    int64_t spin_ns;      /* ns for which a waiting thread spins when it has a core */
    int inside;           /* kernel threads that wait */
    int followers;        /* waiting threads that sleep behind a leader; `waiting` includes them */
    int blocked;          /* user-level threads that wait */
    uint64_t sleeps;      /* number of leaders' sleeps in epoll */
    uint64_t polls, hits; /* number of polls, and of polls that found an event, of all categories */
    struct {
        const char *name; /* NULL after the last */
        uint64_t polls, hits;
    } kinds[MARCELI_KINDS];
    uint64_t wakes;        /* number of wake-ups of kernel threads that slept */
    uint64_t thread_terms; /* number of times that the progress thread has led; for tests */
    uint64_t ticks;        /* number of periodic checks by the progress thread; for tests */
    int workers;
    uint64_t created, ended, steals, idles; /* user-level threads, by workers */
    uint64_t switches;                      /* switches between user-level threads, a multiple of MADI_PERIOD */
    uint64_t retaken; /* number of workers taken away from threads in undeclared blocking calls (monitor.h) */
} marceli_state_t;
/* Fill in the state.  Any lock may be held; also from a callback. */
void marceli_state_get(marceli_state_t *state);

/* Report each sleep of a waiting kernel thread: after the sleep, that thread calls `slept` with the time when the sleep
 * began (madi_now's ns).  To be called once, before other threads exist.  `slept` must not wait. */
void marceli_sleeps_report(void (*slept)(int64_t begin));

/* Number of polls that a caller may do by itself before marceli_wait: the number of polls of a wait before it reads the
 * clock. */
int marceli_spins(int processes);
/* True if a plain pthread, or a worker with waiting threads, currently leads. */
bool marceli_is_led(void);
/* True if the worker of the calling user-level thread has other threads to run, so that the caller should not spin.
 * False for a plain pthread. */
bool marceli_others_ready(void);
/* Run the worker's other ready threads, if any: for calls that a thread repeats until an event comes.  May switch. */
void marceli_yield_to_others(void);

#endif

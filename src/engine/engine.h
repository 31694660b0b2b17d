/* SPDX-License-Identifier: BSD-3-Clause */
/* The polling server: the one place where a process waits for what comes from outside.  Used by libraries (libmadeleine),
 * not by programs: its symbols (marceli_) may change with every release.
 *
 * A *category* is one kind of source of events: a session with all its networks, the descriptors that threads wait for.
 * Of the kernel threads that wait one is the *leader*, which polls every category for all; it spins, yields a few times,
 * and sleeps in epoll with all categories armed.  The others, *followers*, sleep each by itself until their waiter is
 * woken (waiter.h).  A leader that leaves wakes one of them, which leads.  Workers with nothing to run wait like plain
 * pthreads, so user-level threads that wait cost no kernel thread: an idle worker leads for them, and while all are busy
 * the schedulers poll now and then.  See doc/threads.md.
 *
 * Locks.  The callbacks of a category are called with none but the category's own turn (one poller at a time, none else
 * waits for it), by any kernel thread, never on a user-level thread's stack in mid-switch; they may wake waiters and must
 * not block or switch. */
#ifndef MARCELI_ENGINE_H
#define MARCELI_ENGINE_H

#include "engine/waiter.h"

typedef struct marceli_category {
    const char *name; /* for people */
    void *arg;        /* of the callbacks */
    /* Handle what is there; returns how many events.  deep: look where it costs a system call too. */
    int (*poll)(void *arg, bool deep);
    /* True if there may be events.  Cheap, no lock, changes nothing. */
    bool (*pure_poll)(void *arg);
    /* The leader goes to sleep: from now on fd becomes readable, or marceli_leader_wake is called, when something comes.
     * false: there is something already.  *deadline is lowered to when poll is wanted at the latest.  In either case
     * exit_blocking follows, and a poll: a deep one, unless the leader was woken by marceli_leader_wake and nothing else. */
    bool (*enter_blocking)(void *arg, int64_t *deadline);
    void (*exit_blocking)(void *arg);
    int fd; /* or -1 */
    /* The program's own code that waits to be run (handlers, callbacks): is there some that nobody runs?  Run it; it may
     * block, and switch.  NULL: none ever. */
    bool (*has_calls)(void *arg);
    void (*run_calls)(void *arg);
    int processes; /* of this job on this host, which share its cores */
} marceli_category_t;

/* Before all else here; again: nothing.  -1: no descriptors, or a knob is wrong (logged). */
int marceli_server_open(void);

/* The category is copied; the result names it.  0: too many, or no descriptors (logged). */
int marceli_category_add(const marceli_category_t *category);
void marceli_category_processes(int category, int processes); /* there are more, or fewer, than was said */
/* No callback runs any more when it returns.  Nobody may wait for it. */
void marceli_category_del(int category);

/* Wait until test(arg) is true, making progress; false: the deadline (madi_now's ns) has passed.  The waiter, the caller's,
 * is where changes wake it.  May switch.  No lock held. */
bool marceli_wait(marceli_waiter_t *w, bool (*test)(void *arg), void *arg, int64_t deadline);

/* ---- Towards a sleeping leader -------------------------------------------------------------------------------- */

/* Stores of every thread of this process that were made before are seen, later loads of theirs are fresh.  Where the
 * kernel has no membarrier: a fence of the caller, and the others' light barriers are fences too. */
void marceli_barrier(void);
void marceli_barrier_light(void);

/* Something has changed that the sleeping leader would not hear of: wake it.  Any lock. */
void marceli_leader_wake(void);

/* Not 0 if the leader sleeps or is about to, or if that cannot be known without a fence.  A thread that changes
 * something then calls marceli_leader_wake. */
extern _Atomic(int) marceli_leader_sleeps;
const _Atomic(int) *marceli_attentive(void);

/* ---- While nobody waits --------------------------------------------------------------------------------------- */

/* So many operations more (less) need progress though nobody waits: a kernel thread of the server's own then leads, while
 * no other does.  Any lock. */
void marceli_async_count(int n);
/* Like marceli_async_count, but for what other processes ask for at any time: handlers, forwarding. */
void marceli_async_count_serving(int n);
/* Whether it is used, whatever MAD_PROGRESS_THREAD says; before anything is counted.  Is it? */
void marceli_async_allow(bool allowed);
bool marceli_async_allowed(void);
bool marceli_async_counted_on(void); /* has the program said that it is? */
/* Move the progress thread off the processor of the caller, which polls, and may compute after this.  While the thread
 * leads all the time, as with handlers, no kick does so, and the caller may have moved or bound itself since. */
void marceli_async_aside(void);
/* Before a call returns that left such ones.  No lock. */
void marceli_async_kick(void);
/* Like marceli_async_kick, but for a request that the program polls for from now on, or computes beside.
 * marceli_async_polled: the program polls now. */
void marceli_async_kick_left(void);
void marceli_async_polled(void);
extern _Atomic(int64_t) marceli_async_left; /* when something was left, or the thread began to lead; 0: it has polled since */
static inline void marceli_async_poll(void)
{
    if (__builtin_expect(atomic_load_explicit(&marceli_async_left, memory_order_relaxed) != 0, 0))
        marceli_async_polled();
}
/* The caller will sleep outside the library until a handler or callback of its own wakes it: the thread leads from now on,
 * though the program has polled.  No lock. */
void marceli_async_hand_over(void);
/* Like marceli_async_count and marceli_async_kick, but for operations that as a rule another process finishes: the
 * thread serves them only after some milliseconds without a call of the library. */
void marceli_async_count_later(int n);
void marceli_async_kick_later(void);
/* As if one of them had begun and ended: for what is counted once while it goes on.  Any lock, and cheap. */
void marceli_async_moves(void);
/* Calls were added (see has_calls), maybe by the end of the last operation.  Any lock. */
void marceli_async_has_calls(void);

/* ---- To be told ----------------------------------------------------------------------------------------------- */

/* True if the host has fewer cores than the job has processes.  Waiting threads then sleep often, and sleeping has to
 * be cheap. */
bool marceli_crowded(int processes);
/* So many processes share this one's processors, which may be some of the host's only: of how many on the whole host would it
 * have as little? */
int marceli_crowd(int sharers);
/* Number of the given processes that take turns on each core of the host, rounded down.  While the server is open. */
int marceli_turns(int processes);

/* State as mad_info shows it.  Counts are of all time. */
#define MARCELI_KINDS 4 /* of categories, by name */
typedef struct marceli_state {
    int64_t spin_ns;  /* how long a wait spins when it has a core */
    int inside, followers, blocked; /* kernel threads that wait; those of them that sleep behind a leader; user-level ones */
    uint64_t sleeps;                /* of leaders, in epoll */
    uint64_t polls, hits;           /* of all categories */
    struct {
        const char *name; /* NULL: no more */
        uint64_t polls, hits;
    } kinds[MARCELI_KINDS];
    uint64_t wakes;                 /* of kernel threads that slept */
    uint64_t thread_terms, ticks;   /* how often the progress thread led, and how often it looked by its clock; for tests */
    int workers;
    uint64_t created, ended, switches, steals, idles; /* of user-level threads by workers; switches: whole periods of them */
    uint64_t retaken;               /* workers from threads that blocked without a word (monitor.h) */
} marceli_state_t;
void marceli_state_get(marceli_state_t *state); /* any lock; also from a callback */

/* Report each sleep of a waiting kernel thread: after the sleep that thread calls slept with the time when it began.
 * Called once, before there are other threads. slept must not wait. */
void marceli_tell_sleeps(void (*slept)(int64_t begin));

/* Looks of a wait before the clock is asked: what a caller may do by itself before marceli_wait. */
int marceli_spins(int processes);
/* True if a plain pthread or worker polls for all at this moment. */
bool marceli_is_led(void);
/* True if the calling user-level thread's worker has others to run: then it does not spin.  False for a plain pthread. */
bool marceli_others_ready(void);
/* Let them: for calls that a thread makes again and again until something is there.  May switch. */
void marceli_give_way(void);

#endif

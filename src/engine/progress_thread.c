/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread: makes progress while the application computes.
 *
 * The thread is created by the first operation that needs it (a request of several packets, a handler).  The progress thread
 * sleeps on a futex while nothing is pending, or while a thread of the application waits in the library and so makes
 * progress itself.  Otherwise it sleeps in epoll, as the leader, with all categories armed.  A program that only waits never
 * pays for the thread.
 *
 * Why no wake-up is lost.  A thread that makes an operation pending counts it, then looks whether the progress thread
 * leads.  The progress thread announces that it leads, then looks at the count, and again after it has stopped.  All of
 * these accesses are sequentially consistent.  Callbacks that are due are announced and checked in the same way, since an
 * operation may be complete while its callback still has to run.
 *
 * Operations that another process usually finishes are counted separately (`later`).  Waking the thread for them would
 * take longer than the operations themselves, and would take the core from a thread that works.  While any exist, and for
 * a while afterwards, the thread checks periodically.  If some are left, and none was begun or finished since the last
 * check, the thread is needed after all.
 *
 * User-level threads enter and leave the library often.  If a thread leaves an operation pending, and its worker has other
 * threads, one of them usually calls the library soon.  So on oversubscribed cores the progress thread is not woken as long
 * as it checks periodically.  The thread checks while user-level threads call the library, and leads if none did so between
 * two checks.  Waking it for each message would take longer than the message.
 *
 * A program that polls (mad_progress), as MPI libraries do, is not inside the library between two polls, but polls again
 * at once.  The library assumes such a program if the program did so the last time.  The thread is then not woken for
 * operations that the program leaves pending, as long as the thread checks periodically.  The first poll of the program
 * makes the thread give up the lead, since peers ring the bell for a leader that sleeps.
 *
 * While the thread only serves other processes (handlers, forwarding), an event is usually followed by more.  The thread
 * then yields for a while before it sleeps again.  With pending requests it does not yield: the program computes, and the
 * peer that sends what the requests wait for may need the other processor.
 *
 * A leader's barrier (madi_leader_sleep) interrupts the threads that compute.  A barrier takes 10 to 20 us on a virtual
 * machine, as does each interrupt from one processor to another.  So the thread that wakes the progress thread announces the
 * coming sleep on its behalf, and executes the barrier before the progress thread runs.  The announcement holds as long as
 * the progress thread is needed. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "engine/follower.h"
#include "engine/helper.h"
#include "engine/numa.h"
#include "engine/wait_policy.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

MADI_THREAD_LOCAL bool madi_is_progress_thread;
_Atomic(int64_t) marceli_progress_left_at;

static struct progress {
    pthread_t thread;
    marceli_waiter_t waiter;
    _Atomic(int) pending; /* operations that need progress while no thread waits */
    _Atomic(int) serves;  /* number of operations in `pending` that never end, because they serve other processes */
    _Atomic(int) leading;
    _Atomic(int) exists, stop;
    _Atomic(int) allowed; /* the program's choice: 1 yes, -1 no; 0: the knob decides */
    /* 1 if callbacks or handlers may be due: some were added since the last check, or that check left some */
    _Atomic(int) calls;
    _Atomic(int) later;     /* operations that another process finishes */
    atomic_uint moved;      /* number of beginnings and ends of the operations counted in `later` */
    _Atomic(int) overdue;   /* 1 if no operation counted in `later` began or ended between two checks */
    _Atomic(int) ticking;   /* 1 if the thread checks periodically */
    _Atomic(int) polls;     /* 1 if the program polls for the operations that it leaves pending */
    _Atomic(int) polled;    /* 1 if the program polled while the thread led */
    _Atomic(int) away;      /* polls in a row until the program no longer counts as one that sleeps outside the library */
    atomic_uint go;         /* futex; changes when the thread may be needed */
    _Atomic(int) tid;       /* kernel thread number; 0 if the thread does not run yet */
    _Atomic(int) avoids;    /* the processor that the thread must not use, plus 1; 0 if none */
    _Atomic(int) node;      /* the NUMA node that the thread runs near, plus 1; 0 if none */
    _Atomic(int) announced; /* enum announced */
    _Atomic(int) warned;    /* 1 after the warning that the thread cannot be created; creating it is tried again each time */
} progress;
static bool alive; /* user-level threads have entered and left since the last check; owned by the progress thread */

/* ---- The announcement of its sleep -------------------------------------------------------------------------------- */

/* A waking thread changes NOT_ANNOUNCED to ANNOUNCING and then to ANNOUNCED.  The progress thread changes ANNOUNCED to
 * IN_USE, and to NOT_ANNOUNCED when the thread is no longer needed.  Until then the thread sleeps, any number of times,
 * without a barrier of its own. */
enum announced { NOT_ANNOUNCED, ANNOUNCING, ANNOUNCED, IN_USE };

static void sleep_announce(void)
{
    int none = NOT_ANNOUNCED;
    if (!atomic_compare_exchange_strong(&progress.announced, &none, ANNOUNCING))
        return;
    atomic_fetch_or(&marceli_leader_sleeps, MADI_SLEEPS_THREAD);
    marceli_barrier(); /* pairs with marceli_leader_wake */
    atomic_store(&progress.announced, ANNOUNCED);
}

static bool sleep_is_announced(void)
{
    int announced = ANNOUNCED;
    return atomic_compare_exchange_strong(&progress.announced, &announced, IN_USE) || announced == IN_USE;
}

static void sleep_retract(void)
{
    if (!sleep_is_announced())
        return;
    atomic_fetch_and(&marceli_leader_sleeps, ~MADI_SLEEPS_THREAD);
    atomic_store(&progress.announced, NOT_ANNOUNCED);
}

/* ---- The thread ------------------------------------------------------------------------------------------------------- */

/* True if callbacks or handlers wait to be run.  The check takes locks, so it is made only if progress.calls is 1. */
static bool calls_wait(void)
{
    madi_source_t *source;
    if (!atomic_load(&progress.calls))
        return false;
    atomic_store(&progress.calls, 0); /* cleared before the check: a thread that adds calls after the check sets it again */
    source = madi_server_calls();
    if (!source)
        return false;
    madi_server_calls_release(source);
    atomic_store(&progress.calls, 1);
    return true;
}

static bool thread_is_needed(void)
{
    return !atomic_load(&madi_server.inside) && !atomic_load(&progress.stop) && !atomic_load(&progress.polled) &&
           ((atomic_load(&progress.pending) > 0 && !alive) ||
            (atomic_load(&progress.overdue) && atomic_load(&progress.later) > 0) || calls_wait());
}

static bool thread_not_needed(void *arg)
{
    (void)arg;
    return !thread_is_needed();
}

static bool thread_yields(void)
{
    int serves = atomic_load(&progress.serves);
    return madi_thread_yields(serves, atomic_load(&progress.pending));
}

/* Sleep while nothing needs the thread: until a wake-up, or until the next periodic check. */
static void thread_sleep(unsigned seen)
{
    static int looks_left;
    static unsigned moved; /* value of progress.moved at the last check */
    unsigned now = atomic_load(&progress.moved);
    int64_t deadline = madi_now() + MADI_TICK_NS;
    atomic_store(&progress.overdue, 0);
    alive = false;
    looks_left = atomic_load(&progress.later) || now != moved ? MADI_TICKS : looks_left - 1;
    moved = now;
    atomic_store(&progress.ticking, looks_left > 0);
    /* `ticking` is stored before: a thread that begins an operation reads it afterwards */
    if (looks_left <= 0 && !atomic_load(&progress.later)) {
        looks_left = 0;
        /* a thread that has left an operation pending without a kick has read `ticking`, too */
        if (!thread_is_needed() && !atomic_load(&progress.polled))
            madi_futex_wait(&progress.go, seen, MADI_NEVER);
        return;
    }
    madi_futex_wait(&progress.go, seen, deadline);
    if (madi_now() < deadline)
        return;
    madi_count(&madi_server.ticks);
    now = atomic_load(&progress.moved);
    atomic_store(&progress.overdue, now == moved && atomic_load(&progress.later));
    alive = now != moved;
}

static void *progress_thread_main(void *arg)
{
    unsigned seen = atomic_load(&progress.go), before;
    madi_is_progress_thread = true;
    atomic_store(&progress.tid, gettid());
    for (;;) {
        before = seen;
        seen = atomic_load(&progress.go);
        alive = alive && seen == before; /* false if a wake-up came, which changes `go` */
        if (atomic_exchange(&progress.polled, 0))
            alive = true;
        if (atomic_load(&progress.stop)) /* `stop` is read after `go`, because `stop` is written before `go` */
            break;
        if (!thread_is_needed()) {
            sleep_retract();
            thread_sleep(seen);
            continue;
        }
        atomic_store(&progress.leading, 1);
        madi_count(&madi_server.thread_terms);
        if (!atomic_load(&marceli_progress_left_at))
            /* a value that is not 0 makes the next poll of the program call marceli_progress_polled */
            atomic_store(&marceli_progress_left_at, madi_now());
        madi_progress_thread_lead(&progress.waiter, thread_not_needed, thread_yields(),
                                  sleep_is_announced()); /* true unless another thread still leads */
        /* `leading` is cleared before any sleep on `go`: while `leading` is 1 no thread wakes this one */
        atomic_store(&progress.leading, 0);
    }
    sleep_retract();
    return arg;
}

/* Reduce a set to the processors of the node that the thread runs near, if any of them but `avoided` is in the set. */
static bool set_reduce(cpu_set_t *set, int avoided)
{
    cpu_set_t near;
    if (!marceli_numa_cpus(marceli_progress_node(), &near))
        return false;
    CPU_AND(&near, &near, set);
    if (!CPU_COUNT(&near) || (CPU_COUNT(&near) == 1 && CPU_ISSET(avoided, &near)))
        return false;
    *set = near;
    return true;
}

int madi_progress_processors(int cpu, cpu_set_t *set)
{
    bool near;
    *set = madi_server.cpus;
    if (cpu < 0)
        return 0;
    near = set_reduce(set, cpu);
    if (!CPU_ISSET(cpu, set))
        return near ? cpu + 1 : 0;
    if (CPU_COUNT(set) < 2)
        return 0;
    CPU_CLR(cpu, set);
    return cpu + 1;
}

/* Leave out the calling thread's processor instead, if the caller has moved.  If the kernel refuses, nothing changes. */
static void thread_change_processor(void)
{
    cpu_set_t set;
    int tid = atomic_load(&progress.tid), avoids;
    if (MADI_LIKELY(sched_getcpu() + 1 == atomic_load(&progress.avoids)) || !tid)
        return;
    avoids = madi_progress_processors(sched_getcpu(), &set);
    atomic_store(&progress.avoids, avoids);
    if (avoids)
        sched_setaffinity(tid, sizeof set, &set);
}

void marceli_progress_move_aside(void)
{
    if (atomic_load(&progress.leading) && !madi_is_progress_thread)
        thread_change_processor();
}

static bool thread_start(void)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int error;
    if (atomic_exchange(&progress.exists, 1)) {
        thread_change_processor();
        return true;
    }
    pthread_attr_init(&attr);
    atomic_store(&progress.avoids, madi_progress_processors(sched_getcpu(), &set));
    if (CPU_COUNT(&set))
        pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    error = madi_helper_make(&progress.thread, &attr, "mad-progress", progress_thread_main, NULL);
    if (error && CPU_COUNT(&set)) { /* these processors are not available: the thread gets those of its creator */
        atomic_store(&progress.avoids, 0);
        error = madi_helper_make(&progress.thread, NULL, "mad-progress", progress_thread_main, NULL);
    }
    pthread_attr_destroy(&attr);
    if (!error)
        return true;
    if (!atomic_exchange(&progress.warned, 1))
        madi_log(MADI_LOG_WARN, "marcel", "no progress thread: %s; operations go on when the program calls the library",
                 strerror(error));
    atomic_store(&progress.exists, 0);
    return false;
}

/* Wake the progress thread, and create it if necessary.  leads: the progress thread is expected to lead. */
static void thread_request(bool leads)
{
    if (!marceli_progress_is_allowed() || !thread_start())
        return;
    if (leads)
        sleep_announce();
    atomic_fetch_add(&progress.go, 1);
    madi_futex_wake(&progress.go);
}

bool marceli_progress_is_allowed(void)
{
    int allowed = atomic_load_explicit(&progress.allowed, memory_order_relaxed);
    return allowed ? allowed > 0 : madi_knob_int(MADI_KNOB_PROGRESS_THREAD);
}

bool marceli_progress_is_required(void)
{
    return atomic_load_explicit(&progress.allowed, memory_order_relaxed) > 0;
}

void marceli_progress_allow(bool allowed)
{
    atomic_store_explicit(&progress.allowed, allowed ? 1 : -1, memory_order_relaxed);
}

void marceli_progress_near(int node)
{
    atomic_store_explicit(&progress.node, node + 1, memory_order_relaxed);
}

int marceli_progress_node(void)
{
    return atomic_load_explicit(&progress.node, memory_order_relaxed) - 1;
}

void marceli_progress_count(int n)
{
    atomic_fetch_add(&progress.pending, n);
}

void marceli_progress_count_serving(int n)
{
    atomic_fetch_add(&progress.serves, n);
    atomic_fetch_add(&progress.pending, n);
}

void marceli_progress_count_later(int n)
{
    atomic_fetch_add(&progress.moved, 1);
    atomic_fetch_add(&progress.later, n);
}

void marceli_progress_note_move(void)
{
    unsigned moved = atomic_load_explicit(&progress.moved, memory_order_relaxed);
    /* Two threads may write the same value: a lost increment does no harm. */
    atomic_store_explicit(&progress.moved, moved + 1, memory_order_relaxed);
}

void marceli_progress_kick_later(void)
{
    if (!atomic_load(&progress.ticking) && atomic_load(&progress.later) > 0)
        thread_request(false);
}

void marceli_progress_has_calls(void)
{
    /* This store acts as a fence too: either the progress thread sees these calls, or the caller sees that a thread
     * leads or is inside. */
    atomic_store(&progress.calls, 1);
    if (atomic_load(&progress.exists) && !atomic_load(&progress.leading) && !atomic_load(&madi_server.inside) &&
        !(atomic_load(&progress.polls) && atomic_load(&progress.ticking)))
        thread_request(false);
}

/* True if the thread will check periodically soon.  Makes it continue its checks. */
static bool thread_polls_soon(void)
{
    marceli_progress_note_move();
    return atomic_load(&progress.ticking);
}

/* Wake the thread if it is needed.  returns: a thread is likely to call the library again soon. */
static void thread_kick(bool returns)
{
    if (!atomic_load(&madi_server.inside) && !atomic_load(&progress.leading) &&
        (atomic_load(&progress.pending) > 0 || calls_wait()) && !(returns && thread_polls_soon()))
        thread_request(true);
}

/* True if the caller's worker has other threads, one of which is likely to call the library soon. */
static bool worker_returns_soon(void)
{
    madi_ult_t *self = madi_ult_self();
    return self && (madi_has_others(self->worker) || self->worker->waiting) && madi_leader_may_return();
}

void marceli_progress_kick(void)
{
    thread_kick(worker_returns_soon());
}

void marceli_progress_kick_left(void)
{
    atomic_store_explicit(&marceli_progress_left_at, madi_now(), memory_order_relaxed);
    thread_kick((atomic_load_explicit(&progress.polls, memory_order_relaxed) && !marceli_progress_is_required()) ||
                worker_returns_soon());
}

void marceli_progress_hand_over(void)
{
    atomic_store(&progress.away, MADI_POLLS_BACK);
    atomic_store(&progress.polled, 0); /* forget the last poll, which does not mean that the program will poll again */
    thread_kick(false);
}

void marceli_progress_polled(void)
{
    int64_t left;
    bool all;
    if (atomic_load(&progress.away) > 0 && atomic_fetch_sub(&progress.away, 1) > 1)
        return; /* the program polls once more before it sleeps again */
    left = atomic_exchange(&marceli_progress_left_at, 0);
    /* The program may also poll one of several sources only, or rely on the progress thread. */
    all = atomic_load_explicit(&madi_server.n_sources, memory_order_relaxed) == 1 && !marceli_progress_is_required();
    if (!left)
        return;
    atomic_store_explicit(&progress.polls, all && madi_now() - left < MADI_POLL_SOON_NS, memory_order_relaxed);
    if (!all)
        return;
    marceli_progress_note_move();
    if (!atomic_load(&progress.leading))
        return;
    atomic_store(&progress.polled, 1);
    marceli_waiter_wake(&progress.waiter);
}

int madi_progress_enter(void)
{
    int waiting = atomic_fetch_add(&madi_server.inside, 1) + 1;
    if (atomic_load(&progress.leading))
        marceli_waiter_wake(&progress.waiter); /* the progress thread gives up the lead */
    return waiting;
}

void madi_progress_leave(bool returns)
{
    atomic_fetch_sub(&madi_server.inside, 1);
    /* The progress thread has given up the lead, and would take it again before the next thread waits. */
    if (returns && atomic_load(&progress.leading))
        atomic_store(&progress.polled, 1);
    thread_kick(returns);
}

bool madi_progress_thread_exists(void)
{
    return atomic_load(&progress.exists);
}

void madi_progress_thread_forked(void)
{
    int allowed = progress.allowed;
    memset((void *)&progress, 0, sizeof progress);
    progress.allowed = allowed;
    marceli_progress_left_at = 0;
    alive = false;
}

void madi_progress_thread_stop(void)
{
    if (!atomic_load(&progress.exists))
        return;
    atomic_store(&progress.stop, 1);
    marceli_waiter_wake(&progress.waiter);
    atomic_fetch_add(&progress.go, 1);
    madi_futex_wake(&progress.go);
    pthread_join(progress.thread, NULL);
    atomic_store(&progress.tid, 0);
    atomic_store(&progress.stop, 0);
    atomic_store(&progress.exists, 0);
}

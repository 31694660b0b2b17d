/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread: operations go on while the application computes.
 *
 * The thread exists from the first operation on that needs it (a request of several packets, a handler).  It sleeps on a
 * futex while nothing is pending, or while a thread of the application waits in the library and so makes progress itself.
 * Else it sleeps in epoll, as the leader, with everything armed.  A program that only waits never pays for it.
 *
 * Why no wake-up is lost.  A thread that makes an operation pending counts it, then looks whether the progress thread
 * leads.  The progress thread announces that it leads, then looks at the count, and again after it has stopped.  All of
 * that is sequentially consistent.  Callbacks that are due are seen in the same way, since the last operation may be done
 * and its callback not.
 *
 * Operations that another process usually finishes are counted separately (`later`).  Waking the thread for them would
 * take longer than they take, and the core from a thread that works.  While there are any, and a while after, the thread
 * looks by the clock.  If some are left, and none was begun or finished since the last look, it is needed after all.
 *
 * User-level threads come and go.  Where one that leaves an operation pending has others on its worker, that worker will
 * usually be back soon.  So on oversubscribed cores the thread is not woken as long as it looks by the clock.  It does so
 * while there is such coming and going, and leads when there was none between two looks.  To be woken for each message,
 * and to make room again, took longer than the message.
 *
 * A program that polls (mad_progress), as MPI libraries do, is not inside, but comes back at once.  That cannot be known,
 * but is assumed if it was so the last time.  Then the thread is not woken for what the program leaves, as long as the
 * thread looks by the clock.  The first poll makes the thread step back, since peers ring for a leader that sleeps.  Eight
 * ranks that exchanged 64 KiB took ten times as long as without the thread.
 *
 * While the thread only serves others (handlers, forwarding), an event is usually followed by more.  Then it yields for a
 * while before it sleeps again.  For requests it does not yield: the program computes, and the other processor may run
 * the peer that sends what the requests wait for.
 *
 * A leader's barrier (madi_leader_sleep) interrupts the threads that compute.  It takes 10 to 20 us on a virtual machine,
 * as does each interrupt from one processor to another.  So the thread that wakes the progress thread announces in its
 * place that it may sleep, and executes the barrier while the progress thread does not run yet.  The announcement holds as
 * long as the progress thread is needed. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "engine/follower.h"
#include "engine/helper.h"
#include "engine/wait_policy.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

_Thread_local bool madi_is_progress_thread;
_Atomic(int64_t) marceli_progress_left_at;

static struct progress {
    pthread_t thread;
    marceli_waiter_t waiter;
    _Atomic(int) pending; /* operations that need progress from elsewhere ... */
    _Atomic(int) serves;  /* ... and the number of these that never end, as they serve other processes */
    _Atomic(int) leading;
    _Atomic(int) exists, stop;
    _Atomic(int) allowed;   /* by the program: 1 yes, -1 no; 0: the knob decides */
    _Atomic(int) calls;     /* 1 if calls may be due: some were added since the last look, or were still due then */
    _Atomic(int) later;     /* operations that another process finishes */
    atomic_uint moved;      /* number of those that were begun or finished */
    _Atomic(int) overdue;   /* 1 if none was begun or finished between two looks */
    _Atomic(int) ticking;   /* 1 if the thread looks by the clock */
    _Atomic(int) polls;     /* 1 if the program polls for what it leaves */
    _Atomic(int) polled;    /* 1 if it polled while the thread led */
    _Atomic(int) away;      /* polls in a row until the program no longer counts as one that sleeps outside the library */
    atomic_uint go;         /* futex; changes when the thread may be needed */
    _Atomic(int) tid;       /* of the kernel; 0: the thread does not run yet */
    _Atomic(int) avoids;    /* processor that the thread must not use, + 1; 0: none */
    _Atomic(int) announced; /* enum announced */
    _Atomic(int) warned;    /* 1 after the warning that the thread cannot be made; that is tried again and again */
} progress;
static bool alive; /* owned by the thread: user-level threads have come and gone since its last look */

/* ---- The announcement of its sleep -------------------------------------------------------------------------------- */

/* A waking thread changes NOT_ANNOUNCED to ANNOUNCING to ANNOUNCED; the progress thread changes that to IN_USE, and to
 * NOT_ANNOUNCED when it is not needed any more.  In between it sleeps without a barrier of its own, any number of times. */
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

/* True if calls wait to be run.  Each look takes locks, so they are looked at only when there may be some. */
static bool calls_wait(void)
{
    madi_source_t *source;
    if (!atomic_load(&progress.calls))
        return false;
    atomic_store(&progress.calls, 0); /* before the look: a thread that adds calls after it sets this again */
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

/* Sleep while nothing needs the thread: until a wake-up, or until the next look by the clock. */
static void thread_sleep(unsigned seen)
{
    static int looks_left;
    static unsigned moved; /* at the last look */
    unsigned now = atomic_load(&progress.moved);
    int64_t deadline = madi_now() + MADI_TICK_NS;
    atomic_store(&progress.overdue, 0);
    alive = false;
    looks_left = atomic_load(&progress.later) || now != moved ? MADI_TICKS : looks_left - 1;
    moved = now;
    atomic_store(&progress.ticking, looks_left > 0);
    if (looks_left <= 0 && !atomic_load(&progress.later)) { /* a thread that begins one looks at ticking afterwards ... */
        looks_left = 0;
        /* ... as does a thread that has left one since, without a kick */
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
        alive = alive && seen == before; /* else it was woken */
        if (atomic_exchange(&progress.polled, 0))
            alive = true;
        if (atomic_load(&progress.stop)) /* after the read of go, which changes after stop */
            break;
        if (!thread_is_needed()) {
            sleep_retract();
            thread_sleep(seen);
            continue;
        }
        atomic_store(&progress.leading, 1);
        madi_count(&madi_server.thread_terms);
        if (!atomic_load(&marceli_progress_left_at))
            atomic_store(&marceli_progress_left_at, madi_now()); /* a program that polls has to do so */
        madi_progress_thread_lead(&progress.waiter, thread_not_needed, thread_yields(),
                                  sleep_is_announced()); /* unless another one still leads */
        atomic_store(&progress.leading, 0);              /* before any sleep on go: as long as it is 1 nobody calls */
    }
    sleep_retract();
    return arg;
}

/* Choose the processors of the thread: all that the process had at the start, even if the calling thread has bound itself
 * since.  The processor of the calling thread, which is about to compute, is left out.  The kernel would wake the thread
 * there when all others are in use, even if only by a peer that waits for it.  Return that processor + 1; 0 if none. */
static int thread_processors(cpu_set_t *set)
{
    int cpu = sched_getcpu();
    *set = madi_server.cpus;
    if (cpu < 0 || !CPU_ISSET(cpu, set) || CPU_COUNT(set) < 2)
        return 0;
    CPU_CLR(cpu, set);
    return cpu + 1;
}

/* Leave out the processor of the calling thread, if that has moved.  If the kernel refuses, the thread stays there. */
static void thread_change_processor(void)
{
    cpu_set_t set;
    int tid = atomic_load(&progress.tid), avoids;
    if (MADI_LIKELY(sched_getcpu() + 1 == atomic_load(&progress.avoids)) || !tid)
        return;
    avoids = thread_processors(&set);
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
    atomic_store(&progress.avoids, thread_processors(&set));
    if (CPU_COUNT(&set))
        pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    error = madi_helper_make(&progress.thread, &attr, "mad-progress", progress_thread_main, NULL);
    if (error && CPU_COUNT(&set)) { /* these are not available: the thread gets the processors of its creator */
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

/* Wake the thread, and make it if need be.  leads: it will lead, as far as is known here. */
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
    /* Two threads may count as one: a lost increment does no harm. */
    atomic_store_explicit(&progress.moved, moved + 1, memory_order_relaxed);
}

void marceli_progress_kick_later(void)
{
    if (!atomic_load(&progress.ticking) && atomic_load(&progress.later) > 0)
        thread_request(false);
}

void marceli_progress_has_calls(void)
{
    /* A fence as well: either the thread sees these calls, or this one sees that a thread leads or is inside. */
    atomic_store(&progress.calls, 1);
    if (atomic_load(&progress.exists) && !atomic_load(&progress.leading) && !atomic_load(&madi_server.inside) &&
        !(atomic_load(&progress.polls) && atomic_load(&progress.ticking)))
        thread_request(false);
}

/* True if the thread will look by its clock soon; it then goes on doing so. */
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

/* True if the caller's worker has other threads, one of which is likely to be back soon. */
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
    atomic_store(&progress.polled, 0); /* the last poll was no sign of others to come */
    thread_kick(false);
}

void marceli_progress_polled(void)
{
    int64_t left;
    bool all;
    if (atomic_load(&progress.away) > 0 && atomic_fetch_sub(&progress.away, 1) > 1)
        return; /* the program looks once more, and sleeps again */
    left = atomic_exchange(&marceli_progress_left_at, 0);
    /* Else the program polls one of several sources, or relies on the thread. */
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
        marceli_waiter_wake(&progress.waiter); /* the thread makes room */
    return waiting;
}

void madi_progress_leave(bool returns)
{
    atomic_fetch_sub(&madi_server.inside, 1);
    /* The progress thread makes room, and would lead again before the next thread waits. */
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

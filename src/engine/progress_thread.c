/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread: operations go on while the application computes.
 *
 * The thread exists from the first operation on that needs it (a request of several packets, a handler), and sleeps: on
 * a futex while nothing is pending or while a thread of the application waits in the library, and so makes progress
 * itself; else in epoll, as the leader, with everything armed.  A program that only waits never pays for it.
 *
 * Why no wake-up is lost: a caller that makes an operation pending counts it, then looks whether the thread leads.  The
 * thread says that it leads, then looks at the count, and again after it has stopped.  All of that is sequentially
 * consistent.  Callbacks that are to be run are seen in that way, too: the last operation may be done and its callback
 * not.
 *
 * Operations that another process finishes, as a rule, are counted apart (later).  Waking the thread for them would
 * take longer than they take, and the core from a thread that works.  While there are any, and a while after, the
 * thread looks by the clock: if some are left, and none was begun or finished since the last look, it is needed after
 * all.
 *
 * User-level threads come and go: where one that leaves an operation pending has others beside it, its worker will be back
 * in a moment, as a rule.  On crowded cores the thread is not called for that as long as it looks by the clock; it does so
 * while there is such coming and going, and leads when there was none between two looks.  To be called for each message, and
 * to make room again, took longer than the message.
 *
 * A program that polls (mad_progress), as MPI libraries do, is not inside, but comes back at once all the same.  That is not
 * said: it is likely to be as it was the last time.  Then the thread is not called for what it leaves, as long as it looks by
 * the clock; and the first poll makes the thread step back, for peers ring for a leader that sleeps.  Eight ranks that
 * exchanged 64 KiB took ten times as long as without the thread.
 *
 * While it only serves others (handlers, forwarding), what has come is followed by more, as a rule: then it yields for a while
 * before it sleeps again.  Beside requests it does not, for they are there because the program computes, and on the other
 * processor may be the peer that sends what they wait for.
 *
 * A leader's barrier (madi_lead_sleep) interrupts the threads that compute, and takes 10 to 20 us on a virtual machine,
 * as does each call of one processor to another.  So the caller that wakes the thread says in its place that it may
 * sleep, and executes the barrier while the thread does not run; that holds as long as it is needed. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "engine/follower.h"
#include "engine/helper.h"
#include "engine/wait_policy.h"
#include "marcel/party.h"
#include "marcel/sched.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

_Thread_local bool madi_is_progress_thread;
_Atomic(int64_t) marceli_async_left;

static struct async {
    pthread_t thread;
    marceli_waiter_t waiter;
    _Atomic(int) pending; /* operations that need progress from elsewhere ... */
    _Atomic(int) serves;  /* ... and of these the ones that never end: it is there for others */
    _Atomic(int) leading;
    _Atomic(int) exists, stop;
    _Atomic(int) allowed; /* by the program: 1, -1 not; 0: as the knob says */
    _Atomic(int) calls;   /* some were added since it was looked at the last time, or were still waiting then */
    _Atomic(int) later;   /* operations that somebody else finishes */
    atomic_uint moved;    /* how many were begun or finished */
    _Atomic(int) overdue; /* that did not happen for long */
    _Atomic(int) ticking; /* it looks by the clock */
    _Atomic(int) polls;   /* the program polls for what it leaves */
    _Atomic(int) polled;  /* it did so while the thread led */
    _Atomic(int) away;    /* the program sleeps elsewhere; that number of polls in a row means that it does not any more */
    atomic_uint go; /* futex; changes when there may be something to do */
    _Atomic(int) tid;    /* of the kernel; 0: it does not run yet */
    _Atomic(int) avoids; /* a processor, + 1; 0: none */
    _Atomic(int) said;   /* enum said */
    _Atomic(int) warned; /* that it cannot be made; it is tried again and again */
} async;
static bool alive; /* of the thread: others have come and gone since its last look */

/* ---- That it may sleep is said by its caller -------------------------------------------------------------------------- */

/* UNSAID to SAYING to SAID by a caller, SAID to USED to UNSAID by the thread, when it is not needed any more: in between it
 * sleeps without a barrier of its own, as often as it likes. */
enum said { UNSAID, SAYING, SAID, USED };

static void say(void)
{
    int unsaid = UNSAID;
    if (!atomic_compare_exchange_strong(&async.said, &unsaid, SAYING))
        return;
    atomic_fetch_or(&marceli_leader_sleeps, MADI_SLEEPS_THREAD);
    marceli_barrier(); /* pairs with marceli_leader_wake */
    atomic_store(&async.said, SAID);
}

static bool is_said(void)
{
    int said = SAID;
    return atomic_compare_exchange_strong(&async.said, &said, USED) || said == USED;
}

static void unsay(void)
{
    if (!is_said())
        return;
    atomic_fetch_and(&marceli_leader_sleeps, ~MADI_SLEEPS_THREAD);
    atomic_store(&async.said, UNSAID);
}

/* ---- The thread ------------------------------------------------------------------------------------------------------- */

/* True if calls wait to be run.  Each look takes locks, so they are looked at only when there may be some. */
static bool calls_wait(void)
{
    madi_source_t *source;
    if (!atomic_load(&async.calls))
        return false;
    atomic_store(&async.calls, 0); /* before the look: a caller that adds some after it says so again */
    source = madi_server_calls();
    if (!source)
        return false;
    madi_server_calls_no(source);
    atomic_store(&async.calls, 1);
    return true;
}

static bool needed(void)
{
    return !atomic_load(&madi_server.inside) && !atomic_load(&async.stop) && !atomic_load(&async.polled) &&
           ((atomic_load(&async.pending) > 0 && !alive) || (atomic_load(&async.overdue) && atomic_load(&async.later) > 0) ||
            calls_wait());
}

static bool not_needed(void *arg)
{
    (void)arg;
    return !needed();
}

static bool yields(void)
{
    int serves = atomic_load(&async.serves);
    return madi_thread_yields(serves, atomic_load(&async.pending));
}

/* Nothing needs it now. */
static void rest(unsigned seen)
{
    static int looks_left;
    static unsigned moved; /* at the last look */
    unsigned now = atomic_load(&async.moved);
    int64_t deadline = madi_now() + MADI_TICK_NS;
    atomic_store(&async.overdue, 0);
    alive = false;
    looks_left = atomic_load(&async.later) || now != moved ? MADI_TICKS : looks_left - 1;
    moved = now;
    atomic_store(&async.ticking, looks_left > 0);
    if (looks_left <= 0 && !atomic_load(&async.later)) { /* a caller that begins one looks at ticking afterwards ... */
        looks_left = 0;
        if (!needed() && !atomic_load(&async.polled)) /* ... as does one that has left one since, and did not kick */
            madi_futex_wait(&async.go, seen, MADI_NEVER);
        return;
    }
    madi_futex_wait(&async.go, seen, deadline);
    if (madi_now() < deadline)
        return;
    madi_count(&madi_server.ticks);
    now = atomic_load(&async.moved);
    atomic_store(&async.overdue, now == moved && atomic_load(&async.later));
    alive = now != moved;
}

static void *run(void *arg)
{
    unsigned seen = atomic_load(&async.go), before;
    madi_is_progress_thread = true;
    atomic_store(&async.tid, gettid());
    for (;;) {
        before = seen;
        seen = atomic_load(&async.go);
        alive = alive && seen == before; /* else it was called */
        if (atomic_exchange(&async.polled, 0))
            alive = true;
        if (atomic_load(&async.stop)) /* go was read before: it changes after */
            break;
        if (!needed()) {
            unsay();
            rest(seen);
            continue;
        }
        atomic_store(&async.leading, 1);
        madi_count(&madi_server.thread_terms);
        if (!atomic_load(&marceli_async_left))
            atomic_store(&marceli_async_left, madi_now()); /* a program that polls has to say so */
        madi_lead_beside(&async.waiter, not_needed, yields(), is_said()); /* unless another one still leads */
        atomic_store(&async.leading, 0); /* before any sleep on go: as long as it is 1 nobody calls */
    }
    unsay();
    return arg;
}

/* Choose the processors of the thread: all that the process had at the start, though its caller may have bound itself
 * to one by now, but not that of its caller, which is about to compute.  There the kernel would wake it when all others
 * are in use, even if only by a peer that waits for it.  Returns that processor + 1, or 0. */
static int processors(cpu_set_t *set)
{
    int cpu = sched_getcpu();
    *set = madi_server.cpus;
    if (cpu < 0 || !CPU_ISSET(cpu, set) || CPU_COUNT(set) < 2)
        return 0;
    CPU_CLR(cpu, set);
    return cpu + 1;
}

/* Its caller has moved.  If the kernel refuses, it stays where it is. */
static void make_room(void)
{
    cpu_set_t set;
    int tid = atomic_load(&async.tid), avoids;
    if (MADI_LIKELY(sched_getcpu() + 1 == atomic_load(&async.avoids)) || !tid)
        return;
    avoids = processors(&set);
    atomic_store(&async.avoids, avoids);
    if (avoids)
        sched_setaffinity(tid, sizeof set, &set);
}

void marceli_async_aside(void)
{
    if (atomic_load(&async.leading) && !madi_is_progress_thread)
        make_room();
}

static bool start(void)
{
    pthread_attr_t attr;
    cpu_set_t set;
    int error;
    if (atomic_exchange(&async.exists, 1)) {
        make_room();
        return true;
    }
    pthread_attr_init(&attr);
    atomic_store(&async.avoids, processors(&set));
    if (CPU_COUNT(&set))
        pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    error = madi_helper_make(&async.thread, &attr, "mad-progress", run, NULL);
    if (error && CPU_COUNT(&set)) { /* they were taken away, or none may be asked for: it stays with its caller */
        atomic_store(&async.avoids, 0);
        error = madi_helper_make(&async.thread, NULL, "mad-progress", run, NULL);
    }
    pthread_attr_destroy(&attr);
    if (!error)
        return true;
    if (!atomic_exchange(&async.warned, 1))
        madi_log(MADI_LOG_WARN, "marcel", "no progress thread: %s; operations go on when the program calls the library",
                 strerror(error));
    atomic_store(&async.exists, 0);
    return false;
}

/* leads: it will lead, as far as the caller knows. */
static void call(bool leads)
{
    if (!marceli_async_allowed() || !start())
        return;
    if (leads)
        say();
    atomic_fetch_add(&async.go, 1);
    madi_futex_wake(&async.go);
}

bool marceli_async_allowed(void)
{
    int allowed = atomic_load_explicit(&async.allowed, memory_order_relaxed);
    return allowed ? allowed > 0 : madi_knob_int(MADI_KNOB_PROGRESS_THREAD);
}

bool marceli_async_counted_on(void)
{
    return atomic_load_explicit(&async.allowed, memory_order_relaxed) > 0;
}

void marceli_async_allow(bool allowed)
{
    atomic_store_explicit(&async.allowed, allowed ? 1 : -1, memory_order_relaxed);
}

void marceli_async_count(int n)
{
    atomic_fetch_add(&async.pending, n);
}

void marceli_async_count_serving(int n)
{
    atomic_fetch_add(&async.serves, n);
    atomic_fetch_add(&async.pending, n);
}

void marceli_async_count_later(int n)
{
    atomic_fetch_add(&async.moved, 1);
    atomic_fetch_add(&async.later, n);
}

void marceli_async_moves(void)
{
    unsigned moved = atomic_load_explicit(&async.moved, memory_order_relaxed);
    atomic_store_explicit(&async.moved, moved + 1, memory_order_relaxed); /* one that is lost to another thread's is no harm */
}

void marceli_async_kick_later(void)
{
    if (!atomic_load(&async.ticking) && atomic_load(&async.later) > 0)
        call(false);
}

void marceli_async_has_calls(void)
{
    atomic_store(&async.calls, 1); /* and a fence: what was added is seen, or that the thread leads, or somebody inside */
    if (atomic_load(&async.exists) && !atomic_load(&async.leading) && !atomic_load(&madi_server.inside) &&
        !(atomic_load(&async.polls) && atomic_load(&async.ticking)))
        call(false);
}

/* The thread will come by itself, and goes on looking. */
static bool comes_soon(void)
{
    marceli_async_moves();
    return atomic_load(&async.ticking);
}

/* returns: somebody will call the library again in a moment, as far as can be seen. */
static void kick(bool returns)
{
    if (!atomic_load(&madi_server.inside) && !atomic_load(&async.leading) &&
        (atomic_load(&async.pending) > 0 || calls_wait()) && !(returns && comes_soon()))
        call(true);
}

/* The caller's worker has others, one of which will be back soon. */
static bool others_return(void)
{
    madi_ult_t *self = madi_ult_self();
    return self && (madi_has_others(self->worker) || self->worker->waiting) && madi_patient();
}

void marceli_async_kick(void)
{
    kick(others_return());
}

void marceli_async_kick_left(void)
{
    atomic_store_explicit(&marceli_async_left, madi_now(), memory_order_relaxed);
    kick((atomic_load_explicit(&async.polls, memory_order_relaxed) && !marceli_async_counted_on()) || others_return());
}

void marceli_async_hand_over(void)
{
    atomic_store(&async.away, MADI_POLLS_BACK);
    atomic_store(&async.polled, 0); /* the last poll was no sign of others to come */
    kick(false);
}

void marceli_async_polled(void)
{
    int64_t left;
    bool all;
    if (atomic_load(&async.away) > 0 && atomic_fetch_sub(&async.away, 1) > 1)
        return; /* it looks once more, and sleeps again */
    left = atomic_exchange(&marceli_async_left, 0);
    /* Else it polls one of several, or has asked for the thread. */
    all = atomic_load_explicit(&madi_server.n_sources, memory_order_relaxed) == 1 && !marceli_async_counted_on();
    if (!left)
        return;
    atomic_store_explicit(&async.polls, all && madi_now() - left < MADI_POLL_SOON_NS, memory_order_relaxed);
    if (!all)
        return;
    marceli_async_moves();
    if (!atomic_load(&async.leading))
        return;
    atomic_store(&async.polled, 1);
    marceli_waiter_wake(&async.waiter);
}

int madi_async_enter(void)
{
    int waiting = atomic_fetch_add(&madi_server.inside, 1) + 1;
    if (atomic_load(&async.leading))
        marceli_waiter_wake(&async.waiter); /* it makes room */
    return waiting;
}

void madi_async_leave(bool returns)
{
    atomic_fetch_sub(&madi_server.inside, 1);
    if (returns && atomic_load(&async.leading)) /* it makes room, and would lead again before the next one comes */
        atomic_store(&async.polled, 1);
    kick(returns);
}

bool madi_async_exists(void)
{
    return atomic_load(&async.exists);
}

void madi_async_forked(void)
{
    int allowed = async.allowed;
    memset((void *)&async, 0, sizeof async);
    async.allowed = allowed;
    marceli_async_left = 0;
    alive = false;
}

void madi_async_stop(void)
{
    if (!atomic_load(&async.exists))
        return;
    atomic_store(&async.stop, 1);
    marceli_waiter_wake(&async.waiter);
    atomic_fetch_add(&async.go, 1);
    madi_futex_wake(&async.go);
    pthread_join(async.thread, NULL);
    atomic_store(&async.tid, 0);
    atomic_store(&async.stop, 0);
    atomic_store(&async.exists, 0);
}

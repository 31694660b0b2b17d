/* SPDX-License-Identifier: BSD-3-Clause */
/* The course of a wait: which thread leads, how long it spins and yields, when it sleeps.  follower.c has the sleep
 * behind a leader. */
#include "base/clock.h"
#include "engine/follower.h"
#include "engine/park.h"
#include "engine/wait_policy.h"
#include "marcel/sched.h"

#include <marcel.h>
#include <sched.h>
#include <sys/resource.h>

/* ---- The lead ------------------------------------------------------------------------------------------------- */

bool madi_lead_take(int led_by)
{
    int nobody = MADI_LED_BY_NOBODY;
    if (!madi_server_is_open() || atomic_load_explicit(&madi_server.leader, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&madi_server.leader, &nobody, led_by, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    madi_count(&madi_server.terms);
    return true;
}

bool marceli_is_led(void)
{
    return atomic_load_explicit(&madi_server.leader, memory_order_relaxed) == MADI_LED_BY_WAITER;
}

void madi_lead_drop(void)
{
    atomic_store_explicit(&madi_server.leader, MADI_LED_BY_NOBODY, memory_order_seq_cst);
    madi_leader_wanted();
}

/* ---- A wait --------------------------------------------------------------------------------------------------- */

static void lead_claim_drop(madi_waiting_t *w)
{
    if (w->claims)
        atomic_fetch_sub_explicit(&madi_server.claimants, 1, memory_order_seq_cst);
    w->claims = false;
}

static void lead_claim(madi_waiting_t *w)
{
    if (w->claims)
        return;
    atomic_fetch_add_explicit(&madi_server.claimants, 1, memory_order_seq_cst);
    w->claims = true;
    marceli_leader_wake();
}

static void lead_or_claim(madi_waiting_t *w)
{
    if (w->defers && madi_leader_may_return())
        return;
    if (!madi_waits_itself(w)) {
        w->for_others = madi_other_may_lead();
        w->leads = w->for_others && madi_lead_take(MADI_LED_BY_OTHER);
        return;
    }
    w->for_others = false;
    w->leads = madi_lead_take(MADI_LED_BY_WAITER);
    if (!w->leads && MADI_UNLIKELY(madi_led_by() == MADI_LED_BY_OTHER))
        lead_claim(w);
    else
        lead_claim_drop(w);
}

/* True if this thread leads for other workers and is no longer needed, or if another thread claims the lead. */
static bool leader_is_replaceable(const madi_waiting_t *w)
{
    return w->for_others && (atomic_load_explicit(&madi_server.claimants, memory_order_seq_cst) ||
                             !atomic_load_explicit(&madi_server.blocked, memory_order_relaxed));
}

static void lead_resign(madi_waiting_t *w)
{
    if (w->leads)
        madi_lead_drop();
    else
        madi_leader_wanted(); /* this thread may have been woken to lead, so it passes the lead on */
    w->leads = false;
}

/* Give up all roles of a wait that has ended. */
static void wait_finish(madi_waiting_t *w)
{
    lead_claim_drop(w); /* this call and the next one come before the check whether another thread must lead */
    madi_deputy_resign(w);
    lead_resign(w);
}

bool marceli_others_ready(void)
{
    madi_ult_t *self = madi_ult_self();
    return self && madi_has_others(self->worker);
}

void marceli_yield_to_others(void)
{
    madi_ult_t *self = madi_ult_self();
    if (self && madi_has_others(self->worker))
        madi_yield(self->worker);
}

/* Run calls in a user-level thread of their own.  The calls were found on a worker's own stack, where handlers cannot
 * block. */
static void *calls_main(void *arg)
{
    madi_source_t *source = arg;
    atomic_store_explicit(&source->apart, false, memory_order_seq_cst); /* cleared before the thread looks for calls */
    madi_server_calls_run(source);
    return NULL;
}

static void calls_run_on_new_thread(madi_source_t *source)
{
    marcel_attr_t attr;
    marcel_t thread;
    if (atomic_exchange_explicit(&source->apart, true, memory_order_seq_cst)) {
        madi_server_calls_release(source); /* the thread created earlier will also see these calls */
        return;
    }
    marcel_attr_init(&attr);
    marcel_attr_setdetachstate(&attr, MARCEL_CREATE_DETACHED);
    if (marcel_create(&thread, &attr, calls_main, source))
        calls_main(source); /* no memory for a thread: run the calls here, as far as they do not block */
    marcel_attr_destroy(&attr);
}

/* Run calls on a thread of the program.  Calls may take long: meanwhile another thread leads, and an event for this
 * waiter's list wakes another waiter of that list.  If an event has already woken this thread, it returns to its caller,
 * and the next leader or the progress thread runs the calls. */
static void calls_run_here(madi_waiting_t *w, madi_source_t *source)
{
    marceli_waiter_occupied(w->waiter);
    if (w->test(w->arg))
        madi_server_calls_release(source);
    else
        madi_server_calls_run(source);
}

static void wait_run_calls(madi_waiting_t *w, madi_source_t *source)
{
    if (MADI_LIKELY(!source))
        return;
    lead_resign(w);
    if (w->worker)
        calls_run_on_new_thread(source);
    else if (w->runs)
        madi_server_calls_run(source);
    else
        calls_run_here(w, source);
}

/* Make a leading worker defer after it has found an event for another kernel thread.  The other thread will wait again, and
 * should then lead, so that the next event wakes one thread instead of two. */
static void leader_defer(madi_waiting_t *w)
{
    if (MADI_LIKELY(!madi_woke_other) || !w->worker || !w->leads || !madi_leader_may_return())
        return;
    w->defers = true;
    madi_deputy_become(w);
    lead_resign(w);
}

/* Poll once; in every MADI_DEEP_EVERY-th spin also where a poll costs a system call.  Return true if there was an event. */
static bool wait_poll(madi_waiting_t *w, uint32_t spins)
{
    madi_source_t *calls;
    int n;
    madi_woke_other = false;
    n = madi_server_poll(madi_spin_looks_deep(spins), &calls);
    leader_defer(w);
    wait_run_calls(w, calls);
    return n > 0;
}

/* ns: until then the waits of this kernel thread do not spin, because another thread has used its core while a worker spun.
 * Spinning gains nothing there: the awaited thread probably shares its core too, and both lose time when they have work.
 * (All threads of a worker wait in one kernel thread.  The worker would spin where the same number of plain threads, without
 * a core each, would sleep.) */
static MADI_THREAD_LOCAL int64_t spins_not_until;

/* Yield and poll as long as yielding is cheap.  Return false if it is time to sleep. */
static bool wait_yield(madi_waiting_t *w)
{
    static MADI_THREAD_LOCAL int64_t banned_until;
    int64_t before = madi_now(), until = before + w->yield_ns, after;
    if (before < banned_until || before < spins_not_until)
        return false;
    do {
        sched_yield();
        if (w->test(w->arg) || wait_poll(w, 0) || !w->leads || leader_is_replaceable(w))
            return true;
        after = madi_now();
        if (madi_yield_was_slow(before, after, MADI_YIELD_SLOW_NS, &banned_until))
            return false;
        before = after;
    } while (after < until);
    return after >= w->deadline;
}

/* Yield between the spins of a plain pthread.  *spun_from: time of its last yield in ns; 0 if unknown.
 *
 * The progress thread of a peer may have been woken on this processor, and the kernel lets a spinning thread run on for
 * milliseconds.  A spin may last as long as the transfer of a big message; a peer that takes longer is computing. */
static void spin_yield(const madi_waiting_t *w, int64_t *spun_from, int64_t now)
{
    static MADI_THREAD_LOCAL int64_t banned_until;
    if (!*spun_from)
        *spun_from = now;
    if (now - *spun_from < MADI_YIELD_EVERY_NS || now < banned_until || w->worker || w->waiter->ult ||
        madi_server.spin_ns >= 0)
        return;
    sched_yield();
    *spun_from = madi_now();
    madi_yield_was_slow(now, *spun_from, MADI_YIELD_LONG_NS, &banned_until);
}

static MADI_COLD bool spin_was_cut(int64_t before, int64_t now)
{
    static MADI_THREAD_LOCAL long seen;
    struct rusage usage;
    /* If there was no involuntary context switch, either the poll itself was slow, or the hypervisor took the processor. */
    if (getrusage(RUSAGE_THREAD, &usage) || usage.ru_nivcsw == seen)
        return false;
    seen = usage.ru_nivcsw;
    spins_not_until = madi_ban_until(before, now);
    return true;
}

/* Spin.  Return true if the test holds or the deadline has passed; false if it is time to yield, to sleep, or to run
 * another thread. */
static bool wait_spin(madi_waiting_t *w)
{
    int64_t begun = 0, spun_from = 0, last = 0, now;
    madi_ult_t *ult = w->waiter->ult;
    for (uint32_t spins = 1;; spins++) {
        bool polls = w->leads || !marceli_is_led();
        if (w->test(w->arg))
            return true;
        /* this flag is reset, because an event found in memory does not show the cost of the next polls */
        madi_polls_are_dear = false;
        if (polls && wait_poll(w, spins))
            begun = 0;
        if (ult && madi_has_others(ult->worker))
            return false;
        if (!madi_spin_reads_clock(spins, madi_polls_are_dear)) {
            madi_relax();
            continue;
        }
        now = madi_now();
        if (MADI_UNLIKELY(last && now - last > MADI_SPIN_CUT_NS) && (w->worker || ult) && spin_was_cut(last, now))
            w->spin_ns = 0;
        last = now;
        if (!begun)
            begun = now;
        if (now >= w->deadline)
            return true;
        if (ult && madi_timer_passed(&ult->worker->timers, now))
            return false;
        if (!w->leads)
            lead_or_claim(w);
        else if (MADI_UNLIKELY(leader_is_replaceable(w)))
            lead_resign(w);
        if (now - begun >= w->spin_ns)
            return false;
        spin_yield(w, &spun_from, now);
    }
}

static bool leader_test(void *arg)
{
    madi_waiting_t *w = arg;
    return leader_is_replaceable(w) || w->test(w->arg);
}

/* Sleep once in epoll, and run the calls that are due.  announced: see madi_leader_sleep. */
static void leader_sleep(madi_waiting_t *w, bool announced)
{
    if (w->worker)
        madi_worker_sleeps(w->worker, false);
    madi_woke_other = false;
    madi_leader_sleep(w->waiter, leader_test, w, w->deadline, announced);
    if (w->worker)
        madi_worker_awake(w->worker);
    leader_defer(w);
    wait_run_calls(w, madi_server_calls());
}

/* Wait on a kernel thread: either lead, or sleep behind a leader. */
static void wait_on_kernel_thread(madi_waiting_t *w)
{
    lead_or_claim(w);
    while (!wait_spin(w)) {
        if (w->leads) {
            if (!wait_yield(w))
                leader_sleep(w, false);
        } else if (madi_may_follow(w) && madi_led_by() != MADI_LED_BY_THREAD) {
            lead_claim_drop(w);
            madi_follow(w);
        } else {
            sched_yield(); /* the leader makes room */
        }
    }
    wait_finish(w);
}

static void wait_begin(madi_waiting_t *w)
{
    w->spin_ns = madi_spin_ns(madi_server_processes(), madi_progress_enter());
    if (w->spin_ns && madi_server.spin_ns < 0 && (w->worker || w->waiter->ult) && madi_now() < spins_not_until)
        w->spin_ns = 0;
    if (w->spin_ns && madi_server.spin_ns < 0 && w->waiter->expected > w->spin_ns)
        w->spin_ns = w->waiter->expected;
    w->yield_ns = madi_yield_ns(w->spin_ns);
}

void madi_progress_thread_lead(marceli_waiter_t *waiter, bool (*test)(void *arg), bool yields, bool announced)
{
    madi_waiting_t w = {.waiter = waiter, .test = test, .deadline = INT64_MAX, .runs = true};
    w.leads = madi_lead_take(MADI_LED_BY_THREAD);
    if (!w.leads)
        return;
    w.yield_ns = yields ? madi_yield_ns(0) : 0;
    /* The thread does not sleep as long as there is something to do, nor after it has run calls, for which it dropped the
     * lead. */
    if (!(w.yield_ns ? wait_yield(&w) : wait_poll(&w, 1)) && w.leads)
        leader_sleep(&w, announced);
    if (w.leads)
        madi_lead_drop();
}

/* Block the user-level thread, and leave the worker to its scheduler. */
static void wait_park(madi_waiting_t *w)
{
    madi_worker_t *worker = w->waiter->ult->worker;
    /* stays is false if the thread may continue on another worker */
    bool stays = !w->waiter->ult->moves;
    atomic_fetch_add_explicit(&madi_server.blocked, 1, memory_order_seq_cst); /* madi_park counts it out */
    if (madi_has_others(worker)) /* for threads that become ready later, the scheduler makes this call */
        madi_leader_wanted_elsewhere(worker);
    madi_clock_looks_begin(worker);
    if (stays)
        worker->waiting++;
    madi_park(w->waiter, w->deadline);
    if (stays)
        worker->waiting--;
}

/* True if other threads of the worker are likely to call the library soon.  done: the calling thread's wait has ended. */
static bool worker_others_return(madi_worker_t *worker, bool done)
{
    return (!done || madi_has_others(worker) || worker->waiting) && madi_leader_may_return();
}

/* Wait in a user-level thread.  Spin and poll as long as no other thread needs the worker.  Then leave the worker to its
 * scheduler, which polls for all its threads.  Do not spin if the spin time is 0. */
static void wait_switching(madi_waiting_t *w)
{
    bool done;
    for (;;) {
        if (madi_has_others(w->waiter->ult->worker) || !madi_spin_ns(madi_server_processes(), 1)) {
            done = w->test(w->arg);
        } else {
            wait_begin(w);
            lead_or_claim(w);
            done = wait_spin(w);
            wait_finish(w);
            madi_progress_leave(worker_others_return(w->waiter->ult->worker, done));
        }
        if (done || madi_now() >= w->deadline)
            return;
        wait_park(w);
    }
}

bool marceli_wait(marceli_waiter_t *waiter, bool (*test)(void *arg), void *arg, int64_t deadline)
{
    madi_waiting_t w = {.waiter = waiter, .test = test, .arg = arg, .deadline = deadline};
    if (test(arg))
        return true;
    if (waiter->ult) {
        wait_switching(&w);
    } else {
        wait_begin(&w);
        wait_on_kernel_thread(&w);
        madi_progress_leave(waiter->returns);
    }
    return test(arg);
}

/* ---- Schedulers ----------------------------------------------------------------------------------------------- */

void madi_worker_idle_wait(madi_worker_t *worker, bool (*test)(void *arg), void *arg, int64_t deadline)
{
    madi_waiting_t w = {.waiter = &worker->waiter, .test = test, .arg = arg, .deadline = deadline, .worker = worker};
    wait_begin(&w);
    wait_on_kernel_thread(&w);
    /* `waiting` still counts the thread that was woken */
    madi_progress_leave(worker->waiting > 1 && madi_leader_may_return());
}

/* Polls that find nothing become less and less frequent. */
void madi_server_tick(madi_worker_t *worker, int64_t now)
{
    madi_source_t *calls;
    int n;
    if (now < worker->look_at || atomic_load_explicit(&madi_server.leader, memory_order_relaxed))
        return;
    n = madi_server_poll(true, &calls);
    if (calls)
        calls_run_on_new_thread(calls);
    worker->look_every = madi_look_every(worker->look_every, n);
    worker->look_at = now + worker->look_every;
}

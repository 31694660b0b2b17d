/* SPDX-License-Identifier: BSD-3-Clause */
/* The course of a wait: which thread leads, and its spinning, yielding and sleep, by the decisions of wait_policy.h.  What
 * happens behind a leader: follower.c. */
#include "base/clock.h"
#include "engine/follower.h"
#include "engine/park.h"
#include "engine/wait_policy.h"
#include "marcel/sched.h"

#include <marcel.h>
#include <sched.h>
#include <sys/resource.h>

/* ---- The lead ------------------------------------------------------------------------------------------------- */

bool madi_lead(int who)
{
    int nobody = MADI_LED_BY_NOBODY;
    if (!madi_can_lead() || atomic_load_explicit(&madi_server.leader, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&madi_server.leader, &nobody, who, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    madi_count(&madi_server.terms);
    return true;
}

bool marceli_is_led(void)
{
    return atomic_load_explicit(&madi_server.leader, memory_order_relaxed) == MADI_LED_BY_WAITER;
}

void madi_lead_no_more(void)
{
    atomic_store_explicit(&madi_server.leader, MADI_LED_BY_NOBODY, memory_order_seq_cst);
    madi_leader_wanted();
}

/* ---- A wait --------------------------------------------------------------------------------------------------- */

static void ask_no_more(madi_waiting_t *w)
{
    if (w->asks)
        atomic_fetch_sub_explicit(&madi_server.askers, 1, memory_order_seq_cst);
    w->asks = false;
}

static void ask(madi_waiting_t *w)
{
    if (w->asks)
        return;
    atomic_fetch_add_explicit(&madi_server.askers, 1, memory_order_seq_cst);
    w->asks = true;
    marceli_leader_wake();
}

static void lead(madi_waiting_t *w)
{
    if (w->defers && madi_patient())
        return;
    if (!madi_waits_itself(w)) {
        w->for_others = madi_other_may_lead();
        w->leads = w->for_others && madi_lead(MADI_LED_BY_OTHER);
        return;
    }
    w->for_others = false;
    w->leads = madi_lead(MADI_LED_BY_WAITER);
    if (!w->leads && MADI_UNLIKELY(madi_led_by() == MADI_LED_BY_OTHER))
        ask(w);
    else
        ask_no_more(w);
}

/* True if a leader for others is not needed any more, or another thread wants to lead. */
static bool makes_room(const madi_waiting_t *w)
{
    return w->for_others && (atomic_load_explicit(&madi_server.askers, memory_order_seq_cst) ||
                             !atomic_load_explicit(&madi_server.blocked, memory_order_relaxed));
}

static void leave(madi_waiting_t *w)
{
    if (w->leads)
        madi_lead_no_more();
    else
        madi_leader_wanted(); /* it may have been woken to lead */
    w->leads = false;
}

/* The wait is over. */
static void end(madi_waiting_t *w)
{
    ask_no_more(w); /* these before it looks whether somebody must lead */
    madi_deputy_no_more(w);
    leave(w);
}

bool marceli_others_ready(void)
{
    madi_ult_t *self = madi_ult_self();
    return self && madi_has_others(self->worker);
}

void marceli_give_way(void)
{
    madi_ult_t *self = madi_ult_self();
    if (self && madi_has_others(self->worker))
        madi_yield(self->worker);
}

/* On a worker's own stack handlers cannot block: they run in a thread of their own. */
static void *calls_main(void *arg)
{
    madi_source_t *source = arg;
    atomic_store_explicit(&source->apart, false, memory_order_seq_cst); /* then it looks for calls */
    madi_server_run(source);
    return NULL;
}

static void calls_apart(madi_source_t *source)
{
    marcel_attr_t attr;
    marcel_t thread;
    if (atomic_exchange_explicit(&source->apart, true, memory_order_seq_cst)) {
        madi_server_calls_no(source); /* it will see these as well */
        return;
    }
    marcel_attr_init(&attr);
    marcel_attr_setdetachstate(&attr, MARCEL_CREATE_DETACHED);
    if (marcel_create(&thread, &attr, calls_main, source))
        calls_main(source); /* no memory: as well as can be */
    marcel_attr_destroy(&attr);
}

/* The program's code may take long: another thread leads meanwhile, and what comes wakes another thread that waits for
 * it.  Events that woke this one before are not kept from it: then the next leader, or the progress thread, runs the
 * calls. */
static void run_here(madi_waiting_t *w, madi_source_t *source)
{
    marceli_waiter_occupied(w->waiter);
    if (w->test(w->arg))
        madi_server_calls_no(source);
    else
        madi_server_run(source);
}

static void run_calls(madi_waiting_t *w, madi_source_t *source)
{
    if (MADI_LIKELY(!source))
        return;
    leave(w);
    if (w->worker)
        calls_apart(source);
    else if (w->runs)
        madi_server_run(source);
    else
        run_here(w, source);
}

/* A worker that leads has found something for another kernel thread, which will wait again: then it shall lead, so that what
 * comes next wakes one thread and not two. */
static void step_down(madi_waiting_t *w)
{
    if (MADI_LIKELY(!madi_woke_other) || !w->worker || !w->leads || !madi_patient())
        return;
    w->defers = true;
    madi_deputy_become(w);
    leave(w);
}

/* One look, now and then at what costs a system call too (spins); true: something moved. */
static bool look(madi_waiting_t *w, uint32_t spins)
{
    madi_source_t *calls;
    int n;
    madi_woke_other = false;
    n = madi_server_look(madi_spin_looks_deep(spins), &calls);
    step_down(w);
    run_calls(w, calls);
    return n > 0;
}

/* Others use the core of a worker that spins: what it waits for does not come sooner for that, as the other side shares its
 * core too, and both will be without one when they have something to do.  All threads of a worker wait in one kernel thread,
 * which would spin where as many plain ones, not having a core each, sleep.  Until when it does not: */
static _Thread_local int64_t spins_not_until;

/* Yield, as long as yielding is cheap.  False: it is time to sleep. */
static bool yield_some(madi_waiting_t *w)
{
    static _Thread_local int64_t banned_until;
    int64_t before = madi_now(), until = before + w->yield_ns, after;
    if (before < banned_until || before < spins_not_until)
        return false;
    do {
        sched_yield();
        if (w->test(w->arg) || look(w, 0) || !w->leads || makes_room(w))
            return true;
        after = madi_now();
        if (madi_yield_was_slow(before, after, MADI_YIELD_SLOW_NS, &banned_until))
            return false;
        before = after;
    } while (after < until);
    return after >= w->deadline;
}

/* A plain kernel thread that spins; spun_from: since when, without a yield.  The progress thread of a peer may have
 * been woken on this processor, and the kernel does not interrupt one that spins for it, for milliseconds.  A spin may
 * take as long as a big message does; a peer that takes longer computes. */
static void yield_now_and_then(const madi_waiting_t *w, int64_t *spun_from, int64_t now)
{
    static _Thread_local int64_t banned_until;
    if (!*spun_from)
        *spun_from = now;
    if (now - *spun_from < MADI_YIELD_EVERY_NS || now < banned_until || w->worker || w->waiter->ult || madi_server.spin_ns >= 0)
        return;
    sched_yield();
    *spun_from = madi_now();
    madi_yield_was_slow(now, *spun_from, MADI_YIELD_LONG_NS, &banned_until);
}

static MADI_COLD bool spin_was_cut(int64_t before, int64_t now)
{
    static _Thread_local long seen;
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) || usage.ru_nivcsw == seen) /* polling took so long, or it is the host's host */
        return false;
    seen = usage.ru_nivcsw;
    spins_not_until = madi_ban_until(before, now);
    return true;
}

/* Spin until there is more to do than that; true: the test holds, or the deadline has passed. */
static bool spin(madi_waiting_t *w)
{
    int64_t begun = 0, spun_from = 0, last = 0, now;
    madi_ult_t *ult = w->waiter->ult;
    for (uint32_t spins = 1;; spins++) {
        bool polls = w->leads || !marceli_is_led();
        if (w->test(w->arg))
            return true;
        madi_looks_dear = false; /* one that found something in memory makes those after it no dearer */
        if (polls && look(w, spins))
            begun = 0;
        if (ult && madi_has_others(ult->worker))
            return false;
        if (!madi_spin_reads_clock(spins, madi_looks_dear)) {
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
            lead(w);
        else if (MADI_UNLIKELY(makes_room(w)))
            leave(w);
        if (now - begun >= w->spin_ns)
            return false;
        yield_now_and_then(w, &spun_from, now);
    }
}

static bool leader_test(void *arg)
{
    madi_waiting_t *w = arg;
    return makes_room(w) || w->test(w->arg);
}

/* In epoll; said: see madi_lead_sleep. */
static void lead_asleep(madi_waiting_t *w, bool said)
{
    if (w->worker)
        madi_worker_sleeps(w->worker, false);
    madi_woke_other = false;
    madi_lead_sleep(w->waiter, leader_test, w, w->deadline, said);
    if (w->worker)
        madi_worker_awake(w->worker);
    step_down(w);
    run_calls(w, madi_server_calls());
}

/* A kernel thread: it leads, or sleeps behind a leader. */
static void wait_here(madi_waiting_t *w)
{
    lead(w);
    while (!spin(w)) {
        if (w->leads) {
            if (!yield_some(w))
                lead_asleep(w, false);
        } else if (madi_may_follow(w) && madi_led_by() != MADI_LED_BY_THREAD) {
            ask_no_more(w);
            madi_follow(w);
        } else {
            sched_yield(); /* the leader makes room */
        }
    }
    end(w);
}

static void wait_begin(madi_waiting_t *w)
{
    w->spin_ns = madi_spin_ns(madi_processes(), madi_async_enter());
    if (w->spin_ns && madi_server.spin_ns < 0 && (w->worker || w->waiter->ult) && madi_now() < spins_not_until)
        w->spin_ns = 0;
    if (w->spin_ns && madi_server.spin_ns < 0 && w->waiter->expected > w->spin_ns)
        w->spin_ns = w->waiter->expected;
    w->yield_ns = madi_yield_ns(w->spin_ns);
}

void madi_lead_beside(marceli_waiter_t *waiter, bool (*test)(void *arg), bool yields, bool said)
{
    madi_waiting_t w = {.waiter = waiter, .test = test, .deadline = INT64_MAX, .runs = true};
    w.leads = madi_lead(MADI_LED_BY_THREAD);
    if (!w.leads)
        return;
    w.yield_ns = yields ? madi_yield_ns(0) : 0;
    if (!(w.yield_ns ? yield_some(&w) : look(&w, 1))) /* as long as there is something to do it does not sleep */
        lead_asleep(&w, said);
    if (w.leads)
        madi_lead_no_more();
}

/* Leave the worker to its scheduler. */
static void park(madi_waiting_t *w)
{
    madi_worker_t *worker = w->waiter->ult->worker;
    bool stays = !w->waiter->ult->moves; /* else it may go on elsewhere */
    atomic_fetch_add_explicit(&madi_server.blocked, 1, memory_order_seq_cst); /* madi_park counts it out */
    if (madi_has_others(worker)) /* what comes later comes by the scheduler */
        madi_lead_elsewhere(worker);
    madi_looks_begin(worker);
    if (stays)
        worker->waiting++;
    madi_park(w->waiter, w->deadline);
    if (stays)
        worker->waiting--;
}

/* Whichever thread leaves the library, others of its worker will be back in a moment. */
static bool leaves_others(madi_worker_t *worker, bool done)
{
    return (!done || madi_has_others(worker) || worker->waiting) && madi_patient();
}

/* A user-level thread: as long as nobody else wants its worker it spins, and polls; then it leaves the worker to its
 * scheduler, which does the same for all.  At once, if there is not much to spin: not twice. */
static void wait_switching(madi_waiting_t *w)
{
    bool done;
    for (;;) {
        if (madi_has_others(w->waiter->ult->worker) || !madi_spin_ns(madi_processes(), 1)) {
            done = w->test(w->arg);
        } else {
            wait_begin(w);
            lead(w);
            done = spin(w);
            end(w);
            madi_async_leave(leaves_others(w->waiter->ult->worker, done));
        }
        if (done || madi_now() >= w->deadline)
            return;
        park(w);
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
        wait_here(&w);
        madi_async_leave(waiter->returns);
    }
    return test(arg);
}

/* ---- Schedulers ----------------------------------------------------------------------------------------------- */

void madi_idle_wait(madi_worker_t *worker, bool (*test)(void *arg), void *arg, int64_t deadline)
{
    madi_waiting_t w = {.waiter = &worker->waiter, .test = test, .arg = arg, .deadline = deadline, .worker = worker};
    wait_begin(&w);
    wait_here(&w);
    madi_async_leave(worker->waiting > 1 && madi_patient()); /* the one that was woken is still counted */
}

/* Looks that find nothing take less and less of the time. */
void madi_server_tick(madi_worker_t *worker, int64_t now)
{
    madi_source_t *calls;
    int n;
    if (now < worker->look_at || atomic_load_explicit(&madi_server.leader, memory_order_relaxed))
        return;
    n = madi_server_look(true, &calls);
    if (calls)
        calls_apart(calls);
    worker->look_every = madi_look_every(worker->look_every, n);
    worker->look_at = now + worker->look_every;
}

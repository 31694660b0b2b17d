/* SPDX-License-Identifier: BSD-3-Clause */
/* The one place where the library waits.
 *
 * Of the threads that wait one is the leader: it polls for all.  It spins; a look at the drivers' memory (pure_poll)
 * takes no lock, a hit takes session->lock.  When spinning does not pay it yields a few times, and then sleeps in epoll
 * with every driver's descriptor armed.  The others, the followers, look only whether what they wait for has come, and
 * then sleep, each by itself, until it has (waiter.c).  A leader that leaves wakes one of them, which leads.
 *
 * Why the leader misses nothing: it says that it sleeps, fences, then looks once more; who changes something looks whether
 * it sleeps.  Where the short paths look at sleeping (or at conn->waiting), they do not fence: the leader's membarrier
 * fences for both.
 */
#include "core/core.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN 100000         /* ns of a wait's spinning; when not every waiting thread has a core, of its yielding instead */
#define SPINS 1000          /* looks at the beginning of a wait, before the clock is asked */
#define CLOCK_EVERY 32      /* spins between looks at the clock */
#define YIELD_SLOW 50000    /* ns; a yield that took longer met a computing process */
#define YIELD_BAN 64        /* times as long as that one took there are no yields */
#define YIELD_BAN_MAX INT64_C(2000000000) /* ns */
#define FENCELESS 100000000 /* ns of the longest sleep where there is no membarrier: some stores have no fence */

static bool asymmetric; /* membarrier works in this process */

void madi_barrier(void)
{
    if (asymmetric)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

void madi_barrier_light(void)
{
    if (asymmetric)
        atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    else
        atomic_thread_fence(memory_order_seq_cst);
}

void madi_session_moved(mad_session_t *session)
{
    uint64_t one = 1;
    madi_barrier_light(); /* pairs with arm */
    if (atomic_load_explicit(&session->sleeping, memory_order_relaxed) &&
        write(session->wake_fd, &one, sizeof one) < 0)
        return; /* full: it is readable all the same */
}

/* How long may the leader sleep? */
static int sleep_ms(mad_session_t *session, int64_t deadline)
{
    int64_t hello = madi_hello_deadline(session), now = madi_now(), ns;
    if (hello < deadline)
        deadline = hello;
    if (atomic_load_explicit(&session->has_work, memory_order_relaxed))
        return 1; /* a full ring has no descriptor */
    if (!asymmetric && deadline > now + FENCELESS)
        deadline = now + FENCELESS;
    if (deadline == INT64_MAX)
        return -1;
    ns = deadline > now ? deadline - now : 0;
    return ns / 1000000 >= INT_MAX ? INT_MAX : (int)(ns / 1000000) + 1;
}

/* Arm everything; false: there is something to do already.  Under session->lock. */
static bool arm(mad_session_t *session)
{
    bool quiet = true;
    atomic_store_explicit(&session->sleeping, 1, memory_order_seq_cst);
    madi_barrier();
    for (int i = 0; i < session->n_adapters; i++) {
        madi_adapter_t *a = session->adapters[i];
        if (a->driver->arm && !a->driver->arm(a))
            quiet = false;
    }
    return quiet;
}

static void disarm(mad_session_t *session)
{
    atomic_store_explicit(&session->sleeping, 0, memory_order_relaxed);
    for (int i = 0; i < session->n_adapters; i++) {
        madi_adapter_t *a = session->adapters[i];
        if (a->driver->disarm)
            a->driver->disarm(a);
    }
}

static void sleep_as_leader(madi_waiter_t *w, bool (*test)(void *), void *arg, int64_t deadline)
{
    mad_session_t *session = w->session;
    uint32_t running = MADI_RUNNING;
    bool quiet;
    uint64_t rings;
    int ms;
    madi_lock(&session->lock);
    quiet = arm(session);
    ms = sleep_ms(session, deadline);
    session->in_epoll = true; /* what epoll tells of is not freed meanwhile */
    madi_unlock(&session->lock);
    if (!atomic_compare_exchange_strong_explicit(&w->word, &running, MADI_LEADS_ASLEEP, memory_order_seq_cst,
                                                 memory_order_relaxed) ||
        !quiet || test(arg) || madi_calls_wait(session))
        ms = 0;
    if (ms) {
        madi_poll_descriptors(session, ms); /* comes back with the lock */
        session->sleeps++;
    } else {
        madi_lock(&session->lock);
        madi_poll_descriptors(session, 0);
    }
    atomic_exchange_explicit(&w->word, MADI_RUNNING, memory_order_seq_cst); /* before it looks */
    session->in_epoll = false;
    disarm(session);
    if (ms && read(session->wake_fd, &rings, sizeof rings) < 0)
        rings = 0; /* nobody rang */
    madi_hello_expire(session, madi_now());
    madi_progress_locked(session);
    madi_unlock(&session->lock);
}

static bool lead(mad_session_t *session, int who)
{
    int nobody = MADI_LED_BY_NOBODY;
    return !atomic_load_explicit(&session->leader, memory_order_relaxed) &&
           atomic_compare_exchange_strong_explicit(&session->leader, &nobody, who, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void lead_no_more(mad_session_t *session)
{
    atomic_store_explicit(&session->leader, MADI_LED_BY_NOBODY, memory_order_seq_cst);
    madi_followers_wake(session); /* one takes over */
}

bool madi_lead_once(madi_waiter_t *w, bool (*test)(void *arg), void *arg)
{
    mad_session_t *session = w->session;
    if (!lead(session, MADI_LED_BY_THREAD))
        return false;
    sleep_as_leader(w, test, arg, INT64_MAX);
    lead_no_more(session);
    madi_calls_run(session);
    return true;
}

typedef struct waiting {
    madi_waiter_t *waiter;
    bool (*test)(void *arg);
    void *arg;
    int64_t deadline, spin_ns, yield_ns;
    bool leads;
} waiting_t;

/* The program's code may take long: another thread leads meanwhile. */
static void run_calls(mad_session_t *session, waiting_t *w)
{
    if (MADI_LIKELY(!madi_calls_wait(session)))
        return;
    if (w->leads)
        lead_no_more(session);
    w->leads = false;
    madi_calls_run(session);
}

/* One look, now and then at the descriptors too (spins); true: something moved. */
static bool look(mad_session_t *session, waiting_t *w, uint32_t spins)
{
    int n = 0;
    if (!madi_pure_poll(session) && spins % MADI_EPOLL_EVERY)
        return false;
    if (madi_trylock(&session->lock)) {
        n = madi_progress_locked(session);
        if (!n && spins % MADI_EPOLL_EVERY == 0)
            n = madi_poll_descriptors(session, 0);
        madi_unlock(&session->lock);
    }
    run_calls(session, w);
    return n > 0;
}

/* Yield, as long as yielding is cheap.  False: it is time to sleep. */
static bool yield_some(mad_session_t *session, waiting_t *w)
{
    static _Thread_local int64_t banned_until;
    int64_t before = madi_now(), until = before + w->yield_ns, after;
    if (before < banned_until)
        return false;
    do {
        sched_yield();
        if (w->test(w->arg) || look(session, w, 0) || !w->leads)
            return true;
        after = madi_now();
        if (after - before > YIELD_SLOW) {
            int64_t ban = (after - before) * YIELD_BAN;
            banned_until = after + (ban < YIELD_BAN_MAX ? ban : YIELD_BAN_MAX);
            return false;
        }
        before = after;
    } while (after < until);
    return after >= w->deadline;
}

/* Spin until there is more to do than that; true: the test holds, or the deadline has passed. */
static bool spin(mad_session_t *session, waiting_t *w)
{
    int64_t begun = 0, now;
    for (uint32_t spins = 1;; spins++) {
        bool polls = w->leads || atomic_load_explicit(&session->leader, memory_order_relaxed) != MADI_LED_BY_WAITER;
        if (w->test(w->arg))
            return true;
        if (polls && look(session, w, spins))
            begun = 0;
        if (spins % CLOCK_EVERY) {
            madi_relax();
            continue;
        }
        now = madi_now();
        if (!begun)
            begun = now;
        if (now >= w->deadline)
            return true;
        if (!w->leads)
            w->leads = lead(session, MADI_LED_BY_WAITER);
        if (now - begun >= w->spin_ns)
            return false;
    }
}

static void wait_inside(mad_session_t *session, waiting_t *w)
{
    w->leads = lead(session, MADI_LED_BY_WAITER);
    while (!spin(session, w)) {
        if (w->leads) {
            if (!yield_some(session, w)) {
                sleep_as_leader(w->waiter, w->test, w->arg, w->deadline);
                run_calls(session, w);
            }
        } else if (atomic_load_explicit(&session->leader, memory_order_relaxed) == MADI_LED_BY_WAITER) {
            madi_waiter_sleep(w->waiter, w->deadline);
        } else {
            sched_yield(); /* the progress thread makes room */
        }
    }
    if (w->leads)
        lead_no_more(session);
    else
        madi_followers_wake(session); /* it may have been woken to lead */
}

/* Has not every process with so many waiting threads its cores? */
static bool crowded(const mad_session_t *session, int waiting)
{
    return (int64_t)session->size * waiting > session->cores;
}

bool madi_crowded(const mad_session_t *session)
{
    return crowded(session, 1);
}

/* Longer than twice the wake latency when every thread that waits has a core; else no more than the first looks, 1 us. */
static int64_t spin_time(const mad_session_t *session, int waiting)
{
    if (session->spin_ns >= 0)
        return session->spin_ns;
    return crowded(session, waiting) ? 0 : SPIN;
}

mad_status_t madi_wait(madi_waiter_t *waiter, bool (*test)(void *arg), void *arg, int64_t deadline)
{
    mad_session_t *session = waiter->session;
    waiting_t w = {.waiter = waiter, .test = test, .arg = arg, .deadline = deadline};
    if (test(arg))
        return MAD_OK;
    w.spin_ns = spin_time(session, madi_async_enter(session));
    w.yield_ns = session->spin_ns >= 0 ? 0 : SPIN - w.spin_ns;
    wait_inside(session, &w);
    madi_async_leave(session);
    return test(arg) ? MAD_OK : MAD_ERR_TIMEOUT;
}

mad_status_t madi_watch_for(mad_session_t *session, bool (*test)(void *arg), void *arg, int64_t deadline)
{
    madi_waiter_t w;
    mad_status_t status;
    madi_waiter_init(&w, session);
    madi_watcher_add(&w);
    status = madi_wait(&w, test, arg, deadline);
    madi_watcher_del(&w);
    return status;
}

/* ---- Start and end -------------------------------------------------------------------------------------------- */

/* Cores that this process and the others of the job on this host have. */
static int count_cores(const mad_session_t *session)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < online && session->size > 1 ? (int)online : cores; /* bound by the launcher: each to its own */
}

const _Atomic(int) *madi_attentive(const mad_session_t *session)
{
    static const _Atomic(int) always = 1; /* without membarrier every sender fences */
    return asymmetric ? &session->sleeping : &always;
}

mad_status_t madi_wait_init(mad_session_t *session)
{
    asymmetric = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    session->epfd = epoll_create1(EPOLL_CLOEXEC);
    session->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    session->wake_watch = (madi_watch_t){session->wake_fd, NULL};
    if (session->epfd < 0 || session->wake_fd < 0 ||
        madi_watch_add(session, &session->wake_watch, EPOLLIN) != MAD_OK) {
        madi_log(MADI_LOG_ERROR, "core", "no descriptors for waiting: %s; raise the limit (ulimit -n)",
                 strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    session->cores = count_cores(session);
    session->spin_ns = madi_knob_int(MADI_KNOB_SPIN) >= 0 ? madi_knob_int(MADI_KNOB_SPIN) * 1000 : -1;
    session->spins = (int)(spin_time(session, 1) / 40 < SPINS ? spin_time(session, 1) / 40 : SPINS);
    return MAD_OK;
}

void madi_wait_fini(mad_session_t *session)
{
    if (session->epfd >= 0)
        close(session->epfd);
    if (session->wake_fd >= 0)
        close(session->wake_fd);
}

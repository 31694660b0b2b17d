/* SPDX-License-Identifier: BSD-3-Clause */
/* The polling server: its categories, one poll of all of them, and the leader's sleep. */
#include "engine/engine.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/static_mutex.h"
#include "engine/accept_thread.h"
#include "engine/follower.h"
#include "engine/leader.h"
#include "engine/park.h"
#include "engine/wait_policy.h"
#include "marcel/marcel.h"
#include "marcel/monitor.h"
#include "marcel/fd_watch.h"

#include <errno.h>
#include <marcel.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS 8 /* events fetched per call; all categories are polled, whichever has an event */
#define BELL 1   /* epoll data of wake_fd: a write to wake_fd means that a poll without system calls will find an event */

madi_server_t madi_server = {.epfd = -1, .wake_fd = -1, .processes = 1, .spin_ns = -1};
_Atomic(int) marceli_leader_sleeps;
MADI_THREAD_LOCAL bool madi_polls_are_dear;

static madi_static_mutex_t start_lock = MADI_STATIC_MUTEX;
static madi_static_mutex_t facts_lock = MADI_STATIC_MUTEX;

/* ---- Barriers ------------------------------------------------------------------------------------------------- */

void marceli_barrier(void)
{
    if (madi_server.asymmetric)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

void marceli_barrier_light(void)
{
    if (MADI_LIKELY(madi_server.asymmetric))
        /* for the compiler only: the sleeper's membarrier acts as the fence of both sides */
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

const _Atomic(int) *marceli_leader_sleeps_flag(void)
{
    static const _Atomic(int) always = 1; /* not 0: without membarrier every sender executes a fence */
    return madi_server.asymmetric ? &marceli_leader_sleeps : &always;
}

/* 1 if the bell was rung since the last sleep began, so that it is rung once per sleep.  marceli_leader_sleeps stays set
 * after the wake-up until the leader runs again, which takes long while other threads have the processors. */
static _Atomic(int) rung;

void marceli_leader_wake(void)
{
    uint64_t one = 1;
    int sleeps;
    marceli_barrier_light(); /* pairs with madi_leader_sleep */
    sleeps = atomic_load_explicit(&marceli_leader_sleeps, memory_order_relaxed);
    if (!sleeps || (sleeps == MADI_SLEEPS_THREAD && madi_is_progress_thread))
        return;
    /* this exchange comes before the leader's reset of `rung`, after which the leader polls */
    if (atomic_exchange_explicit(&rung, 1, memory_order_seq_cst))
        return;
    atomic_fetch_add_explicit(&madi_server.wakes, 1, memory_order_relaxed);
    if (write(madi_server.wake_fd, &one, sizeof one) < 0)
        return; /* the counter of wake_fd is full, so wake_fd is readable anyway */
}

/* ---- Start ---------------------------------------------------------------------------------------------------- */

static void server_count_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int mine = sched_getaffinity(0, sizeof madi_server.cpus, &madi_server.cpus) ? 0 : CPU_COUNT(&madi_server.cpus);
    madi_server.cores = mine ? mine : 1;
    madi_server.host_cores = online > mine ? (int)online : mine;
}

int madi_server_probe(void)
{
    static bool found;
    int64_t spin;
    madi_static_mutex_lock(&facts_lock);
    if (!found && !madi_knob_load(MADI_KNOB_SPIN)) {
        spin = madi_knob_int(MADI_KNOB_SPIN);
        madi_server.spin_ns = spin >= 0 ? spin * 1000 : -1;
        madi_server.asymmetric = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
        server_count_cores();
        found = true;
    }
    madi_static_mutex_unlock(&facts_lock);
    return found ? 0 : -1;
}

/* Reset in the child of a fork: no thread waits, no category exists, and the descriptors are closed.  The owners of
 * categories add new ones.  The program's choice (marceli_progress_allow) stays. */
static void server_forked(void)
{
    for (int i = 0; i < MADI_CATEGORIES; i++)
        memset((void *)&madi_server.sources[i], 0, sizeof madi_server.sources[i]);
    madi_server.n_sources = 0;
    madi_server.epfd = madi_server.wake_fd = -1;
    madi_server.leader = MADI_LED_BY_NOBODY;
    madi_server.inside = madi_server.blocked = madi_server.claimants = madi_server.deputy = 0;
    madi_server.n_followers = madi_server.n_idle = 0;
    madi_server.followers = madi_server.idle = NULL;
    madi_server.lock = (madi_lock_t){0};
    marceli_leader_sleeps = rung = 0;
    if (madi_server.asymmetric)
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    madi_progress_thread_forked();
    madi_accept_thread_forked();
    madi_fd_watch_forked();
}

static void server_forks_watch(void)
{
    pthread_atfork(NULL, NULL, server_forked);
}

/* Open the descriptors.  The descriptors stay open until the process ends, because a thread that wakes the leader takes no
 * lock. */
static int server_start(void)
{
    /* Edge-triggered: each ring is an event, and the eventfd is never read. */
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = BELL};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int epfd;
    if (atomic_load_explicit(&madi_server.epfd, memory_order_relaxed) >= 0)
        return 0;
    pthread_once(&once, server_forks_watch);
    if (madi_server_probe() || madi_knob_load(MADI_KNOB_PROGRESS_THREAD))
        return -1;
    epfd = madi_fd_own(epoll_create1(EPOLL_CLOEXEC));
    madi_server.wake_fd = madi_fd_own(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (epfd < 0 || madi_server.wake_fd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, madi_server.wake_fd, &e)) {
        madi_log(MADI_LOG_ERROR, "marcel", "no descriptors for waiting: %s%s", strerror(errno), madi_remedy(errno));
        if (epfd >= 0)
            madi_fd_close(epfd);
        if (madi_server.wake_fd >= 0)
            madi_fd_close(madi_server.wake_fd);
        madi_server.wake_fd = -1;
        return -1;
    }
    atomic_store_explicit(&madi_server.epfd, epfd, memory_order_release); /* pairs with madi_server_is_open */
    return 0;
}

/* ---- Categories ----------------------------------------------------------------------------------------------- */

static int epoll_add(int fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    return fd >= 0 && epoll_ctl(madi_server.epfd, EPOLL_CTL_ADD, fd, &e) ? -1 : 0;
}

int marceli_server_open(void)
{
    int rc;
    madi_static_mutex_lock(&start_lock);
    rc = server_start();
    madi_static_mutex_unlock(&start_lock);
    return rc;
}

static bool source_is_free(madi_source_t *source)
{
    return !source->live && !atomic_load_explicit(&source->users, memory_order_acquire);
}

/* True if a category may have operations that need progress while no thread waits, that is, a category with has_calls.
 * Under start_lock, which protects `live`. */
static bool any_source_has_calls(void)
{
    bool any = false;
    for (int i = 0; i < MADI_CATEGORIES; i++)
        any |= madi_server.sources[i].live && madi_server.sources[i].c.has_calls;
    return any;
}

static void server_count_processes(void)
{
    int most = 1;
    for (int i = 0; i < MADI_CATEGORIES; i++)
        if (madi_server.sources[i].live && madi_server.sources[i].c.processes > most)
            most = madi_server.sources[i].c.processes;
    atomic_store_explicit(&madi_server.processes, most, memory_order_relaxed);
}

int marceli_category_add(const marceli_category_t *category)
{
    int i = 0, found = 0;
    madi_static_mutex_lock(&start_lock);
    if (!server_start()) {
        while (i < MADI_CATEGORIES && !source_is_free(&madi_server.sources[i]))
            i++;
        if (i == MADI_CATEGORIES) {
            madi_log(MADI_LOG_ERROR, "marcel", "more than %d sessions at a time: close some", MADI_CATEGORIES);
        } else if (epoll_add(category->fd)) {
            madi_log(MADI_LOG_ERROR, "marcel", "%s cannot be waited for: %s", category->name, strerror(errno));
        } else {
            madi_source_t *source = &madi_server.sources[i];
            madi_lock(&source->turn);
            source->c = *category;
            atomic_store_explicit(&source->name, category->name, memory_order_relaxed);
            source->armed = false;
            source->live = true;
            madi_unlock(&source->turn);
            server_count_processes();
            if (i >= atomic_load_explicit(&madi_server.n_sources, memory_order_relaxed))
                atomic_store_explicit(&madi_server.n_sources, i + 1, memory_order_release);
            found = i + 1;
        }
    }
    madi_static_mutex_unlock(&start_lock);
    if (found)
        marceli_leader_wake(); /* a sleep that has already begun does not watch the new category */
    return found;
}

void marceli_category_processes(int category, int processes)
{
    madi_static_mutex_lock(&start_lock);
    madi_server.sources[category - 1].c.processes = processes;
    server_count_processes();
    madi_static_mutex_unlock(&start_lock);
}

void marceli_category_del(int category)
{
    madi_source_t *source = &madi_server.sources[category - 1];
    if (!category)
        return;
    madi_static_mutex_lock(&start_lock);
    madi_lock(&source->turn);
    if (source->c.fd >= 0)
        epoll_ctl(madi_server.epfd, EPOLL_CTL_DEL, source->c.fd, NULL);
    if (source->armed)
        source->c.exit_blocking(source->c.arg);
    source->armed = false;
    source->live = false;
    madi_unlock(&source->turn);
    server_count_processes();
    madi_static_mutex_unlock(&start_lock);
    /* a thread may still run the category's calls, perhaps one that waits for this worker */
    while (atomic_load_explicit(&source->users, memory_order_acquire))
        marcel_yield();
    madi_static_mutex_lock(&start_lock);
    if (!any_source_has_calls())
        madi_progress_thread_stop();
    madi_static_mutex_unlock(&start_lock);
}

/* ---- One look ------------------------------------------------------------------------------------------------- */

static bool source_wants_calls(const madi_source_t *source)
{
    return source->c.has_calls && source->c.has_calls(source->c.arg);
}

/* Poll one source; return the number of events.  The caller holds the source's turn. */
static int source_poll(madi_source_t *source, bool deep)
{
    int n;
    if (!deep && !source->c.pure_poll(source->c.arg))
        return 0;
    madi_polls_are_dear = true;
    n = source->c.poll(source->c.arg, deep);
    madi_count(&source->polls);
    if (n > 0)
        madi_count(&source->hits);
    return n;
}

static void source_note_calls(madi_source_t *source, madi_source_t **calls)
{
    if (MADI_LIKELY(!source_wants_calls(source)) || *calls)
        return;
    atomic_fetch_add_explicit(&source->users, 1, memory_order_relaxed);
    *calls = source;
}

int madi_server_poll(bool deep, madi_source_t **calls)
{
    int n = 0, all = atomic_load_explicit(&madi_server.n_sources, memory_order_acquire);
    *calls = NULL;
    for (int i = 0; i < all; i++) {
        madi_source_t *source = &madi_server.sources[i];
        if (!madi_trylock(&source->turn))
            continue;
        if (MADI_LIKELY(source->live)) {
            n += source_poll(source, deep);
            source_note_calls(source, calls);
        }
        madi_unlock(&source->turn);
    }
    return n;
}

madi_source_t *madi_server_calls(void)
{
    madi_source_t *calls = NULL;
    int all = atomic_load_explicit(&madi_server.n_sources, memory_order_acquire);
    for (int i = 0; i < all && !calls; i++) {
        madi_source_t *source = &madi_server.sources[i];
        madi_lock(&source->turn);
        if (source->live)
            source_note_calls(source, &calls);
        madi_unlock(&source->turn);
    }
    return calls;
}

void madi_server_calls_release(madi_source_t *source)
{
    atomic_fetch_sub_explicit(&source->users, 1, memory_order_release); /* pairs with marceli_category_del */
}

void madi_server_calls_run(madi_source_t *source)
{
    source->c.run_calls(source->c.arg);
    madi_server_calls_release(source);
}

/* ---- Reports of sleeps ------------------------------------------------------------------------------------------- */

static _Atomic(void (*)(int64_t)) sleep_report;

void marceli_sleeps_report(void (*slept)(int64_t begin))
{
    atomic_store_explicit(&sleep_report, slept, memory_order_relaxed);
}

int64_t madi_sleep_begins(void)
{
    return MADI_UNLIKELY(atomic_load_explicit(&sleep_report, memory_order_relaxed) != NULL) ? madi_now() : 0;
}

void madi_sleep_ends(int64_t began)
{
    if (MADI_UNLIKELY(began != 0))
        atomic_load_explicit(&sleep_report, memory_order_relaxed)(began);
}

/* ---- The leader's sleep --------------------------------------------------------------------------------------- */

/* Arm all categories; return false if one already has an event or calls. */
static bool sources_arm(int64_t *deadline)
{
    bool quiet = true;
    int all = atomic_load_explicit(&madi_server.n_sources, memory_order_acquire);
    for (int i = 0; i < all; i++) {
        madi_source_t *source = &madi_server.sources[i];
        madi_lock(&source->turn);
        if (source->live) {
            source->armed = true;
            if (!source->c.enter_blocking(source->c.arg, deadline) || source_wants_calls(source))
                quiet = false;
        }
        madi_unlock(&source->turn);
    }
    return quiet;
}

static void sources_disarm(bool deep)
{
    int all = atomic_load_explicit(&madi_server.n_sources, memory_order_acquire);
    for (int i = 0; i < all; i++) {
        madi_source_t *source = &madi_server.sources[i];
        madi_lock(&source->turn);
        if (source->live && source->armed)
            source->c.exit_blocking(source->c.arg);
        source->armed = false;
        if (source->live)
            source_poll(source, deep);
        madi_unlock(&source->turn);
    }
}

/* Sleep until an event, or the deadline.  Return false if only the bell was rung.  The caller polls all categories in
 * either case. */
static bool epoll_until(int64_t deadline)
{
    struct epoll_event events[EVENTS];
    int64_t now = madi_now(), left = deadline == INT64_MAX || deadline < now ? 0 : deadline - now;
    struct timespec t = {left / 1000000000, left % 1000000000};
    int n = epoll_pwait2(madi_server.epfd, events, EVENTS, deadline == INT64_MAX ? NULL : &t, NULL);
    if (n < 0 && errno != EINTR) /* an older kernel, or a sandbox, does not know epoll_pwait2 */
        n = epoll_wait(madi_server.epfd, events, EVENTS,
                       deadline == INT64_MAX         ? -1
                       : left / 1000000 >= INT32_MAX ? INT32_MAX
                                                     : (int)(left / 1000000) + 1);
    return n != 1 || events[0].data.u64 != BELL;
}

static bool leader_fall_asleep(marceli_waiter_t *w)
{
    uint32_t running = MARCELI_RUNNING;
    return atomic_compare_exchange_strong_explicit(&w->word, &running, MARCELI_LEADS_ASLEEP, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

void madi_leader_sleep(marceli_waiter_t *w, bool (*test)(void *arg), void *arg, int64_t deadline, bool announced)
{
    bool quiet, deep = true;
    int64_t began;
    atomic_exchange_explicit(&rung, 0, memory_order_seq_cst); /* cleared before the leader polls */
    if (!announced) {
        atomic_fetch_or_explicit(&marceli_leader_sleeps, MADI_SLEEPS, memory_order_seq_cst);
        marceli_barrier();
    }
    if (!madi_server.asymmetric && deadline > madi_now() + MADI_FENCELESS_NS)
        deadline = madi_now() + MADI_FENCELESS_NS;
    quiet = sources_arm(&deadline);
    if (leader_fall_asleep(w) && quiet && !test(arg)) {
        madi_count(&madi_server.sleeps);
        began = madi_sleep_begins();
        deep = epoll_until(deadline);
        madi_sleep_ends(began);
    }
    atomic_exchange_explicit(&w->word, MARCELI_RUNNING, memory_order_seq_cst); /* set before the thread polls */
    if (!announced)
        atomic_fetch_and_explicit(&marceli_leader_sleeps, ~MADI_SLEEPS, memory_order_relaxed);
    sources_disarm(deep);
}

/* ---- Queries -------------------------------------------------------------------------------------------------- */

static void state_count_kind(marceli_state_t *state, const char *name, uint64_t polls, uint64_t hits)
{
    int i = 0;
    state->polls += polls;
    state->hits += hits;
    while (i < MARCELI_KINDS && state->kinds[i].name && strcmp(state->kinds[i].name, name))
        i++;
    if (i == MARCELI_KINDS)
        return;
    state->kinds[i].name = name;
    state->kinds[i].polls += polls;
    state->kinds[i].hits += hits;
}

static uint64_t counter_value(const madi_counter_t *counter)
{
    return atomic_load_explicit((madi_counter_t *)counter, memory_order_relaxed);
}

static void state_count_workers(marceli_state_t *state)
{
    state->workers = atomic_load_explicit(&madi_marcel.n_workers, memory_order_acquire);
    state->created = atomic_load_explicit(&madi_marcel.from_outside, memory_order_relaxed);
    state->retaken = atomic_load_explicit(&madi_monitor_retaken, memory_order_relaxed);
    for (int i = 0; i < state->workers; i++) {
        const madi_worker_t *worker = &madi_marcel.workers[i];
        state->created += counter_value(&worker->created);
        state->ended += counter_value(&worker->ended);
        state->switches += counter_value(&worker->periods) * MADI_PERIOD;
        state->steals += counter_value(&worker->steals);
        state->idles += counter_value(&worker->idles);
    }
}

void marceli_state_get(marceli_state_t *state)
{
    int all = atomic_load_explicit(&madi_server.n_sources, memory_order_acquire);
    *state = (marceli_state_t){
        .spin_ns = madi_spin_ns(madi_server_processes(), 1),
        .inside = atomic_load_explicit(&madi_server.inside, memory_order_relaxed),
        .followers = atomic_load_explicit(&madi_server.n_followers, memory_order_relaxed),
        .blocked = atomic_load_explicit(&madi_server.blocked, memory_order_relaxed),
        .sleeps = atomic_load_explicit(&madi_server.sleeps, memory_order_relaxed),
        .wakes = atomic_load_explicit(&madi_server.wakes, memory_order_relaxed),
        .thread_terms = counter_value(&madi_server.thread_terms),
        .ticks = counter_value(&madi_server.ticks),
    };
    for (int i = 0; i < all; i++) {
        madi_source_t *source = &madi_server.sources[i];
        const char *name = atomic_load_explicit(&source->name, memory_order_relaxed);
        if (name)
            state_count_kind(state, name, counter_value(&source->polls), counter_value(&source->hits));
    }
    state_count_workers(state);
}

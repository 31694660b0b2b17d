/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/monitor.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "engine/helper.h"
#include "engine/leader.h"
#include "marcel/carrier.h"
#include "marcel/guard.h"
#include "marcel/marcel.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define QUIET 100                    /* rounds in which no worker runs a thread, before the monitor sleeps */
#define FALLBACK INT64_C(1000000000) /* ns of the monitor's sleep if there is no barrier by which to see which workers run */

_Atomic(uint64_t) madi_monitor_retaken;
_Atomic(int) madi_monitor_asleep;

static struct monitor {
    pthread_t thread;
    bool started;
    _Atomic(int) stop;
    _Atomic(int) signal; /* signal number; a spare kernel thread may still read it during the shutdown */
    int64_t period;
    struct sigaction before;
} monitor;

/* ---- Which calls ---------------------------------------------------------------------------------------------- */

/* System calls that wait for their first byte or event, and are restarted after a signal (signal(7)). */
static const long restartable[] = {SYS_read,    SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept,
                                   SYS_accept4, SYS_wait4, SYS_waitid,   SYS_flock,   SYS_openat};

static bool has_timeout(int fd)
{
    struct timeval t = {0, 0};
    socklen_t size = sizeof t;
    return !getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &size) && (t.tv_sec || t.tv_usec);
}

static bool call_may_interrupt(const madi_call_t *call)
{
    bool known = false;
    for (size_t i = 0; i < MADI_COUNT(restartable); i++)
        known = known || restartable[i] == call->number;
    if ((call->number == SYS_recvfrom && call->args[3] & MSG_WAITALL) ||
        (call->number == SYS_recvmsg && call->args[2] & MSG_WAITALL))
        return false;
    return known && !has_timeout((int)call->args[0]); /* false too if the descriptor is no socket */
}

/* ---- On the stuck kernel thread ------------------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__LP64__)
#define HERE 1
__attribute__((no_sanitize("thread"))) static bool context_is_in(const ucontext_t *context, const madi_call_t *call)
{
    static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    const greg_t *r = context->uc_mcontext.gregs;
    bool same =
        (unsigned long)r[REG_RIP] + 2 == call->pc && (unsigned long)r[REG_RSP] == call->sp && r[REG_RAX] == call->number;
    for (int i = 0; i < 6; i++)
        same = same && (unsigned long)r[registers[i]] == call->args[i];
    return same;
}
#elif defined(__aarch64__)
#define HERE 1
__attribute__((no_sanitize("thread"))) static bool context_is_in(const ucontext_t *context, const madi_call_t *call)
{
    const mcontext_t *m = &context->uc_mcontext;
    bool same = m->pc + 4 == call->pc && m->sp == call->sp && (long)m->regs[8] == call->number;
    for (int i = 0; i < 6; i++)
        same = same && m->regs[i] == call->args[i];
    return same;
}
#else
#define HERE 0
__attribute__((no_sanitize("thread"))) static bool context_is_in(const ucontext_t *context, const madi_call_t *call)
{
    (void)context;
    (void)call;
    return false;
}
#endif

/* True if the signal interrupted the call of carrier->stuck_in.  A tool (valgrind, a sanitizer) may run the handler
 * later, and not on the signal stack, which is too late.  Outside the call the handler does nothing, not even what a tool
 * would see, since the tool itself may have been interrupted. */
__attribute__((no_sanitize("thread"))) static bool carrier_is_stuck(const madi_carrier_t *carrier, const void *context)
{
    return carrier && (uintptr_t)__builtin_frame_address(0) - (uintptr_t)carrier->signal_stack < MADI_SIGNAL_STACK &&
           context_is_in(context, &carrier->stuck_in);
}

static void monitor_on_signal(int signo, siginfo_t *info, void *context)
{
    int error = errno;
    madi_carrier_t *carrier = madi_carrier_self();
    unsigned asked = MADI_RETAKE_ASKED;
    (void)signo;
    (void)info;
    if (carrier_is_stuck(carrier, context) &&
        /* acquire: pairs with retake_request */
        atomic_compare_exchange_strong_explicit(&carrier->retake, &asked, MADI_RETAKE_NOW, memory_order_acquire,
                                                memory_order_relaxed)) {
        if (madi_carrier_detach_in_syscall(carrier))
            atomic_fetch_add_explicit(&madi_monitor_retaken, 1, memory_order_relaxed);
        atomic_store_explicit(&carrier->retake, MADI_RETAKE_NONE, memory_order_release); /* pairs with carrier_look */
    }
    errno = error;
}

/* ---- Looking -------------------------------------------------------------------------------------------------- */

/* Read the system call of a kernel thread from /proc.  Return false if the thread runs, or if the file cannot be read. */
static bool thread_call(int tid, madi_call_t *call)
{
    char path[64], text[256];
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    memset(call, 0, sizeof *call);
    return sscanf(text, "%ld %lx %lx %lx %lx %lx %lx %lx %lx", &call->number, &call->args[0], &call->args[1], &call->args[2],
                  &call->args[3], &call->args[4], &call->args[5], &call->sp, &call->pc) == 9;
}

/* Read from outside the values that change at each switch.  Only the worker owns them, so the result may be outdated. */
__attribute__((no_sanitize("thread"), noinline)) static madi_beat_t worker_beat(const madi_worker_t *worker)
{
    return (madi_beat_t){*(madi_ult_t *const volatile *)&worker->current,
                         atomic_load_explicit((madi_counter_t *)&worker->periods, memory_order_relaxed),
                         *(const volatile uint32_t *)&worker->tick};
}

static void retake_request(madi_carrier_t *carrier, const madi_call_t *call)
{
    if (!carrier->spare_prealloc)
        carrier->spare_prealloc = madi_carrier_spare();
    if (!carrier->spare_prealloc)
        return;
    carrier->stuck_in = *call;
    atomic_store_explicit(&carrier->retake, MADI_RETAKE_ASKED, memory_order_release);
    pthread_kill(carrier->kernel_thread, monitor.signal);
}

/* Withdraw a request whose signal found the thread elsewhere, or has not come yet.  The signal then has no effect. */
static void retake_withdraw(madi_carrier_t *carrier)
{
    unsigned asked = MADI_RETAKE_ASKED;
    atomic_compare_exchange_strong_explicit(&carrier->retake, &asked, MADI_RETAKE_NONE, memory_order_relaxed,
                                            memory_order_relaxed);
}

/* Check one carrier.  Return true if its worker runs a thread. */
static bool carrier_look(madi_carrier_t *carrier)
{
    madi_worker_t *worker = atomic_load_explicit(&carrier->carries, memory_order_acquire);
    madi_beat_t beat;
    madi_call_t call;
    bool same;
    retake_withdraw(carrier);
    if (!worker)
        return false;
    beat = worker_beat(worker);
    same = beat.current && beat.current == carrier->beat.current && beat.periods == carrier->beat.periods &&
           beat.tick == carrier->beat.tick;
    carrier->beat = beat;
    if (!same || atomic_load_explicit(&carrier->retake, memory_order_acquire) != MADI_RETAKE_NONE ||
        !thread_call(carrier->tid, &call)) {
        carrier->n_same = 0;
    } else if (carrier->n_same && !memcmp(&call, &carrier->last, sizeof call)) {
        if (call_may_interrupt(&call))
            retake_request(carrier, &call);
        carrier->n_same = 0;
    } else {
        carrier->last = call;
        carrier->n_same = 1;
    }
    return beat.current != NULL;
}

static bool carriers_look(void)
{
    bool runs = false;
    for (madi_carrier_t *carrier = madi_carriers_all(); carrier; carrier = carrier->all)
        if (carrier_look(carrier))
            runs = true;
    return runs;
}

/* Sleep until a worker runs a thread.  A worker that begins to run a thread sets `current`, then checks whether the
 * monitor sleeps.  The monitor announces its sleep, executes a barrier of all threads, then checks the workers. */
static void monitor_sleep(void)
{
    bool barrier = madi_server.asymmetric;
    atomic_store_explicit(&madi_monitor_asleep, 1, memory_order_seq_cst);
    marceli_barrier();
    if (!carriers_look() && !atomic_load_explicit(&monitor.stop, memory_order_seq_cst))
        madi_futex_wait((atomic_uint *)&madi_monitor_asleep, 1, barrier ? MADI_NEVER : madi_deadline(FALLBACK));
    atomic_store_explicit(&madi_monitor_asleep, 0, memory_order_relaxed);
}

void madi_monitor_wake(void)
{
    if (atomic_exchange_explicit(&madi_monitor_asleep, 0, memory_order_seq_cst))
        madi_futex_wake((atomic_uint *)&madi_monitor_asleep);
}

static void *monitor_main(void *arg)
{
    static atomic_uint never; /* a futex that is never woken: marcel_fini waits for the next round */
    int quiet = 0;
    (void)arg;
    while (!atomic_load_explicit(&monitor.stop, memory_order_seq_cst)) {
        madi_futex_wait(&never, 0, madi_deadline(monitor.period));
        madi_cxx_look(); /* the only other place that looks for C++ run times, besides marcel_init */
        quiet = carriers_look() ? 0 : quiet + 1;
        if (quiet >= QUIET)
            monitor_sleep();
    }
    return NULL;
}

/* ---- Start and end -------------------------------------------------------------------------------------------- */

int madi_monitor_signal(void)
{
    return monitor.signal;
}

/* Return a real-time signal that the program does not use; 0 if none. */
static int signal_free(void)
{
    for (int s = SIGRTMAX - 1; s > SIGRTMIN; s--) {
        struct sigaction now;
        if (!sigaction(s, NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
            return s;
    }
    return 0;
}

#ifdef MADI_SANITIZER_TSAN
/* TSan runs handlers late, after the call has returned.  So the kernel is made to run this handler directly. */
static void handler_set_at_once(void)
{
    struct {
        void (*handler)(int signo, siginfo_t *info, void *context);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action;
    if (!syscall(SYS_rt_sigaction, monitor.signal, NULL, &action, sizeof action.mask)) {
        action.handler = monitor_on_signal;
        syscall(SYS_rt_sigaction, monitor.signal, &action, NULL, sizeof action.mask);
    }
}
#else
static void handler_set_at_once(void) {}
#endif

void madi_monitor_prepare(void)
{
    struct sigaction action = {.sa_sigaction = monitor_on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    monitor.period = madi_knob_int(MADI_KNOB_MONITOR);
    monitor.signal = HERE && monitor.period ? signal_free() : 0;
    if (monitor.signal && access("/proc/self/syscall", R_OK)) {
        madi_log(MADI_LOG_INFO, "marcel",
                 "threads that block without marcel_blocking_begin are not detected: /proc/self/syscall cannot be read: %s",
                 strerror(errno));
        monitor.signal = 0;
    }
    sigemptyset(&action.sa_mask);
    if (monitor.signal) {
        sigaction(monitor.signal, &action, &monitor.before);
        handler_set_at_once();
    }
}

bool madi_monitor_runs(void)
{
    return monitor.started;
}

int madi_monitor_start(void)
{
    int rc;
    if (!monitor.signal)
        return 0;
    atomic_store_explicit(&monitor.stop, 0, memory_order_relaxed);
    rc = madi_helper_make(&monitor.thread, NULL, "mad-monitor", monitor_main, NULL);
    monitor.started = !rc;
    return rc;
}

void madi_monitor_stop(void)
{
    struct sigaction now;
    if (monitor.started) {
        atomic_store_explicit(&monitor.stop, 1, memory_order_seq_cst);
        madi_monitor_wake();
        pthread_join(monitor.thread, NULL);
    }
    if (monitor.signal && !sigaction(monitor.signal, NULL, &now) && now.sa_sigaction == monitor_on_signal)
        sigaction(monitor.signal, &monitor.before, NULL);
    monitor.started = false;
    monitor.signal = 0;
}

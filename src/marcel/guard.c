/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/guard.h"
#include "marcel/traits.h"
#include "marcel/slot.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

#define CANARY 64           /* bytes at the low end of a stack that must never be written */
#define OTHER_MAPPINGS 5530 /* mappings, of those that the kernel allows, left to the program and its libraries */

static struct {
    size_t page;
    bool install; /* the kernel has MADV_GUARD_INSTALL */
    int64_t left; /* number of guards that may still be made by mprotect; under the lock of slot.c */
    struct sigaction before[2];
    bool watching;
} guard;
static const int signals[2] = {SIGSEGV, SIGBUS};

size_t madi_guard_size(void)
{
    return guard.page ? guard.page : 4096;
}

static int64_t mappings_allowed(void)
{
    long n = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        if (fscanf(file, "%ld", &n) != 1)
            n = 65530;
        fclose(file);
    }
    return n;
}

void madi_guard_init(madi_guard_t method, int64_t limit)
{
    guard.page = (size_t)sysconf(_SC_PAGESIZE);
    guard.install = false;
    if (method == MADI_GUARD_AUTO) {
        void *probe = mmap(NULL, guard.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (probe != MAP_FAILED) {
            guard.install = madvise(probe, guard.page, MADV_GUARD_INSTALL) == 0;
            munmap(probe, guard.page);
        }
    }
    guard.left = limit >= 0 ? limit : (mappings_allowed() - OTHER_MAPPINGS) / 2;
}

bool madi_guard_set(void *low)
{
    if (guard.install && madvise(low, guard.page, MADV_GUARD_INSTALL) == 0)
        return true;
    if (guard.left <= 0 || mprotect(low, guard.page, PROT_NONE))
        return false;
    guard.left--;
    return true;
}

/* ---- Reports -------------------------------------------------------------------------------------------------- */

/* Report the overflow.  Called in a signal handler, on any stack: no allocation, no lock, one write. */
static void overflow_report(const madi_ult_t *ult)
{
    char line[256], name[MADI_NAME_SPACE];
    madi_name_of(ult->party.thread, name);
    int n = snprintf(line, sizeof line,
                     "marcel: the stack of thread '%s' (%zu KiB) overflowed: see marcel_attr_setstacksize(3) and the "
                     "knob MAD_STACK_SIZE\n",
                     name, (madi_slot_room(ult) + 1023) / 1024);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
}

void madi_guard_check(const madi_ult_t *ult)
{
    static const char zero[CANARY];
    if (MADI_LIKELY(!memcmp(madi_slot_low(ult), zero, CANARY)))
        return;
    overflow_report(ult);
    abort();
}

static void fault_forward(int signo, siginfo_t *info, void *context)
{
    struct sigaction *before = &guard.before[signo == SIGBUS];
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(signo, info, context);
    } else if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
        /* Restore the earlier handler: the instruction faults again, and the system acts as if this handler did not
         * exist. */
        sigaction(signo, before, NULL);
    } else {
        before->sa_handler(signo);
    }
}

static void on_fault(int signo, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    madi_ult_t *ult = info->si_code > 0 ? madi_slot_of(at) : NULL;
    /* True for an address in the guard of the thread's slot.  Other slots have guards of their own. */
    if (ult && madi_region.shift[(at - madi_region.base) >> MADI_SLAB_SHIFT] && ult->shift &&
        at < (uintptr_t)madi_slot_low(ult)) {
        overflow_report(ult);
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    fault_forward(signo, info, context);
}

void madi_guard_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++)
        sigaction(signals[i], &action, &guard.before[i]);
    guard.watching = true;
}

void madi_guard_unwatch(void)
{
    for (int i = 0; guard.watching && i < 2; i++) {
        struct sigaction now;
        /* A handler that was installed after the library's may pass faults on to the library's.  In that case the
         * library's handler stays. */
        if (!sigaction(signals[i], NULL, &now) && now.sa_sigaction == on_fault)
            sigaction(signals[i], &guard.before[i], NULL);
    }
    guard.watching = false;
}

int madi_guard_thread_start(void **stack)
{
    *stack = malloc(MADI_SIGNAL_STACK);
    if (!*stack)
        return -1;
    stack_t own = {.ss_sp = *stack, .ss_size = MADI_SIGNAL_STACK};
    return sigaltstack(&own, NULL);
}

void madi_guard_thread_end(void *stack)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    free(stack);
}

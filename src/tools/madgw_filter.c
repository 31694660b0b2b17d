/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_filter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined HAVE_SECCOMP && !defined MADI_SANITIZED

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define CALLS_MAX 1024 /* above every system call number */
#define TEXT_MAX 240

/* ---- A refused call --------------------------------------------------------------------------------------------- */

/* System calls that no bug of the gateway itself can explain. */
static const struct {
    int number;
    const char *name;
} hostile[] = {
/* clang-format off */
#define HOSTILE(name) {SYS_##name, #name}
    HOSTILE(execve),           HOSTILE(execveat),          HOSTILE(ptrace),        HOSTILE(setuid),   HOSTILE(setgid),
    HOSTILE(setresuid),        HOSTILE(setresgid),         HOSTILE(setgroups),     HOSTILE(capset),   HOSTILE(mount),
    HOSTILE(chroot),           HOSTILE(setns),             HOSTILE(unshare),       HOSTILE(bpf),      HOSTILE(init_module),
    HOSTILE(finit_module),     HOSTILE(process_vm_writev), HOSTILE(keyctl),        HOSTILE(add_key),  HOSTILE(io_uring_setup),
    HOSTILE(perf_event_open),  HOSTILE(kexec_load),        HOSTILE(reboot),        HOSTILE(clone),    HOSTILE(pidfd_getfd),
    HOSTILE(open_by_handle_at)
#undef HOSTILE
    /* clang-format on */
};

static const char *hostile_name(int number)
{
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        if (hostile[i].number == number)
            return hostile[i].name;
    return NULL;
}

/* Append to text; snprintf must not be called in a signal handler. */
static size_t text_add(char *text, size_t at, const char *more)
{
    size_t n = strlen(more);
    if (n > TEXT_MAX - at)
        n = TEXT_MAX - at;
    memcpy(text + at, more, n);
    return at + n;
}

static size_t number_add(char *text, size_t at, unsigned number)
{
    char digits[12];
    size_t n = sizeof digits;
    digits[--n] = 0;
    do
        digits[--n] = (char)('0' + number % 10);
    while (number /= 10);
    return text_add(text, at, digits + n);
}

static void call_report(int number, const char *name)
{
    char text[TEXT_MAX];
    size_t n = text_add(text, 0, "madgw: system call ");
    n = number_add(text, n, (unsigned)number);
    if (name) {
        n = text_add(text, n, " (");
        n = text_add(text, n, name);
        n = text_add(text, n, ") is one that no gateway makes: an attacker may control the process; it ends now\n");
    } else {
        n = text_add(text, n,
                     " is not on the list of those that a gateway makes, and fails; 'madgw --no-filter' runs without "
                     "the list (logged once)\n");
    }
    if (write(STDERR_FILENO, text, n) < 0)
        return;
}

static void call_result(void *context, long value)
{
    ucontext_t *uc = context;
#if defined __x86_64__
    uc->uc_mcontext.gregs[REG_RAX] = value;
#elif defined __aarch64__
    uc->uc_mcontext.regs[0] = (unsigned long long)value;
#else
    (void)uc;
    (void)value;
#endif
}

static void call_refused(int number, siginfo_t *info, void *context)
{
    static atomic_uchar reported[CALLS_MAX];
    int error = errno, call = info->si_syscall;
    const char *name = hostile_name(call);
    (void)number;
    if (name || call < 0 || call >= CALLS_MAX || !atomic_exchange_explicit(&reported[call], 1, memory_order_relaxed))
        call_report(call, name);
    if (name)
        _exit(128 + SIGSYS);
    call_result(context, call == SYS_openat ? -EPERM : -ENOSYS);
    errno = error;
}

/* ---- The list --------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const int plain[] = {
    /* descriptors */
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(close), SCMP_SYS(fcntl), SCMP_SYS(lseek),
    SCMP_SYS(dup), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(access),
    SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64),
    SCMP_SYS(pread64), SCMP_SYS(pipe2), SCMP_SYS(eventfd2),
    /* needed to remove madgw's own sockets from the file system */
    SCMP_SYS(unlink), SCMP_SYS(unlinkat),
    /* waiting */
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2),
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_gettime), SCMP_SYS(signalfd4), SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    /* connections */
    SCMP_SYS(socketpair), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(connect),
    SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
    SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(recvmmsg),
    /* memory */
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(mlock), SCMP_SYS(mlock2),
    SCMP_SYS(munlock), SCMP_SYS(memfd_create), SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(membarrier),
    /* threads */
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity), SCMP_SYS(getcpu), SCMP_SYS(gettid), SCMP_SYS(exit), SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall),
    SCMP_SYS(set_tid_address),
    /* needed to get information about this process and the host */
    SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(getrandom), SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(times),
    SCMP_SYS(pidfd_open),
};
/* clang-format on */

static int rule_failed;

static void allow(scmp_filter_ctx ctx, int call, unsigned n, const struct scmp_arg_cmp *args)
{
    int result = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, call, n, args);
    if (result < 0 && result != -EDOM) /* EDOM: this machine has no such system call */
        rule_failed = result;
}

/* clang-format off */
#define ARG(i, op, ...) {(i), SCMP_CMP_##op, __VA_ARGS__}
/* clang-format on */
#define ALLOW(ctx, call, ...) \
    allow(ctx, SCMP_SYS(call), sizeof((struct scmp_arg_cmp[]){__VA_ARGS__}) / sizeof(struct scmp_arg_cmp), \
          (const struct scmp_arg_cmp[]){__VA_ARGS__})

static void sockets_allow(scmp_filter_ctx ctx)
{
    /* requests that do not write to a terminal */
    static const unsigned long asks[] = {FIONREAD, SIOCOUTQ, SIOCATMARK, TCGETS};
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        ALLOW(ctx, ioctl, ARG(1, EQ, asks[i], 0));
    ALLOW(ctx, socket, ARG(0, EQ, AF_UNIX, 0));
    ALLOW(ctx, socket, ARG(0, EQ, AF_NETLINK, 0), ARG(2, EQ, 0, 0)); /* NETLINK_ROUTE: interfaces */
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        ALLOW(ctx, socket, ARG(0, EQ, AF_INET, 0), ARG(1, MASKED_EQ, 15, (scmp_datum_t)type));
        ALLOW(ctx, socket, ARG(0, EQ, AF_INET6, 0), ARG(1, MASKED_EQ, 15, (scmp_datum_t)type));
    }
}

/* Allow opening files for reading; with traces, also for writing. */
static void files_allow(scmp_filter_ctx ctx, bool traces)
{
    const scmp_datum_t writes = O_ACCMODE | O_CREAT | O_TRUNC;
    if (traces) {
        allow(ctx, SCMP_SYS(openat), 0, NULL);
        allow(ctx, SCMP_SYS(open), 0, NULL);
        allow(ctx, SCMP_SYS(rename), 0, NULL);
        allow(ctx, SCMP_SYS(renameat), 0, NULL);
        return;
    }
    ALLOW(ctx, openat, ARG(2, MASKED_EQ, writes, O_RDONLY));
    ALLOW(ctx, open, ARG(1, MASKED_EQ, writes, O_RDONLY));
}

/* Allow threads but no processes, no executable memory, and signals and limits only for this process itself. */
static void process_allow(scmp_filter_ctx ctx)
{
    const scmp_datum_t thread = CLONE_VM | CLONE_THREAD;
    const scmp_datum_t apart = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    ALLOW(ctx, clone, ARG(0, MASKED_EQ, thread | apart, thread));
    ALLOW(ctx, mmap, ARG(2, MASKED_EQ, PROT_EXEC, 0));
    ALLOW(ctx, mprotect, ARG(2, MASKED_EQ, PROT_EXEC, 0));
    ALLOW(ctx, rt_sigaction, ARG(0, NE, SIGSYS, 0));
    ALLOW(ctx, tgkill, ARG(0, EQ, (scmp_datum_t)getpid(), 0));
    ALLOW(ctx, prlimit64, ARG(0, EQ, 0, 0), ARG(2, EQ, 0, 0));
    ALLOW(ctx, prlimit64, ARG(0, EQ, (scmp_datum_t)getpid(), 0), ARG(2, EQ, 0, 0));
    ALLOW(ctx, prctl, ARG(0, EQ, PR_SET_NAME, 0));
    ALLOW(ctx, prctl, ARG(0, EQ, 0x53564d41, 0)); /* PR_SET_VMA: malloc names its memory */
}

static int filter_load(bool traces)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);
    int result = ctx ? 0 : -ENOMEM;
    if (!ctx)
        return result;
    rule_failed = 0;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        allow(ctx, plain[i], 0, NULL);
    sockets_allow(ctx);
    files_allow(ctx, traces);
    process_allow(ctx);
    /* The C library then uses clone, whose flags the filter can check; shm works without process_vm_readv
     * (MAD_SHM_DIRECT). */
    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(process_vm_readv), 0);
    result = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    if (!result)
        result = rule_failed ? rule_failed : seccomp_load(ctx);
    seccomp_release(ctx);
    return result;
}

void madi_filter_install(bool traces)
{
    struct sigaction action = {.sa_sigaction = call_refused, .sa_flags = SA_SIGINFO | SA_NODEFER};
    int result = sigaction(SIGSYS, &action, NULL) == 0 ? filter_load(traces) : -errno;
    if (result < 0)
        fprintf(stderr,
                "madgw: the filter of system calls cannot be installed: %s; continuing without it: the host's kernel or the "
                "container does not permit it\n",
                strerror(-result));
}

/* Print the next word of a list, in lines of about 120 columns.  *at: the current column. */
static void word_show(const char *word, size_t *at)
{
    if (*at > 100) {
        printf(",\n                   ");
        *at = 0;
    } else if (*at) {
        printf(", ");
    }
    *at += strlen(word) + 2;
    printf("%s", word);
}

void madi_filter_show(const char *head)
{
    static const char *const some[] = {"clone (threads)",
                                       "ioctl (sizes of queues)",
                                       "mmap, mprotect (not executable)",
                                       "open, openat (reading)",
                                       "prctl (names)",
                                       "prlimit64 (reading)",
                                       "rt_sigaction",
                                       "socket (TCP, UDP, UNIX, routes)",
                                       "tgkill (itself)"};
    size_t at = 0;
    printf("%s", head);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, plain[i]);
        if (name)
            word_show(name, &at);
        free(name);
    }
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        word_show(some[i], &at);
    printf("\n");
}

#else

void madi_filter_install(bool traces)
{
    (void)traces;
#ifndef MADI_SANITIZED
    fprintf(stderr, "madgw: there is no filter of system calls: it was built without libseccomp (package libseccomp-dev)\n");
#endif
}

void madi_filter_show(const char *head)
{
    printf("%sany: this build has no filter\n", head);
}

#endif

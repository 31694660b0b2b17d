/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the requirements of shared memory and of single copies. */
#include "base/costs.h"
#include "base/env.h"
#include "tools/mad_info.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIR (8 << 20) /* bytes that two processes share, approximately */

static void check_memfd(json_t *findings)
{
    static const char remedy[] = "shm cannot be used: allow memfd_create (seccomp), raise 'ulimit -f', free memory";
    int fd = memfd_create("mad_info", MFD_CLOEXEC), error;
    if (fd < 0) {
        madi_info_found(findings, "memfd", MADI_BAD, remedy, "memfd_create: %s", strerror(errno));
        return;
    }
    signal(SIGXFSZ, SIG_IGN);
    error = posix_fallocate(fd, 0, PAIR);
    close(fd);
    if (error)
        madi_info_found(findings, "memfd", MADI_BAD, remedy, "%d MiB cannot be allocated: %s", PAIR >> 20, strerror(error));
    else
        madi_info_found(findings, "memfd", MADI_OK, NULL, "%d MiB of shared memory can be allocated", PAIR >> 20);
}

static void check_dev_shm(json_t *findings)
{
    static const char remedy[] = "Madeleine's shm does not use it, MPI libraries do: mount -o remount,size=1G /dev/shm, "
                                 "or --shm-size of the container";
    struct statvfs s;
    unsigned long long free_mib;
    if (statvfs("/dev/shm", &s)) {
        madi_info_found(findings, "/dev/shm", MADI_WARNING, remedy, "%s", strerror(errno));
        return;
    }
    free_mib = (unsigned long long)s.f_bavail * s.f_frsize >> 20;
    madi_info_found(findings, "/dev/shm", free_mib < 64 ? MADI_WARNING : MADI_OK, remedy, "%llu MiB free", free_mib);
}

/* Check that a process can read the memory of another process of this user that is not its child. */
static void check_ptrace(json_t *findings)
{
    static const char remedy[] =
        "big blocks are copied twice instead of once: sysctl kernel.yama.ptrace_scope=0, and in a container "
        "--cap-add=SYS_PTRACE or a seccomp profile that allows process_vm_readv";
    long long scope = madi_info_file_number("/proc/sys/kernel/yama/ptrace_scope", 0);
    int secret = 42, copy = 0, status = 0, error;
    pid_t target = fork(), reader;
    if (target == 0) {
        pause();
        _exit(0);
    }
    reader = fork();
    if (reader == 0) {
        struct iovec here = {&copy, sizeof copy}, there = {&secret, sizeof secret};
        _exit(process_vm_readv(target, &here, 1, &there, 1, 0) == sizeof copy && copy == secret ? 0 : errno ? errno : 255);
    }
    if (target < 0 || reader < 0) {
        error = errno;
    } else {
        waitpid(reader, &status, 0);
        error = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
    }
    if (target > 0) {
        kill(target, SIGKILL);
        waitpid(target, NULL, 0);
    }
    if (error)
        madi_info_found(findings, "ptrace", MADI_WARNING, remedy,
                        "a process cannot read another one's memory (process_vm_readv: %s; yama ptrace_scope %lld)",
                        strerror(error), scope);
    else
        madi_info_found(findings, "ptrace", MADI_OK, NULL, "processes can read each other's memory (yama ptrace_scope %lld)",
                        scope);
}

static void check_membarrier(json_t *findings)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0 || !(commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED))
        madi_info_found(findings, "membarrier", MADI_WARNING,
                        "each send needs a fence: allow the call (seccomp), or use Linux 4.16 or newer", "not available: %s",
                        commands < 0 ? strerror(errno) : "too old a kernel");
    else
        madi_info_found(findings, "membarrier", MADI_OK, NULL, "works");
}

static void first_line(const char *path, char *text, size_t len)
{
    FILE *f = fopen(path, "re");
    if (!f || !fgets(text, (int)len, f))
        snprintf(text, len, "not there");
    text[strcspn(text, "\n")] = 0;
    if (f)
        fclose(f);
}

static void check_huge(json_t *findings)
{
    char thp[64];
    first_line("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof thp);
    madi_info_found(findings, "huge pages", MADI_OK, NULL, "transparent: %s; reserved: %lld", thp,
                    madi_info_file_number("/proc/sys/vm/nr_hugepages", 0));
}

static void check_clock(json_t *findings)
{
    char source[64];
    first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    madi_info_found(findings, "clock", strcmp(source, "hpet") && strcmp(source, "acpi_pm") ? MADI_OK : MADI_WARNING,
                    "each read of the clock is a slow system call: boot with clocksource=tsc if the TSC is stable",
                    "source: %s", source);
}

static void check_costs(json_t *findings)
{
    const char *given = madi_env("MAD_COSTS");
    char path[MADI_COSTS_PATH_MAX];
    madi_costs_t c;
    if (madi_costs_load(given, &c))
        madi_info_found(findings, "costs", MADI_OK, NULL, "known from %u measurements", c.runs);
    else if (!madi_costs_path(given, path))
        madi_info_found(findings, "costs", MADI_OK, NULL,
                        "neither read nor measured: MAD_COSTS is none, or HOME is not set");
    else
        madi_info_found(findings, "costs", MADI_WARNING,
                        "blocks of 8 to 256 KiB may take a slower path in shared memory: run 'mad_info host' once on the "
                        "idle host",
                        "not known: there is no %s", path);
}

void madi_info_check_memory(json_t *findings)
{
    check_memfd(findings);
    check_dev_shm(findings);
    check_ptrace(findings);
    check_membarrier(findings);
    check_huge(findings);
    check_clock(findings);
    check_costs(findings);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of limits: of the process, of its control group, and of its cores. */
#include "tools/mad_info.h"

#include "base/base.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NONE (-1) /* no limit */

/* Limits for a value: below `bad` it is bad, below `low` it is a warning. */
typedef struct limit {
    const char *check;
    int resource;
    long long bad, low;
    const char *unit, *remedy;
} limit_t;

static const limit_t limits[] = {
    {"nofile", RLIMIT_NOFILE, 64, 1024, "open files",
     "each connected peer takes one to three: 'ulimit -n 65536', or nofile in /etc/security/limits.conf"},
    {"memlock", RLIMIT_MEMLOCK, NONE, 64 << 10, "bytes of locked memory",
     "RDMA networks need it (shm and tcp do not): 'ulimit -l unlimited', or memlock in /etc/security/limits.conf"},
    {"nproc", RLIMIT_NPROC, 16, 256, "processes and threads of this user",
     "'ulimit -u 4096', or nproc in /etc/security/limits.conf"},
    {"fsize", RLIMIT_FSIZE, 16 << 20, 64 << 20, "bytes of a file",
     "memory shared between processes counts as a file: 'ulimit -f unlimited'"},
    {"address space", RLIMIT_AS, 256 << 20, 1LL << 30, "bytes of address space",
     "each peer over shared memory takes about 8 MiB: 'ulimit -v unlimited'"},
};

static void check_limit(json_t *findings, const limit_t *l)
{
    struct rlimit r;
    long long n;
    if (getrlimit(l->resource, &r))
        return;
    n = r.rlim_cur == RLIM_INFINITY ? NONE : (long long)r.rlim_cur;
    if (n == NONE)
        madi_info_found(findings, l->check, MADI_OK, NULL, "no limit of %s", l->unit);
    else
        madi_info_found(findings, l->check,
                        n < l->bad   ? MADI_BAD
                        : n < l->low ? MADI_WARNING
                                     : MADI_OK,
                        l->remedy, "at most %lld %s", n, l->unit);
}

/* ---- Control groups --------------------------------------------------------------------------------------------- */

/* Write the control group's directory: that of version 2 (controller NULL), or that of a version 1 controller. */
static bool group_dir(const char *controller, char *dir, size_t len)
{
    char line[512], *path, *list;
    bool found = false;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        list = strchr(line, ':');
        path = list ? strchr(++list, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        if (!controller ? list[0] == 0 : !strcmp(list, controller)) {
            snprintf(dir, len, "/sys/fs/cgroup%s%s%s", controller ? "/" : "", controller ? controller : "", path);
            if (access(dir, F_OK)) /* seen from inside a container */
                snprintf(dir, len, "/sys/fs/cgroup%s%s", controller ? "/" : "", controller ? controller : "");
            found = true;
        }
    }
    if (f)
        fclose(f);
    return found;
}

static long long group_number(const char *v1_controller, const char *v1_file, const char *v2_file)
{
    char dir[600], path[700];
    if (group_dir(v1_controller, dir, sizeof dir))
        snprintf(path, sizeof path, "%s/%s", dir, v1_file);
    else if (group_dir(NULL, dir, sizeof dir))
        snprintf(path, sizeof path, "%s/%s", dir, v2_file);
    else
        return NONE;
    return madi_info_file_number(path, NONE);
}

static void check_group(json_t *findings)
{
    long long memory = group_number("memory", "memory.limit_in_bytes", "memory.max");
    long long used = group_number("memory", "memory.usage_in_bytes", "memory.current");
    long long pids = group_number("pids", "pids.max", "pids.max");
    long long quota = group_number("cpu,cpuacct", "cpu.cfs_quota_us", "cpu.max"); /* its first number */

    if (memory <= 0 || memory > 1LL << 60)
        madi_info_found(findings, "cgroup memory", MADI_OK, NULL, "no limit");
    else
        madi_info_found(findings, "cgroup memory",
                        memory - used < 64 << 20    ? MADI_BAD
                        : memory - used < 512 << 20 ? MADI_WARNING
                                                    : MADI_OK,
                        "shared memory counts too: raise the limit of the container or job (memory.max)",
                        "%lld MiB of %lld MiB left", (memory - used) >> 20, memory >> 20);
    if (pids <= 0)
        madi_info_found(findings, "cgroup pids", MADI_OK, NULL, "no limit");
    else
        madi_info_found(findings, "cgroup pids",
                        pids < 16    ? MADI_BAD
                        : pids < 128 ? MADI_WARNING
                                     : MADI_OK,
                        "raise pids.max of the container or job", "at most %lld processes and threads", pids);
    if (quota > 0)
        madi_info_found(findings, "cgroup cpu", MADI_WARNING,
                        "a process that spins uses up its share, and is then stopped for a while: assign whole cores "
                        "(cpuset) instead, or set MAD_SPIN=0",
                        "processor time is limited (cpu.max)");
    else
        madi_info_found(findings, "cgroup cpu", MADI_OK, NULL, "no limit");
}

static void check_cores(json_t *findings)
{
    cpu_set_t set;
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    madi_info_found(findings, "cores", allowed > 1 ? MADI_OK : MADI_WARNING,
                    "processes on one core wait for each other's time slices: allow more (taskset, cpuset)",
                    "%d of %ld may be used", allowed, sysconf(_SC_NPROCESSORS_ONLN));
}

void madi_info_check_limits(json_t *findings)
{
    for (size_t i = 0; i < MADI_COUNT(limits); i++)
        check_limit(findings, &limits[i]);
    check_group(findings);
    check_cores(findings);
}

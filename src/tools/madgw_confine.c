/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_confine.h"

#include "tools/madgw_filter.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
/* Limits for the program itself: code, stacks, rings of shared memory, buffers of connections.  The address space may
 * exceed the memory, because malloc reserves 64 MiB for each thread's arena. */
#define OWN_DATA (512 * MIB)
#define OWN_ADDRESSES (8192 * MIB)
#define DESCRIPTORS_MAX 65536
#define NOBODY_ID 65534

/* ---- Users ------------------------------------------------------------------------------------------------------ */

gid_t madi_confine_group(uid_t uid)
{
    const struct passwd *entry = getpwuid(uid);
    if (!entry)
        entry = getpwnam(MADI_CONFINE_NOBODY);
    return entry ? entry->pw_gid : NOBODY_ID;
}

int madi_confine_find(const char *name, uid_t *uid, gid_t *gid, char *why, size_t len)
{
    char *end;
    const struct passwd *entry = getpwnam(name);
    unsigned long number = strtoul(name, &end, 10);
    if (entry) {
        *uid = entry->pw_uid;
        *gid = entry->pw_gid;
    } else if (*name >= '0' && *name <= '9' && !*end && number < UINT32_MAX) {
        *uid = (uid_t)number;
        *gid = madi_confine_group(*uid);
    } else if (!strcmp(name, MADI_CONFINE_NOBODY)) {
        *uid = *gid = NOBODY_ID;
    } else {
        snprintf(why, len, "there is no user '%s'", name);
        return -1;
    }
    if (*uid == 0 || *gid == 0) {
        snprintf(why, len, "a gateway does not run as root, nor in its group: name another user");
        return -1;
    }
    return 0;
}

/* True if the user namespace has only one user, its root.  In that case there is no other user to change to.  Outside the
 * namespace this root is an ordinary user that made the namespace, or at least is not known to be root. */
static bool root_is_alone(void)
{
    unsigned long inside, outside, count;
    FILE *map = fopen("/proc/self/uid_map", "re");
    int n = map ? fscanf(map, "%lu %lu %lu", &inside, &outside, &count) : 0;
    bool more = map && n == 3 && fscanf(map, "%lu", &inside) == 1;
    if (map)
        fclose(map);
    return n == 3 && count == 1 && !more && outside != 0;
}

int madi_confine_user(uid_t uid, gid_t gid, char *why, size_t len)
{
    if (geteuid() != 0 && getuid() != 0)
        return 0;
    if (root_is_alone())
        return 0; /* madi_confine_begin has already removed root's privileges */
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) {
        snprintf(why, len, "root cannot become user %u, group %u: %s; start it as an ordinary user", (unsigned)uid,
                 (unsigned)gid, strerror(errno));
        return -1;
    }
    if (setuid(0) == 0 || seteuid(0) == 0) {
        snprintf(why, len, "root's rights could be regained after they were dropped");
        return -1;
    }
    /* The environment of the former user root is useless: only root can read its directories. */
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("HOME");
    prctl(PR_SET_DUMPABLE, 1); /* gives this user its /proc/self, which is needed until the session is open */
    return 0;
}

/* ---- Privileges ------------------------------------------------------------------------------------------------- */

/* Drop all capabilities except `keep`; drop these too unless this process is the real root. */
static void capabilities_drop(uint32_t keep)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (geteuid() != 0 || root_is_alone())
        keep = 0;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i); /* this fails without the right to drop capabilities; then there are none to drop */
    if (syscall(SYS_capget, &head, data) != 0)
        return;
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= i ? 0 : keep;
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, data) != 0)
        fprintf(stderr, "madgw: capabilities cannot be dropped: %s; continuing with them\n", strerror(errno));
}

/* Lower the soft and the hard limit to `most`, unless they are already lower. */
static void limit_set(int which, const char *name, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0)
        return;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > most)
        limit.rlim_max = most;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(which, &limit) != 0)
        fprintf(stderr, "madgw: the limit of %s cannot be set to %llu: %s; continuing without it\n", name,
                (unsigned long long)limit.rlim_max, strerror(errno));
}

static void all_drop(uint32_t keep)
{
    capabilities_drop(keep);
    limit_set(RLIMIT_CORE, "core files", 0);
    limit_set(RLIMIT_NOFILE, "descriptors", DESCRIPTORS_MAX);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fprintf(stderr, "madgw: this kernel cannot bar new privileges: %s; continuing without it\n", strerror(errno));
}

void madi_confine_begin(void)
{
    /* keep the two capabilities that a change to another user needs; the change of user then drops them */
    all_drop(1u << CAP_SETUID | 1u << CAP_SETGID);
}

void madi_confine_serve(void)
{
    all_drop(1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL);
    prctl(PR_SET_DUMPABLE, 0);
}

void madi_confine_memory(int64_t budget)
{
#ifndef MADI_SANITIZED /* no limit with a sanitizer: its shadow memory takes the whole address space */
    int64_t data = budget + budget / 4 + OWN_DATA;
    limit_set(RLIMIT_DATA, "memory", (rlim_t)data);
    limit_set(RLIMIT_AS, "addresses", (rlim_t)(data + OWN_ADDRESSES));
#else
    (void)budget;
#endif
}

void madi_confine_end(bool filter, bool traces)
{
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        fprintf(stderr, "madgw: other processes of this user may look into its memory: %s\n", strerror(errno));
    if (filter)
        madi_filter_install(traces);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of a host's costs.  The file is only a hint: a file that is missing, invalid or not trusted is ignored. */
#include "base/costs.h"
#include "base/env.h"
#include "base/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FIRST "madeleine costs 4"
#define COPY_PS_MAX 100000 /* 10 MB/s */
#define NS_MAX 10000000

/* Write the "model name" of the first processor or, if /proc has none, the machine's type. */
static void processor_name(char *name, size_t len, const char *machine)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(name, len, "%s", machine);
    while (f && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !value)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, len, "%s", value + strspn(value, ": "));
        break;
    }
    if (f)
        fclose(f);
}

static void identity(char *text, size_t len)
{
    struct utsname u;
    char name[128];
    if (uname(&u))
        memset(&u, 0, sizeof u);
    processor_name(name, sizeof name, u.machine);
    snprintf(text, len, "%.127s, %.100s, %ld processors", name, u.release, sysconf(_SC_NPROCESSORS_ONLN));
}

bool madi_costs_path(const char *given, char path[MADI_COSTS_PATH_MAX])
{
    const char *cache = madi_env("XDG_CACHE_HOME"), *home = madi_env("HOME");
    bool is_cache = cache && cache[0] == '/';
    char host[300];
    int n;
    if (given && given[0]) {
        n = snprintf(path, MADI_COSTS_PATH_MAX, "%s", given);
        return n < MADI_COSTS_PATH_MAX && strcmp(given, "none") != 0;
    }
    if (!is_cache && !(home && home[0] == '/'))
        return false;
    identity(host, sizeof host);
    n = snprintf(path, MADI_COSTS_PATH_MAX, "%s%s/madeleine/costs-%016" PRIx64, is_cache ? cache : home,
                 is_cache ? "" : "/.cache", madi_hash(MADI_HASH_START, host, strlen(host)));
    return n > 0 && n < MADI_COSTS_PATH_MAX;
}

static uint32_t least(uint32_t kept, uint32_t measured)
{
    return kept && kept < measured ? kept : measured;
}

madi_costs_t madi_costs_least(const madi_costs_t *kept, const madi_costs_t *measured)
{
    return (madi_costs_t){.copy_ps = least(kept->copy_ps, measured->copy_ps),
                          .turn_ns = least(kept->turn_ns, measured->turn_ns),
                          .direct_ns = least(kept->direct_ns, measured->direct_ns),
                          .direct_ps = least(kept->direct_ps, measured->direct_ps),
                          .both_ps = least(kept->both_ps, measured->both_ps),
                          .pipe_ps = least(kept->pipe_ps, measured->pipe_ps),
                          .tcp_sent_ns = least(kept->tcp_sent_ns, measured->tcp_sent_ns),
                          .tcp_granted_ns = least(kept->tcp_granted_ns, measured->tcp_granted_ns),
                          .runs = kept->runs + measured->runs};
}

void madi_costs_text(const madi_costs_t *c, char text[MADI_COSTS_TEXT_MAX])
{
    char host[300];
    identity(host, sizeof host);
    snprintf(text, MADI_COSTS_TEXT_MAX,
             FIRST
             "\n%s\ncopy_ps %u turn_ns %u direct_ns %u direct_ps %u both_ps %u pipe_ps %u tcp_sent_ns %u tcp_granted_ns %u "
             "runs %u\n",
             host, c->copy_ps, c->turn_ns, c->direct_ns, c->direct_ps, c->both_ps, c->pipe_ps, c->tcp_sent_ns,
             c->tcp_granted_ns, c->runs);
}

bool madi_costs_parse(const char *text, madi_costs_t *costs)
{
    madi_costs_t c = {0};
    char host[300];
    size_t len = strlen(FIRST "\n"), host_len;
    int end = 0;
    identity(host, sizeof host);
    host_len = strlen(host);
    if (strncmp(text, FIRST "\n", len) || strncmp(text + len, host, host_len) || text[len + host_len] != '\n')
        return false;
    text += len + host_len + 1;
    if (sscanf(text,
               "copy_ps %9" SCNu32 " turn_ns %9" SCNu32 " direct_ns %9" SCNu32 " direct_ps %9" SCNu32 " both_ps %9" SCNu32
               " pipe_ps %9" SCNu32 " tcp_sent_ns %9" SCNu32 " tcp_granted_ns %9" SCNu32 " runs %9" SCNu32 "%n",
               &c.copy_ps, &c.turn_ns, &c.direct_ns, &c.direct_ps, &c.both_ps, &c.pipe_ps, &c.tcp_sent_ns, &c.tcp_granted_ns,
               &c.runs, &end) != 9 ||
        text[end] != '\n' || text[end + 1])
        return false;
    if (!c.copy_ps || c.copy_ps > COPY_PS_MAX || !c.turn_ns || c.turn_ns > NS_MAX || c.direct_ns > NS_MAX ||
        c.direct_ps > COPY_PS_MAX || c.both_ps > COPY_PS_MAX || !c.pipe_ps || c.pipe_ps > COPY_PS_MAX ||
        c.tcp_sent_ns > NS_MAX || c.tcp_granted_ns > NS_MAX || !c.runs)
        return false;
    *costs = c;
    return true;
}

bool madi_costs_load(const char *given, madi_costs_t *costs)
{
    char path[MADI_COSTS_PATH_MAX], text[MADI_COSTS_TEXT_MAX];
    struct stat st;
    ssize_t n = -1;
    int fd = madi_costs_path(given, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0)
        return false;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & 022))
        n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    return strlen(text) == (size_t)n && madi_costs_parse(text, costs);
}

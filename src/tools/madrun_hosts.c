/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_hosts.h"

#include "tools/madrun_loop.h"
#include "topology/range.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX 65536
#define SLOTS_MAX 1000000

/* True for a name that cannot be taken for an option, or be split by a shell, on its way to the launch agent. */
static bool host_name_good(const char *name)
{
    if (!isalnum((unsigned char)*name) && *name != '_' && *name != ':')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-@:%", *name))
            return false;
    return true;
}

void madi_run_hosts_join(madi_run_host_t *host, const madi_run_host_t *more)
{
    host->slots = host->slots + more->slots < SLOTS_MAX ? host->slots + more->slots : SLOTS_MAX;
    host->numbered = host->numbered || more->numbered;
}

int madi_run_hosts_put(madi_run_hosts_t *hosts, const char *name, int slots, char *why, size_t len)
{
    madi_run_host_t *last = hosts->count ? &hosts->host[hosts->count - 1] : NULL;
    madi_run_host_t one = {.slots = slots ? slots : 1, .numbered = slots > 0};
    if (!host_name_good(name)) {
        snprintf(why, len, "'%s' is no name of a host: give names as in 'a,b:4,node[1-8]'", name);
        return -1;
    }
    /* Join equal names that follow each other, as in files with one line per process.  madrun_same.h joins other
     * duplicates. */
    if (last && strcmp(last->name, name) == 0) {
        madi_run_hosts_join(last, &one);
        return 0;
    }
    if (hosts->count == HOSTS_MAX) {
        snprintf(why, len, "more than %d hosts", HOSTS_MAX);
        return -1;
    }
    if ((hosts->count & (hosts->count - 1)) == 0) {
        madi_run_host_t *more = madi_run_alloc(hosts->count ? 2 * (size_t)hosts->count : 1, sizeof(*more));
        if (hosts->count)
            memcpy(more, hosts->host, (size_t)hosts->count * sizeof(*more));
        free(hosts->host);
        hosts->host = more;
    }
    one.name = madi_run_strdup(name);
    hosts->host[hosts->count++] = one;
    return 0;
}

typedef struct hosts_expansion {
    madi_run_hosts_t *hosts;
    int slots;
    char *why;
    size_t len;
} hosts_expansion_t;

static int name_take(void *arg, const char *name)
{
    hosts_expansion_t *x = arg;
    return madi_run_hosts_put(x->hosts, name, x->slots, x->why, x->len);
}

static int slots_parse(const char *text, int *slots)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || n < 1 || n > SLOTS_MAX)
        return -1;
    *slots = (int)n;
    return 0;
}

static int hosts_entry_add(madi_run_hosts_t *hosts, char *entry, char *why, size_t len)
{
    char *close = strchr(entry, ']'), *colon = strchr(close ? close : entry, ':');
    int slots = 0;
    if (colon && !strchr(colon + 1, ':')) { /* two or more colons mean a numeric IPv6 address */
        if (slots_parse(colon + 1, &slots) != 0) {
            snprintf(why, len, "'%.80s': give how many processes after the colon, from 1 to %d", entry, SLOTS_MAX);
            return -1;
        }
        *colon = 0;
    }
    return madi_range_expand(entry, name_take, &(hosts_expansion_t){hosts, slots, why, len}, why, len);
}

int madi_run_hosts_add(madi_run_hosts_t *hosts, const char *list, char *why, size_t len)
{
    char *copy = madi_run_strdup(list), *entry = copy, *at;
    int depth = 0, result = 0, before = hosts->count;
    for (at = copy; result == 0; at++) {
        bool last = *at == 0;
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        if (!last && (*at != ',' || depth > 0))
            continue;
        *at = 0;
        if (*entry)
            result = hosts_entry_add(hosts, entry, why, len);
        entry = at + 1;
        if (last)
            break;
    }
    free(copy);
    if (result == 0 && hosts->count == before && before == 0) {
        snprintf(why, len, "no host is named in '%.80s'", list);
        return -1;
    }
    return result;
}

static int hosts_line_add(madi_run_hosts_t *hosts, char *line, char *why, size_t len)
{
    char *save = NULL, *name, *word, *odd, entry[600];
    line[strcspn(line, "#\r\n")] = 0;
    name = strtok_r(line, " \t", &save);
    word = name ? strtok_r(NULL, " \t", &save) : NULL;
    if (!name)
        return 0;
    odd = word && strncmp(word, "slots=", 6) != 0 ? word : strtok_r(NULL, " \t", &save);
    if (odd) {
        snprintf(why, len, "'%.80s' is not understood: give 'name', 'name:4' or 'name slots=4'", odd);
        return -1;
    }
    if ((size_t)snprintf(entry, sizeof(entry), "%s%s%s", name, word ? ":" : "", word ? word + 6 : "") >= sizeof(entry)) {
        snprintf(why, len, "a line is too long");
        return -1;
    }
    return madi_run_hosts_add(hosts, entry, why, len);
}

int madi_run_hosts_read(madi_run_hosts_t *hosts, const char *path, char *why, size_t len)
{
    char text[256] = "", *line = NULL;
    size_t cap = 0;
    int number = 0, result = 0, error;
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(why, len, "'%s' cannot be read: %s", path, strerror(errno));
        return -1;
    }
    while (result == 0 && getline(&line, &cap, file) >= 0) {
        number++;
        result = hosts_line_add(hosts, line, text, sizeof(text));
    }
    error = ferror(file) ? errno : 0; /* a directory can be opened, but not read: getline reports the error */
    if (error)
        snprintf(why, len, "'%s' cannot be read: %s", path, strerror(error));
    else if (result != 0)
        snprintf(why, len, "%s, line %d: %s", path, number, text);
    else if (hosts->count == 0)
        snprintf(why, len, "%s names no host", path);
    free(line);
    fclose(file);
    return hosts->count == 0 || error ? -1 : result;
}

int madi_run_hosts_place(madi_run_hosts_t *hosts, int ranks, char *why, size_t len)
{
    long room = 0, all = 0, rest;
    int first = 0, used = 0;
    bool numbered = false;
    for (int i = 0; i < hosts->count; i++) {
        numbered = numbered || hosts->host[i].numbered;
        all += hosts->host[i].slots;
    }
    rest = ranks % all;
    for (int i = 0; i < hosts->count; i++) {
        madi_run_host_t *host = &hosts->host[i];
        int more = host->slots < rest ? host->slots : (int)rest; /* share of the remainder */
        int most = numbered ? host->slots : (int)(ranks / all * host->slots) + more;
        rest -= more;
        host->first = first;
        host->count = most < ranks - first ? most : ranks - first;
        first += host->count;
        room += most;
    }
    if (first < ranks) {
        snprintf(why, len, "-n %d, but the hosts have room for %ld: name more of them, or raise the numbers after ':'",
                 ranks, room);
        return -1;
    }
    for (int i = 0; i < hosts->count; i++) {
        if (hosts->host[i].count > 0)
            hosts->host[used++] = hosts->host[i];
        else
            free(hosts->host[i].name);
    }
    hosts->count = used;
    return 0;
}

void madi_run_hosts_fini(madi_run_hosts_t *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        free(hosts->host[i].name);
    free(hosts->host);
    memset(hosts, 0, sizeof(*hosts));
}

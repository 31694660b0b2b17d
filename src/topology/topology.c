/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/topology.h"

#include "base/ascii.h"
#include "base/nearest.h"
#include "topology/build.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (64 << 20) /* largest size of a topology file, in bytes */

/* ---- Hosts by name ---------------------------------------------------------------------------------------------- */

/* Return the length of a name without trailing dots. */
static size_t name_length(const char *name)
{
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '.')
        n--;
    return n;
}

static bool same_letters(const char *a, const char *b, size_t n)
{
    while (n > 0 && madi_to_upper(a[n - 1]) == madi_to_upper(b[n - 1]))
        n--;
    return n == 0;
}

static unsigned name_hash(const char *name)
{
    unsigned h = 2166136261u;
    for (size_t n = name_length(name); n > 0; n--, name++)
        h = (h ^ (unsigned)(unsigned char)madi_to_upper(*name)) * 16777619u;
    return h;
}

/* True if two host names are equal by the rules of DNS. */
static bool same_name(const char *a, const char *b)
{
    size_t n = name_length(a);
    return n == name_length(b) && same_letters(a, b, n);
}

/* Return the slot of a name in the table, or the empty slot where it would go. */
static unsigned name_slot(const madi_topo_whole_t *whole, const char *name)
{
    unsigned i = name_hash(name) & (whole->slots - 1);
    while (whole->slot[i] && !same_name(whole->topo.host[whole->slot[i] - 1].name, name))
        i = (i + 1) & (whole->slots - 1);
    return i;
}

static bool names_grow(madi_topo_build_t *build)
{
    madi_topo_whole_t *whole = build->whole;
    unsigned slots = whole->slots ? 4 * whole->slots : 64;
    int *slot = madi_topo_alloc(&whole->arena, slots, sizeof *slot);
    if (!slot)
        return false;
    whole->slot = slot;
    whole->slots = slots;
    for (int i = 0; i < whole->topo.hosts; i++)
        slot[name_slot(whole, whole->topo.host[i].name)] = i + 1;
    return true;
}

int madi_topo_host_make(madi_topo_build_t *build, const char *name, int line)
{
    madi_topo_whole_t *whole = build->whole;
    madi_topo_t *topo = build->topo;
    madi_topo_host_t *host;
    unsigned slot;
    if (2 * (unsigned)topo->hosts >= whole->slots && !names_grow(build))
        return -1;
    slot = name_slot(whole, name);
    if (whole->slot[slot])
        return whole->slot[slot] - 1;
    if (topo->hosts == MADI_TOPO_HOSTS_MAX) {
        madi_topo_wrong(build, line, "there are more than %d hosts", MADI_TOPO_HOSTS_MAX);
        return -1;
    }
    host = madi_topo_grow(&whole->arena, topo->host, topo->hosts, sizeof *host);
    name = madi_topo_copy(&whole->arena, name);
    if (!host || !name)
        return -1;
    topo->host = host;
    host[topo->hosts] = (madi_topo_host_t){.name = name, .cluster = -1, .gateway = -1, .kind = -1, .line = line};
    whole->slot[slot] = ++topo->hosts;
    return topo->hosts - 1;
}

static bool same_to_dot(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && same_letters(a, b, n) && (!a[n] || !b[n]);
}

int madi_topo_host_find(const madi_topo_t *topo, const char *name)
{
    const madi_topo_whole_t *whole = (const madi_topo_whole_t *)topo;
    int found = -1, slot = whole->slots ? whole->slot[name_slot(whole, name)] : 0;
    if (slot)
        return slot - 1;
    for (int i = 0; i < topo->hosts; i++)
        if (same_to_dot(topo->host[i].name, name)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

int madi_topo_self(const madi_topo_t *topo)
{
    char name[256];
    if (gethostname(name, sizeof name))
        return -1;
    name[sizeof name - 1] = 0;
    return madi_topo_host_find(topo, name);
}

/* ---- Other objects by name -------------------------------------------------------------------------------------- */

static int topo_count(const madi_topo_t *topo, madi_topo_what_t what)
{
    switch (what) {
    case MADI_TOPO_NETWORK: return topo->networks;
    case MADI_TOPO_HOST: return topo->hosts;
    case MADI_TOPO_CLUSTER: return topo->clusters;
    case MADI_TOPO_CHANNEL: return topo->channels;
    case MADI_TOPO_VIRTUAL: return topo->virtuals;
    }
    return 0;
}

static const char *topo_name(const madi_topo_t *topo, madi_topo_what_t what, int i)
{
    switch (what) {
    case MADI_TOPO_NETWORK: return topo->network[i].name;
    case MADI_TOPO_HOST: return topo->host[i].name;
    case MADI_TOPO_CLUSTER: return topo->cluster[i].name;
    case MADI_TOPO_CHANNEL: return topo->channel[i].name;
    case MADI_TOPO_VIRTUAL: return topo->virtual[i].name;
    }
    return "";
}

static int topo_find(const madi_topo_t *topo, madi_topo_what_t what, const char *name)
{
    int n = topo_count(topo, what);
    for (int i = 0; i < n; i++)
        if (!strcmp(topo_name(topo, what, i), name))
            return i;
    return -1;
}

int madi_topo_network_find(const madi_topo_t *topo, const char *name)
{
    return topo_find(topo, MADI_TOPO_NETWORK, name);
}

int madi_topo_cluster_find(const madi_topo_t *topo, const char *name)
{
    return topo_find(topo, MADI_TOPO_CLUSTER, name);
}

int madi_topo_channel_find(const madi_topo_t *topo, const char *name)
{
    return topo_find(topo, MADI_TOPO_CHANNEL, name);
}

int madi_topo_virtual_find(const madi_topo_t *topo, const char *name)
{
    return topo_find(topo, MADI_TOPO_VIRTUAL, name);
}

void madi_topo_hint(const madi_topo_t *topo, madi_topo_what_t what, const char *name, char *hint, size_t len)
{
    int n = topo_count(topo, what), best = 99, nearest = 0;
    size_t used, letters = strlen(name);
    for (int i = 0; i < n; i++) {
        int d = madi_distance(name, letters, topo_name(topo, what, i));
        if (d < best)
            best = d, nearest = i;
    }
    if (!n)
        snprintf(hint, len, "; there is none");
    else if (best <= 2 && best < (int)letters)
        snprintf(hint, len, "; did you mean '%s'?", topo_name(topo, what, nearest));
    else {
        snprintf(hint, len, "; there are: %s", topo_name(topo, what, 0));
        for (int i = 1; i < n && i < 10; i++) {
            used = strlen(hint);
            snprintf(hint + used, len - used, i < 9 ? ", %s" : ", ...", topo_name(topo, what, i));
        }
    }
}

/* ---- Networks of hosts ------------------------------------------------------------------------------------------ */

const madi_topo_on_t *madi_topo_host_on(const madi_topo_t *topo, int host, int network)
{
    const madi_topo_host_t *h = &topo->host[host];
    int low = 0, high = h->ons;
    while (low < high) {
        int middle = (low + high) / 2;
        if (h->on[middle].network < network)
            low = middle + 1;
        else
            high = middle;
    }
    return low < h->ons && h->on[low].network == network ? &h->on[low] : NULL;
}

const char *madi_topo_security_name(madi_topo_security_t security)
{
    return security == MADI_TOPO_NONE ? "none" : security == MADI_TOPO_AUTH ? "auth" : "seal";
}

bool madi_topo_forwards(const madi_topo_t *topo, int host, int network)
{
    int entry = topo->host[host].gateway;
    const madi_topo_gateway_t *g = &topo->gateway[entry < 0 ? 0 : entry];
    if (entry < 0 || !madi_topo_host_on(topo, host, network))
        return false;
    for (int i = 0; i < g->networks; i++)
        if (g->network[i] == network)
            return true;
    return g->networks == 0;
}

/* ---- Files ------------------------------------------------------------------------------------------------------ */

mad_status_t madi_topo_parse(const char *file, const char *text, size_t len, madi_topo_t **topo, char **errors)
{
    madi_topo_build_t build = {0};
    mad_status_t status = MAD_ERR_CONFIG;
    *errors = NULL;
    build.whole = calloc(1, sizeof *build.whole);
    if (!build.whole)
        return MAD_ERR_NOMEM;
    build.topo = &build.whole->topo;
    build.topo->file = madi_topo_copy(&build.whole->arena, file);
    if (build.topo->file && !madi_topo_supported()) {
        madi_topo_wrong(&build, 0,
                        "this build of Madeleine cannot read topology files: it was configured without libconfig "
                        "(install libconfig-dev and build it again)");
        status = MAD_ERR_UNSUPPORTED;
    }
    if (build.topo->file && !build.wrong)
        madi_topo_read(&build, text, len);
    if (!build.whole->arena.failed && !build.scratch.failed && !build.wrong)
        madi_topo_complete(&build);
    if (!build.whole->arena.failed && !build.scratch.failed && !build.wrong)
        madi_topo_check(&build);
    if (build.whole->arena.failed || build.scratch.failed)
        status = MAD_ERR_NOMEM;
    else if (!build.wrong)
        status = MAD_OK;
    if (build.wrong > MADI_TOPO_ERRORS_MAX) {
        build.wrong = 0;
        build.where = NULL;
        madi_topo_wrong(&build, 0, "there are more errors, which are not shown");
    }
    madi_topo_arena_fini(&build.scratch);
    if (status) {
        madi_topo_free(build.topo);
        *errors = build.errors;
        return status;
    }
    *topo = build.topo;
    return MAD_OK;
}

char *madi_topo_slurp(const char *path, size_t *len)
{
    char *text = NULL;
    size_t size = 0, used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
    if (fd < 0)
        return NULL;
    while (!error) {
        char *more;
        ssize_t n;
        if (used == size) {
            size = size ? 2 * size : 65536;
            more = size > FILE_MAX ? NULL : realloc(text, size);
            if (!more) {
                error = size > FILE_MAX ? EFBIG : ENOMEM;
                break;
            }
            text = more;
        }
        n = read(fd, text + used, size - used);
        if (n < 0)
            error = errno == EINTR ? 0 : errno;
        else if (n == 0)
            break;
        else
            used += (size_t)n;
    }
    close(fd);
    if (error) {
        free(text);
        errno = error;
        return NULL;
    }
    *len = used;
    return text;
}

mad_status_t madi_topo_load(const char *path, madi_topo_t **topo, char **errors)
{
    size_t len;
    char *text = madi_topo_slurp(path, &len);
    mad_status_t status;
    if (!text) {
        int error = errno;
        if (asprintf(errors, "%s: the topology file cannot be read: %s\n", path, strerror(error)) < 0)
            *errors = NULL;
        return error == ENOMEM ? MAD_ERR_NOMEM : MAD_ERR_SYSTEM;
    }
    status = madi_topo_parse(path, text, len, topo, errors);
    free(text);
    return status;
}

void madi_topo_free(madi_topo_t *topo)
{
    madi_topo_whole_t *whole = (madi_topo_whole_t *)topo;
    if (!whole)
        return;
    madi_topo_arena_fini(&whole->arena);
    free(whole);
}

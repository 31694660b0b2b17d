/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: on which hosts and islands the members of a group are.
 *
 * Members are on one host if they can share memory.  Hosts are on one island if networks connect them without a gateway.  Both
 * follow from the members' addresses, which are the same at all members, so that all see the same places. */
#include "base/host.h"
#include "coll/coll.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/wire/address.h"

#include <stdlib.h>
#include <string.h>

/* A network of the group's members. */
typedef struct network_of_group {
    uint64_t hash; /* of the driver's and the network's names */
    int first;     /* a member that has the network */
} network_of_group_t;

typedef struct finding {
    madi_coll_places_t *places;
    network_of_group_t *networks;
    int n_networks, cap;
    int *joined; /* union-find of members: a member of the same island */
} finding_t;

static int joined_root(const finding_t *f, int member)
{
    while (f->joined[member] != member)
        member = f->joined[member] = f->joined[f->joined[member]];
    return member;
}

static void join(const finding_t *f, int a, int b)
{
    a = joined_root(f, a);
    b = joined_root(f, b);
    f->joined[a > b ? a : b] = a < b ? a : b;
}

/* Return the first member with this network; the given member if there is none, or -1 if out of memory. */
static int network_first(finding_t *f, uint64_t hash, int member)
{
    for (int i = 0; i < f->n_networks; i++)
        if (f->networks[i].hash == hash)
            return f->networks[i].first;
    if (f->n_networks == f->cap) {
        int cap = f->cap ? 2 * f->cap : 16;
        network_of_group_t *networks = realloc(f->networks, (size_t)cap * sizeof *networks);
        if (!networks)
            return -1;
        f->networks = networks;
        f->cap = cap;
    }
    f->networks[f->n_networks++] = (network_of_group_t){hash, member};
    return member;
}

static bool entry_is_memory(const madi_address_entry_t *e)
{
    return !strcmp(e->driver, "shm");
}

static bool entry_is_network(const madi_address_entry_t *e)
{
    return strcmp(e->driver, "virtual") != 0 && strcmp(e->driver, "self") != 0;
}

/* Find a member's networks in its address.  Return false if out of memory. */
static bool member_find(finding_t *f, const unsigned char *address, int member)
{
    madi_address_entry_t e;
    size_t at = 0;
    f->joined[member] = member;
    f->places->host[member] = member;
    while (address && madi_address_next(address, &at, &e)) {
        uint64_t hash = madi_hash(MADI_HASH_START, e.driver, strlen(e.driver) + 1);
        int first;
        if (!entry_is_network(&e))
            continue;
        first = network_first(f, madi_hash(hash, e.network, strlen(e.network)), member);
        if (first < 0)
            return false;
        if (entry_is_memory(&e))
            f->places->host[member] = f->places->host[first];
        join(f, first, member);
    }
    return true;
}

/* Number sets by their first members: set[i] is a member of the set, and becomes its number. */
static int sets_number(int *set, int n, int *first)
{
    int sets = 0;
    for (int i = 0; i < n; i++) {
        int s = 0;
        while (s < sets && first[s] != set[i])
            s++;
        if (s == sets)
            first[sets++] = set[i];
        set[i] = s;
    }
    return sets;
}

static bool sets_contiguous(const int *set, int n)
{
    for (int i = 1; i < n; i++)
        if (set[i] < set[i - 1])
            return false;
    return true;
}

static mad_status_t places_new(madi_coll_places_t *p, int n)
{
    p->n = n;
    p->host = calloc((size_t)n * 4, sizeof *p->host);
    if (!p->host)
        return MAD_ERR_NOMEM;
    p->island = p->host + n;
    p->host_first = p->island + n;
    p->island_first = p->host_first + n;
    p->hosts = p->islands = 1;
    p->contiguous = true;
    return MAD_OK;
}

/* Read the addresses of all members. */
static mad_status_t members_find(struct mad_group *group, finding_t *f)
{
    mad_session_t *session = group->coll->session;
    mad_status_t status = MAD_OK;
    for (int i = 0; i < group->n && !status; i++) {
        const unsigned char *address;
        madi_lock(&session->lock);
        if (i != group->index)
            status = madi_peer_know(session, group->peers[i]);
        address = i == group->index ? session->address : status ? NULL : madi_peer_address(session, group->peers[i]);
        if (!status && !member_find(f, address, i))
            status = MAD_ERR_NOMEM;
        madi_unlock(&session->lock);
    }
    return status;
}

mad_status_t madi_coll_places_find(struct mad_group *group)
{
    finding_t f = {.places = &group->places};
    mad_status_t status = places_new(&group->places, group->n);
    if (!status)
        status = places_new(&group->flat, group->n);
    f.joined = calloc((size_t)group->n, sizeof *f.joined);
    if (!f.joined)
        status = MAD_ERR_NOMEM;
    if (!status)
        status = members_find(group, &f);
    if (!status) {
        madi_coll_places_t *p = &group->places;
        for (int i = 0; i < p->n; i++)
            p->island[i] = joined_root(&f, i);
        p->hosts = sets_number(p->host, p->n, p->host_first);
        p->islands = sets_number(p->island, p->n, p->island_first);
        p->contiguous = sets_contiguous(p->host, p->n) && sets_contiguous(p->island, p->n);
    }
    free(f.joined);
    free(f.networks);
    return status;
}

void madi_coll_places_free(struct mad_group *group)
{
    free(group->places.host);
    free(group->flat.host);
}

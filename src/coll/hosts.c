/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: on which hosts and islands the members of a group are.
 *
 * Members are on one host if they can share memory.  Hosts are on one island if all of them have a network in common; so
 * between two islands there may be gateways only.  Both follow from the members' addresses, which are the same at all members,
 * so that all see the same places. */
#include "base/host.h"
#include "coll/coll.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/wire/address.h"

#include <stdlib.h>
#include <string.h>

#define NETWORKS 16 /* networks of a host that are looked at */

/* Hashes of networks' names. */
typedef struct network_set {
    int n;
    uint64_t hash[NETWORKS];
} network_set_t;

typedef struct finding {
    madi_coll_places_t *places;
    uint64_t *memory;       /* of each host: the network of its shared memory; 0: none */
    network_set_t *islands; /* of each island: the networks that all of its hosts have */
} finding_t;

static uint64_t entry_hash(const madi_address_entry_t *e)
{
    uint64_t hash = madi_hash(MADI_HASH_START, e->driver, strlen(e->driver) + 1);
    return madi_hash(hash, e->network, strlen(e->network));
}

/* Read the networks of a process from its address. */
static void networks_read(const unsigned char *address, uint64_t *memory, network_set_t *set)
{
    madi_address_entry_t e;
    size_t at = 0;
    *memory = 0;
    set->n = 0;
    while (address && madi_address_next(address, &at, &e)) {
        if (!strcmp(e.driver, "shm")) {
            *memory = entry_hash(&e);
        } else if (strcmp(e.driver, "virtual") != 0 && strcmp(e.driver, "self") != 0 && set->n < NETWORKS) {
            set->hash[set->n++] = entry_hash(&e);
        }
    }
}

static bool set_has(const network_set_t *set, uint64_t hash)
{
    for (int i = 0; i < set->n; i++)
        if (set->hash[i] == hash)
            return true;
    return false;
}

/* Find the island of a new host.  Its networks in common become those that the host has, too. */
static int island_find(finding_t *f, const network_set_t *set)
{
    madi_coll_places_t *p = f->places;
    for (int k = 0; k < p->islands; k++) {
        network_set_t common = {0};
        for (int i = 0; i < set->n; i++)
            if (set_has(&f->islands[k], set->hash[i]))
                common.hash[common.n++] = set->hash[i];
        if (common.n) {
            f->islands[k] = common;
            return k;
        }
    }
    f->islands[p->islands] = *set;
    return p->islands++;
}

/* Find the place of a member from its address. */
static void member_place(finding_t *f, const unsigned char *address, int member)
{
    madi_coll_places_t *p = f->places;
    network_set_t set;
    uint64_t memory;
    int host = 0, islands = p->islands;
    networks_read(address, &memory, &set);
    if (member == 0)
        p->cores = address ? madi_address_cores(address) : 0;
    while (host < p->hosts && !(memory && f->memory[host] == memory))
        host++;
    p->host[member] = host;
    if (host < p->hosts) {
        p->island[member] = p->island[p->host_first[host]];
        return;
    }
    p->hosts++;
    f->memory[host] = memory;
    p->host_first[host] = member;
    p->island[member] = island_find(f, &set);
    if (p->islands > islands)
        p->island_first[islands] = member;
}

/* True if the numbers of sets do not fall. */
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
        if (!status)
            member_place(f, address, i);
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
    f.memory = calloc((size_t)group->n, sizeof *f.memory);
    f.islands = calloc((size_t)group->n, sizeof *f.islands);
    if (!f.memory || !f.islands)
        status = MAD_ERR_NOMEM;
    group->places.hosts = group->places.islands = 0;
    if (!status)
        status = members_find(group, &f);
    group->places.contiguous =
        !status && sets_contiguous(group->places.host, group->n) && sets_contiguous(group->places.island, group->n);
    free(f.memory);
    free(f.islands);
    return status;
}

void madi_coll_places_free(struct mad_group *group)
{
    free(group->places.host);
    free(group->flat.host);
}

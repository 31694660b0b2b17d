/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/place.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#endif

static cpu_set_t *places; /* NULL: nobody is bound */
static int n_places;

#ifdef HAVE_HWLOC
/* The cpuset, cut into n parts along the tree.  False: hwloc does not know. */
static bool spread(int n, const cpu_set_t *allowed, cpu_set_t *out)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t set = hwloc_bitmap_alloc(), *parts = calloc((size_t)n, sizeof(hwloc_bitmap_t));
    bool ok = false;
    if (!set || !parts || hwloc_topology_init(&topology))
        goto no_topology;
    if (hwloc_topology_load(topology))
        goto no_load;
    if (hwloc_cpuset_from_glibc_sched_affinity(topology, set, allowed, sizeof *allowed) ||
        hwloc_topology_restrict(topology, set, 0))
        goto no_load;
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    if (hwloc_distrib(topology, &root, 1, parts, (unsigned)n, INT_MAX, 0))
        goto no_load;
    ok = true;
    for (int i = 0; i < n; i++) {
        ok = ok && !hwloc_cpuset_to_glibc_sched_affinity(topology, parts[i], &out[i], sizeof out[i]) && CPU_COUNT(&out[i]);
        hwloc_bitmap_free(parts[i]);
    }
no_load:
    hwloc_topology_destroy(topology);
no_topology:
    free(parts);
    hwloc_bitmap_free(set);
    return ok;
}
#else
static bool spread(int n, const cpu_set_t *allowed, cpu_set_t *out)
{
    (void)n, (void)allowed, (void)out;
    return false;
}
#endif

static void go_round(int n, const cpu_set_t *allowed, cpu_set_t *out)
{
    int cpu = -1;
    for (int i = 0; i < n; i++) {
        do
            cpu = (cpu + 1) % CPU_SETSIZE;
        while (!CPU_ISSET((size_t)cpu, allowed));
        CPU_ZERO(&out[i]);
        CPU_SET((size_t)cpu, &out[i]);
    }
}

int madi_place_find(int n)
{
    cpu_set_t allowed;
    madi_place_forget();
    if (n < 2 || sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < n)
        return 0; /* more than there are processors: the kernel shares them out */
    places = malloc((size_t)n * sizeof *places);
    if (!places)
        return ENOMEM;
    n_places = n;
    if (!spread(n, &allowed, places))
        go_round(n, &allowed, places);
    return 0;
}

void madi_place_forget(void)
{
    free(places);
    places = NULL;
    n_places = 0;
}

bool madi_place_get(int index, cpu_set_t *set)
{
    if (index < 0 || index >= n_places)
        return false;
    *set = places[index];
    return true;
}

void madi_place_bind(int index)
{
    cpu_set_t set;
    if (madi_place_get(index, &set))
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

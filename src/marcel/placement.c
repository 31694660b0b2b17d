/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/placement.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#endif

static cpu_set_t *places; /* places of the workers; NULL if no worker has one */
static int n_places;

static int allowed_get(cpu_set_t *allowed)
{
    return sched_getaffinity(0, sizeof *allowed, allowed) ? 0 : CPU_COUNT(allowed);
}

bool madi_placement_exclusive(void)
{
    cpu_set_t allowed;
    int n = allowed_get(&allowed);
    return n > 0 && n < sysconf(_SC_NPROCESSORS_ONLN);
}

/* ---- The tree ------------------------------------------------------------------------------------------------- */

#ifdef HAVE_HWLOC
static hwloc_topology_t tree; /* hardware tree of the cpuset; NULL if not loaded */

/* Load the tree; return false if hwloc cannot. */
static bool tree_load(const cpu_set_t *allowed)
{
    hwloc_bitmap_t set;
    bool ok;
    if (tree)
        return true;
    set = hwloc_bitmap_alloc();
    if (!set || hwloc_topology_init(&tree)) {
        hwloc_bitmap_free(set);
        tree = NULL;
        return false;
    }
    ok = !hwloc_topology_load(tree) && !hwloc_cpuset_from_glibc_sched_affinity(tree, set, allowed, sizeof *allowed) &&
         !hwloc_topology_restrict(tree, set, 0);
    if (!ok) {
        hwloc_topology_destroy(tree);
        tree = NULL;
    }
    hwloc_bitmap_free(set);
    return ok;
}

static void tree_free(void)
{
    if (tree)
        hwloc_topology_destroy(tree);
    tree = NULL;
}

static int tree_cores(void)
{
    return hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_CORE);
}

/* Divide the cpuset into n parts along the tree. */
static bool tree_spread(int n, cpu_set_t *out)
{
    hwloc_bitmap_t *parts = calloc((size_t)n, sizeof(hwloc_bitmap_t));
    hwloc_obj_t root = hwloc_get_root_obj(tree);
    bool ok = parts && !hwloc_distrib(tree, &root, 1, parts, (unsigned)n, INT_MAX, 0);
    for (int i = 0; parts && i < n; i++) {
        ok = ok && !hwloc_cpuset_to_glibc_sched_affinity(tree, parts[i], &out[i], sizeof out[i]) && CPU_COUNT(&out[i]);
        hwloc_bitmap_free(parts[i]);
    }
    free(parts);
    return ok;
}

static hwloc_obj_t tree_place(int index)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_obj_t object = NULL;
    if (set && !hwloc_cpuset_from_glibc_sched_affinity(tree, set, &places[index], sizeof places[index]))
        object = hwloc_get_obj_covering_cpuset(tree, set);
    hwloc_bitmap_free(set);
    return object;
}

/* Depth in the tree of the smallest object that two places have in common; -1 if unknown. */
static int tree_shared(int a, int b)
{
    hwloc_obj_t first = tree ? tree_place(a) : NULL, second = tree ? tree_place(b) : NULL;
    return first && second ? (int)hwloc_get_common_ancestor_obj(tree, first, second)->depth : -1;
}
#else
static bool tree_load(const cpu_set_t *allowed)
{
    (void)allowed;
    return false;
}
static void tree_free(void) {}
static int tree_cores(void)
{
    return 0;
}
static bool tree_spread(int n, cpu_set_t *out)
{
    (void)n, (void)out;
    return false;
}
static int tree_shared(int a, int b)
{
    (void)a, (void)b;
    return -1;
}
#endif

int madi_placement_cores(void)
{
    cpu_set_t allowed;
    int n = allowed_get(&allowed), cores = n > 1 && tree_load(&allowed) ? tree_cores() : 0;
    return cores > 0 ? cores : n > 0 ? n : 1;
}

/* ---- Places --------------------------------------------------------------------------------------------------- */

static void places_round_robin(int n, const cpu_set_t *allowed, cpu_set_t *out)
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

int madi_placement_find(int n)
{
    cpu_set_t allowed;
    free(places);
    places = NULL;
    n_places = 0;
    if (n < 2 || allowed_get(&allowed) < n)
        return 0; /* there are more workers than processors, so the kernel schedules them */
    places = malloc((size_t)n * sizeof *places);
    if (!places)
        return ENOMEM;
    n_places = n;
    if (!tree_load(&allowed) || !tree_spread(n, places))
        places_round_robin(n, &allowed, places);
    return 0;
}

void madi_placement_forget(void)
{
    free(places);
    places = NULL;
    n_places = 0;
    tree_free();
}

bool madi_placement_get(int index, cpu_set_t *set)
{
    if (index < 0 || index >= n_places)
        return false;
    *set = places[index];
    return true;
}

void madi_placement_near(int index, int n, int *others)
{
    int found = 0, *shared = n_places ? malloc((size_t)n * sizeof *shared) : NULL;
    for (int i = 1; i < n; i++) { /* insertion sort of the entries after the rotation, the nearer workers first */
        int other = (index + i) % n, at = found++, depth = shared ? tree_shared(index, other) : -1;
        for (; shared && at > 0 && shared[at - 1] < depth; at--) {
            shared[at] = shared[at - 1];
            others[at] = others[at - 1];
        }
        if (shared)
            shared[at] = depth;
        others[at] = other;
    }
    free(shared);
}

void madi_placement_bind(int index)
{
    cpu_set_t set;
    if (madi_placement_get(index, &set))
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_bind.h"

#include "tools/madrun_loop.h"

#include <stdlib.h>
#include <string.h>

bool madi_run_bind_parse(const char *text, madi_run_bind_t *bind)
{
    static const char *const names[] = {"none", "core", "socket", "numa"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            *bind = (madi_run_bind_t)(MADI_RUN_BIND_NONE + i);
            return true;
        }
    }
    return false;
}

#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

static hwloc_obj_type_t type_of(madi_run_bind_t bind)
{
    return bind == MADI_RUN_BIND_SOCKET ? HWLOC_OBJ_PACKAGE
           : bind == MADI_RUN_BIND_NUMA ? HWLOC_OBJ_NUMANODE
                                        : HWLOC_OBJ_CORE;
}

/* Set cpus to the processors that this process may use, without the reserved node.  Return NULL, or an error text. */
static const char *usable(hwloc_topology_t topology, int reserve, hwloc_bitmap_t cpus)
{
    hwloc_obj_t node = NULL;
    if (hwloc_get_cpubind(topology, cpus, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(cpus, hwloc_topology_get_allowed_cpuset(topology));
    if (reserve < 0)
        return NULL;
    node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)reserve);
    if (!node)
        return "--reserve-numa: there is no such NUMA node ('lstopo' shows them)";
    hwloc_bitmap_andnot(cpus, cpus, node->cpuset);
    if (hwloc_bitmap_iszero(cpus))
        return "--reserve-numa: no core is left outside this NUMA node: reserve none on this host";
    return NULL;
}

/* Fill sets with the usable part of each object of this type, cyclically.  Return the number of objects. */
static int places(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t cpus, int count, cpu_set_t *sets)
{
    hwloc_bitmap_t part = hwloc_bitmap_alloc();
    hwloc_obj_t object = NULL;
    int found = 0;
    while (part && (object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL) {
        hwloc_bitmap_and(part, object->cpuset, cpus);
        if (hwloc_bitmap_iszero(part))
            continue;
        if (found < count)
            hwloc_cpuset_to_glibc_sched_affinity(topology, part, &sets[found], sizeof(sets[found]));
        found++;
    }
    for (int i = found; found > 0 && i < count; i++)
        sets[i] = sets[i % found];
    hwloc_bitmap_free(part);
    return found;
}

/* Let each process run on any of the usable cores. */
static void everywhere(hwloc_topology_t topology, hwloc_const_bitmap_t cpus, int count, cpu_set_t *sets)
{
    for (int i = 0; i < count; i++)
        hwloc_cpuset_to_glibc_sched_affinity(topology, cpus, &sets[i], sizeof(sets[i]));
}

const char *madi_run_bind_places(madi_run_bind_t bind, int reserve, int count, cpu_set_t **sets)
{
    hwloc_topology_t topology;
    hwloc_bitmap_t cpus;
    const char *wrong;
    int found = 0;

    *sets = NULL;
    if (bind == MADI_RUN_BIND_AUTO && getenv("MADLAB_HOST"))
        /* do not bind: the hosts of a lab share cores, and the first process of each would get the same core */
        bind = MADI_RUN_BIND_NONE;
    if (bind == MADI_RUN_BIND_NONE && reserve < 0)
        return NULL;
    if (hwloc_topology_init(&topology) != 0)
        return "hwloc cannot be started: use --bind none";
    cpus = hwloc_bitmap_alloc();
    if (!cpus || hwloc_topology_load(topology) != 0) {
        wrong = "hwloc cannot read this host's topology: use --bind none";
        goto done;
    }
    wrong = usable(topology, reserve, cpus);
    if (wrong)
        goto done;
    *sets = madi_run_alloc((size_t)count, sizeof(cpu_set_t));
    if (bind != MADI_RUN_BIND_NONE)
        found = places(topology, type_of(bind), cpus, count, *sets);
    if (found == 0 || (bind == MADI_RUN_BIND_AUTO && count > found)) {
        if (reserve >= 0) {
            everywhere(topology, cpus, count, *sets);
        } else {
            free(*sets);
            *sets = NULL;
        }
    }
done:
    hwloc_bitmap_free(cpus);
    hwloc_topology_destroy(topology);
    return wrong;
}

#else

const char *madi_run_bind_places(madi_run_bind_t bind, int reserve, int count, cpu_set_t **sets)
{
    (void)count;
    *sets = NULL;
    if ((bind != MADI_RUN_BIND_NONE && bind != MADI_RUN_BIND_AUTO) || reserve >= 0)
        return "this madrun was built without hwloc and cannot bind: use --bind none";
    return NULL;
}

#endif

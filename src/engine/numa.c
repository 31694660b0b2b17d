/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/numa.h"

#include "base/env.h"
#include "base/static_mutex.h"
#include "engine/leader.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSFS "/sys"
#define LOCAL 10      /* distance of a node from itself */
#define REMOTE 20     /* distance of other nodes, if the description has none */
#define PATH_LEN 256  /* bytes of a path in sysfs */
#define BELOW_MAX 4   /* maximum number of interfaces on top of each other: a VLAN on a bond on a card is 2 */
#define MPOL_F_NODE 1 /* of <numaif.h>, which is another library's */
#define MPOL_F_ADDR 2

typedef struct numa_device {
    char name[48];
    int node;
} numa_device_t;

typedef struct numa {
    int n;             /* number of nodes; 0: one, or not known */
    int *node;         /* their numbers */
    cpu_set_t *cpus;   /* their processors */
    unsigned *between; /* distance from node i to node k, at i * n + k */
    numa_device_t *devices;
    int n_devices;
    const char *sysfs; /* NULL: the description is not that of this host */
    cpu_set_t process;
} numa_t;

static numa_t numa; /* constant once `loaded` is true */
static bool loaded; /* under numa_lock */
static madi_static_mutex_t numa_lock = MADI_STATIC_MUTEX;

/* Return the place of a node in the lists; -1: there is no such node. */
static int node_index(const numa_t *t, int node)
{
    for (int i = 0; i < t->n; i++)
        if (t->node[i] == node)
            return i;
    return -1;
}

/* ---- Nodes in sysfs ------------------------------------------------------------------------------------------- */

static bool nodes_new(numa_t *t, int n)
{
    t->node = calloc((size_t)n, sizeof *t->node);
    t->cpus = calloc((size_t)n, sizeof *t->cpus);
    t->between = calloc((size_t)n * (size_t)n, sizeof *t->between);
    if (!t->node || !t->cpus || !t->between)
        return false;
    t->n = n;
    for (int i = 0; i < n * n; i++)
        t->between[i] = i / n == i % n ? LOCAL : REMOTE;
    return true;
}

/* Store a distance, unless it is not plausible. */
static void distance_set(numa_t *t, int from, int to, unsigned long long distance)
{
    if (from >= 0 && to >= 0 && distance && distance <= UINT8_MAX)
        t->between[from * t->n + to] = (unsigned)distance;
}

static FILE *node_file_open(const char *sysfs, const char *name)
{
    char path[PATH_LEN];
    snprintf(path, sizeof path, "%.100s/devices/system/node/%.40s", sysfs, name);
    return fopen(path, "re");
}

/* Read a list of numbers, as 0-3,8.  Return how many there are. */
static int list_read(const char *sysfs, const char *name, cpu_set_t *set)
{
    FILE *f = node_file_open(sysfs, name);
    int from, to, behind = ',';
    CPU_ZERO(set);
    if (!f)
        return 0;
    while (behind == ',' && fscanf(f, "%d", &from) == 1) {
        to = from;
        behind = fgetc(f);
        if (behind == '-' && fscanf(f, "%d", &to) == 1)
            behind = fgetc(f);
        for (int i = from; i >= 0 && i <= to && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, set);
    }
    fclose(f);
    return CPU_COUNT(set);
}

static void distances_of_node_read(numa_t *t, const char *sysfs, int i)
{
    char name[40];
    unsigned distance;
    FILE *f;
    snprintf(name, sizeof name, "node%d/distance", t->node[i]);
    f = node_file_open(sysfs, name);
    for (int k = 0; f && k < t->n && fscanf(f, "%u", &distance) == 1; k++)
        distance_set(t, i, k, distance);
    if (f)
        fclose(f);
}

/* Read the nodes of this host. */
static bool nodes_read(numa_t *t, const char *sysfs)
{
    cpu_set_t online;
    int n = list_read(sysfs, "online", &online), i = 0;
    if (n < 2)
        return true;
    if (!nodes_new(t, n))
        return false;
    for (int node = 0; node < CPU_SETSIZE; node++) {
        char name[40];
        if (!CPU_ISSET((size_t)node, &online))
            continue;
        snprintf(name, sizeof name, "node%d/cpulist", node);
        t->node[i] = node;
        list_read(sysfs, name, &t->cpus[i++]);
    }
    for (i = 0; i < n; i++)
        distances_of_node_read(t, sysfs, i);
    return true;
}

/* ---- The tree of hwloc ---------------------------------------------------------------------------------------------- */

static void numa_free(numa_t *t)
{
    free(t->node);
    free(t->cpus);
    free(t->between);
    free(t->devices);
    *t = (numa_t){0};
}

#ifdef HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

static bool device_add(numa_t *t, const char *name, int node)
{
    numa_device_t *grown = realloc(t->devices, (size_t)(t->n_devices + 1) * sizeof *grown);
    if (!grown)
        return false;
    t->devices = grown;
    grown += t->n_devices++;
    snprintf(grown->name, sizeof grown->name, "%s", name);
    grown->node = node;
    return true;
}

/* Return the node to which an I/O object is attached. */
static int object_node(const numa_t *t, hwloc_topology_t tree, hwloc_obj_t object)
{
    hwloc_obj_t at = hwloc_get_non_io_ancestor_obj(tree, object);
    if (!at || !at->nodeset || hwloc_bitmap_weight(at->nodeset) >= t->n)
        return MARCELI_NUMA_UNKNOWN;
    return hwloc_bitmap_first(at->nodeset);
}

/* List network interfaces and RDMA devices by their names, and functions of PCI by their addresses. */
static bool tree_devices_list(numa_t *t, hwloc_topology_t tree)
{
    bool ok = true;
    for (hwloc_obj_t o = NULL; ok && (o = hwloc_get_next_osdev(tree, o));)
        if (o->name &&
            (o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK || o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS))
            ok = device_add(t, o->name, object_node(t, tree, o));
    for (hwloc_obj_t o = NULL; ok && (o = hwloc_get_next_pcidev(tree, o));) {
        const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;
        char name[32];
        snprintf(name, sizeof name, "%04x:%02x:%02x.%01x", (unsigned)pci->domain, (unsigned)pci->bus, (unsigned)pci->dev,
                 (unsigned)pci->func);
        ok = device_add(t, name, object_node(t, tree, o));
    }
    return ok;
}

/* Store the distances that the description has. */
static void distances_read(numa_t *t, hwloc_topology_t tree)
{
    struct hwloc_distances_s *d = NULL;
    unsigned found = 1;
    if (hwloc_distances_get_by_type(tree, HWLOC_OBJ_NUMANODE, &found, &d, HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) || !found)
        return;
    for (unsigned i = 0; i < d->nbobjs; i++)
        for (unsigned k = 0; k < d->nbobjs; k++)
            distance_set(t, node_index(t, (int)d->objs[i]->os_index), node_index(t, (int)d->objs[k]->os_index),
                         d->values[i * d->nbobjs + k]);
    hwloc_distances_release(tree, d);
}

/* Copy from hwloc's tree what this file needs. */
static bool tree_take(numa_t *t, hwloc_topology_t tree)
{
    int n = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_NUMANODE);
    if (n < 2)
        return true;
    if (!nodes_new(t, n))
        return false;
    for (int i = 0; i < n; i++) {
        hwloc_obj_t o = hwloc_get_obj_by_type(tree, HWLOC_OBJ_NUMANODE, (unsigned)i);
        t->node[i] = (int)o->os_index;
        hwloc_cpuset_to_glibc_sched_affinity(tree, o->cpuset, &t->cpus[i], sizeof t->cpus[i]);
    }
    distances_read(t, tree);
    return tree_devices_list(t, tree);
}

/* Read a description; NULL: the one that HWLOC_XMLFILE names. */
static bool tree_read(numa_t *t, const char *xml)
{
    hwloc_topology_t tree;
    bool ok;
    if (hwloc_topology_init(&tree))
        return false;
    ok = (!xml || !hwloc_topology_set_xmlbuffer(tree, xml, (int)strlen(xml) + 1)) &&
         !hwloc_topology_set_cache_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_NONE) &&
         !hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) && !hwloc_topology_load(tree) &&
         tree_take(t, tree);
    if (ok && !xml && hwloc_topology_is_thissystem(tree))
        t->sysfs = SYSFS;
    hwloc_topology_destroy(tree);
    return ok;
}
#else
static bool tree_read(numa_t *t, const char *xml)
{
    (void)t, (void)xml;
    return false;
}
#endif

/* Read this host, or the given description.  False if out of memory, or if hwloc cannot read the description. */
static bool host_read(numa_t *t)
{
    if (madi_env("HWLOC_XMLFILE") || madi_env("HWLOC_SYNTHETIC"))
        return tree_read(t, NULL);
    t->sysfs = SYSFS;
    return nodes_read(t, SYSFS);
}

static void numa_load(void)
{
    madi_server_probe();
    madi_static_mutex_lock(&numa_lock);
    if (!loaded) {
        numa_t found = {0};
        if (!host_read(&found))
            numa_free(&found);
        found.process = madi_server.cpus;
        numa = found;
        loaded = true;
    }
    madi_static_mutex_unlock(&numa_lock);
}

bool marceli_numa_describe(const char *xml, const char *sysfs, const cpu_set_t *process)
{
    bool ok;
    numa_free(&numa);
    ok = xml ? tree_read(&numa, xml) : nodes_read(&numa, sysfs);
    if (!ok)
        numa_free(&numa);
    numa.sysfs = sysfs;
    numa.process = *process;
    loaded = true;
    return ok;
}

/* ---- Devices -------------------------------------------------------------------------------------------------- */

/* Read the node of a device in sysfs.  False if there is no such device, or if sysfs does not give its node. */
static bool sysfs_node_read(const char *name, int *node)
{
    static const char *const places[][2] = {
        {"class/net", "device/numa_node"}, {"class/infiniband", "device/numa_node"}, {"bus/pci/devices", "numa_node"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[PATH_LEN];
        bool found;
        FILE *f;
        snprintf(path, sizeof path, "%.64s/%s/%.64s/%s", numa.sysfs, places[i][0], name, places[i][1]);
        f = fopen(path, "re");
        if (!f)
            continue;
        found = fscanf(f, "%d", node) == 1;
        fclose(f);
        return found;
    }
    return false;
}

static int device_node(const char *name, int below);

/* Return the node of the interfaces on which this one is built; unknown if they belong to several. */
static int lower_node(const char *name, int below)
{
    char path[PATH_LEN];
    int node = MARCELI_NUMA_UNKNOWN;
    bool same = true;
    DIR *dir;
    snprintf(path, sizeof path, "%.64s/class/net/%.64s", numa.sysfs, name);
    dir = opendir(path);
    if (!dir)
        return MARCELI_NUMA_UNKNOWN;
    for (struct dirent *e; same && (e = readdir(dir));) {
        int lower;
        if (strncmp(e->d_name, "lower_", 6) != 0)
            continue;
        lower = device_node(e->d_name + 6, below + 1);
        same = node == MARCELI_NUMA_UNKNOWN || lower == node;
        node = lower;
    }
    closedir(dir);
    return same ? node : MARCELI_NUMA_UNKNOWN;
}

/* below: number of interfaces above this one, each built on the one below. */
static int device_node(const char *name, int below)
{
    int node = MARCELI_NUMA_UNKNOWN;
    for (int i = 0; i < numa.n_devices; i++)
        if (!strcmp(numa.devices[i].name, name))
            return numa.devices[i].node;
    if (!numa.sysfs || !*name || strchr(name, '/') || *name == '.')
        return MARCELI_NUMA_UNKNOWN;
    if (!sysfs_node_read(name, &node) && below < BELOW_MAX)
        node = lower_node(name, below);
    return node_index(&numa, node) >= 0 ? node : MARCELI_NUMA_UNKNOWN;
}

/* ---- Queries -------------------------------------------------------------------------------------------------- */

int marceli_numa_nodes(void)
{
    numa_load();
    return numa.n > 1 ? numa.n : 1;
}

int marceli_numa_of_device(const char *name)
{
    return marceli_numa_nodes() > 1 ? device_node(name, 0) : MARCELI_NUMA_UNKNOWN;
}

/* True if the process may use processors of the i-th node. */
static bool node_is_used(int i)
{
    cpu_set_t both;
    CPU_AND(&both, &numa.cpus[i], &numa.process);
    return CPU_COUNT(&both) > 0;
}

int marceli_numa_of_process(void)
{
    int node = MARCELI_NUMA_UNKNOWN, used = 0;
    numa_load();
    for (int i = 0; i < numa.n; i++)
        if (node_is_used(i)) {
            node = numa.node[i];
            used++;
        }
    return used == 1 ? node : MARCELI_NUMA_UNKNOWN;
}

int marceli_numa_of_memory(const void *at)
{
    int node = MARCELI_NUMA_UNKNOWN;
    if (marceli_numa_nodes() < 2 || syscall(SYS_get_mempolicy, &node, NULL, 0L, at, MPOL_F_NODE | MPOL_F_ADDR))
        return MARCELI_NUMA_UNKNOWN;
    return node_index(&numa, node) >= 0 ? node : MARCELI_NUMA_UNKNOWN;
}

int marceli_numa_distance(int node)
{
    unsigned sum = 0, used = 0, with_processors = 0;
    int to;
    numa_load();
    to = node_index(&numa, node);
    for (int i = 0; to >= 0 && i < numa.n; i++) {
        with_processors += CPU_COUNT(&numa.cpus[i]) > 0;
        if (!node_is_used(i))
            continue;
        sum += numa.between[i * numa.n + to];
        used++;
    }
    return used && used < with_processors ? (int)(sum / used) : 0;
}

bool marceli_numa_cpus(int node, cpu_set_t *cpus)
{
    int i;
    numa_load();
    i = node_index(&numa, node);
    if (i < 0)
        return false;
    *cpus = numa.cpus[i];
    return CPU_COUNT(cpus) > 0;
}

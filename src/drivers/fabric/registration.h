/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: memory that stays registered with a device after its use, since registering it costs more than sending it.
 *
 *   fabric_registration_get --> region, users + 1 --> fabric_registration_put --> users 0: idle, kept, most recent
 *                                                                                     |
 *            memory is unmapped (unmap.h), or forgotten;                              |
 *            more bytes than the limit: the least recently used    <------------------/
 *                                  |
 *                                  v
 *                                dead: deregistered when it is idle, by the next thread that gets or puts a region
 *
 * Regions that are kept are whole pages and never overlap: a block that overlaps some takes their place with a region over
 * all of them.  Regions that are not kept are registered for one use, at the exact bytes: longer blocks than the limit,
 * memory that cannot be watched, and every block if the kernel reports nothing.
 *
 * Any thread may call these functions; the lock is that of unmap.h.  No call of the device is made under the lock. */
#ifndef FABRIC_REGISTRATION_H
#define FABRIC_REGISTRATION_H

#include "drivers/fabric/unmap.h"
#include <stdatomic.h>

typedef struct fabric_region {
    void *handle; /* the value that `add` returned */
    uintptr_t from, to;
    int users;
    bool kept;                           /* in the tree */
    bool ready;                          /* the region is registered; false while a thread is still registering it */
    uint64_t sum;                        /* sum of the numbers of the region's pages, if uses are checked */
    uint32_t priority;                   /* random; the tree of regions is a heap by priority */
    struct fabric_region *left, *right;  /* in the tree, by address */
    struct fabric_region *older, *newer; /* neighbours in the list of idle regions; `older` also links the list of dead
                                          * regions */
} fabric_region_t;

/* How memory is registered. */
typedef struct fabric_registrar {
    /* Register bytes, and return a handle; NULL with errno.  lasts: the region is kept, so grant every right that any use
     * needs; otherwise grant `rights`. */
    void *(*add)(void *arg, void *at, size_t len, int rights, bool lasts);
    void (*drop)(void *arg, void *handle);
    void *arg;
} fabric_registrar_t;

typedef struct fabric_registrations {
    fabric_unmap_listener_t listener;
    fabric_registrar_t registrar;
    size_t limit; /* bytes that are kept; 0: nothing is kept */
    bool checks;  /* every use of a kept region checks that its pages are still the same */

    /* under the lock */
    fabric_region_t *root;
    fabric_region_t *oldest, *newest; /* idle regions */
    fabric_region_t *dead;            /* idle regions that are no longer kept */
    size_t bytes;                     /* number of bytes of the regions in the tree */
    uint64_t found, added, lost;      /* numbers: of uses of kept regions; of regions made to be kept; of regions whose
                                       * memory was unmapped */
    uint64_t replaced;                /* number of regions whose pages had been replaced, as a check found */
    atomic_bool any_dead;
} fabric_registrations_t;

/* Open the set of registrations.  limit: maximum number of bytes to keep registered; 0 if none.  Return false with the
 * reason (size bytes) if nothing can be kept; the structure can be used nevertheless. */
bool fabric_registrations_open(fabric_registrations_t *all, const fabric_registrar_t *registrar, size_t limit, bool checks,
                               char *reason, size_t size);
/* Deregister all regions, none of which is in use.  Does nothing for a structure of zeros. */
void fabric_registrations_fini(fabric_registrations_t *all);

/* Return a region that contains the bytes, for fabric_registration_put.  Return NULL with errno if they cannot be
 * registered, even after all idle regions were deregistered. */
fabric_region_t *fabric_registration_get(fabric_registrations_t *all, void *at, size_t len, int rights);
void fabric_registration_put(fabric_registrations_t *all, fabric_region_t *region);

/* Keep no region with any of these bytes.  Regions in use stay registered until fabric_registration_put. */
void fabric_registrations_forget(fabric_registrations_t *all, const void *at, size_t len);
/* Deregister all idle regions; true if there were any. */
bool fabric_registrations_trim(fabric_registrations_t *all);
/* Deregister regions whose memory was unmapped. */
void fabric_registrations_reap(fabric_registrations_t *all);
static inline bool fabric_registrations_reapable(const fabric_registrations_t *all)
{
    return atomic_load_explicit(&all->any_dead, memory_order_relaxed);
}

#endif

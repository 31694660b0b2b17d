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
    bool ready;                          /* registered; false while a thread is in `add` */
    uint64_t sum;                        /* of the numbers of its pages, if uses are checked */
    uint32_t priority;                   /* of the tree, which is a heap by it */
    struct fabric_region *left, *right;  /* in the tree, by address */
    struct fabric_region *older, *newer; /* in the list of idle regions; older: in the list of the dead, too */
} fabric_region_t;

/* How memory is registered. */
typedef struct fabric_registrar {
    /* Register bytes; NULL with errno.  lasts: the region is kept, so give all rights that any use needs; else `rights`. */
    void *(*add)(void *arg, void *at, size_t len, int rights, bool lasts);
    void (*drop)(void *arg, void *handle);
    void *arg;
} fabric_registrar_t;

typedef struct fabric_registrations {
    fabric_unmap_listener_t listener;
    fabric_registrar_t registrar;
    size_t limit; /* bytes that are kept; 0: nothing is kept */
    bool checks;  /* every use of a kept region looks whether its pages are still the same */

    /* under the lock */
    fabric_region_t *root;
    fabric_region_t *oldest, *newest; /* idle regions */
    fabric_region_t *dead;            /* idle regions that are no longer kept */
    size_t bytes;                     /* of the regions in the tree */
    uint64_t found, added, lost;      /* uses of a kept region; regions made to be kept; regions whose memory was unmapped */
    uint64_t replaced;                /* regions that a check has found to be of other memory */
    atomic_bool any_dead;
} fabric_registrations_t;

/* Begin.  limit: bytes to keep, 0 for none.  False with the reason (size bytes) if nothing can be kept; the structure can be
 * used nevertheless. */
bool fabric_registrations_open(fabric_registrations_t *all, const fabric_registrar_t *registrar, size_t limit, bool checks,
                               char *reason, size_t size);
/* Deregister everything.  No region is in use.  Legal for zeros. */
void fabric_registrations_fini(fabric_registrations_t *all);

/* Return a region that contains the bytes, for fabric_registration_put.  NULL with errno if they cannot be registered, even
 * after all idle regions were deregistered. */
fabric_region_t *fabric_registration_get(fabric_registrations_t *all, void *at, size_t len, int rights);
void fabric_registration_put(fabric_registrations_t *all, fabric_region_t *region);

/* Keep no region with any of these bytes.  Regions in use last until they are put. */
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

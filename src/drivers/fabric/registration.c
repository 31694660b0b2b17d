/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/registration.h"

#include "base/log.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- The tree: by address, and a heap by priority ----------------------------------------------------------------------- */

/* Split a tree into the regions before the address and the others. */
static void tree_split(fabric_region_t *tree, uintptr_t at, fabric_region_t **before, fabric_region_t **rest)
{
    while (tree) {
        if (tree->from < at) {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        } else {
            *rest = tree;
            rest = &tree->left;
            tree = tree->left;
        }
    }
    *before = *rest = NULL;
}

/* Join two trees, of which the first one has the lower addresses. */
static fabric_region_t *tree_join(fabric_region_t *a, fabric_region_t *b)
{
    fabric_region_t *root = NULL, **at = &root;
    while (a && b) {
        if (a->priority > b->priority) {
            *at = a;
            at = &a->right;
            a = a->right;
        } else {
            *at = b;
            at = &b->left;
            b = b->left;
        }
    }
    *at = a ? a : b;
    return root;
}

static void tree_insert(fabric_registrations_t *all, fabric_region_t *r)
{
    fabric_region_t *before, *rest;
    uint64_t hash = (r->from >> 12) * UINT64_C(0x9e3779b97f4a7c15);
    r->priority = (uint32_t)(hash >> 32);
    r->left = r->right = NULL;
    r->kept = true;
    tree_split(all->root, r->from, &before, &rest);
    all->root = tree_join(tree_join(before, r), rest);
    all->bytes += r->to - r->from;
}

static void tree_remove(fabric_registrations_t *all, fabric_region_t *r)
{
    fabric_region_t **p = &all->root;
    while (*p != r)
        p = r->from < (*p)->from ? &(*p)->left : &(*p)->right;
    *p = tree_join(r->left, r->right);
    r->kept = false;
    all->bytes -= r->to - r->from;
}

/* Return the first region that ends behind the address; NULL if there is none. */
static fabric_region_t *tree_find(const fabric_registrations_t *all, uintptr_t at)
{
    fabric_region_t *found = NULL;
    for (fabric_region_t *r = all->root; r;) {
        if (r->to > at) {
            found = r;
            r = r->left;
        } else {
            r = r->right;
        }
    }
    return found;
}

/* ---- Idle and dead regions ---------------------------------------------------------------------------------------------- */

static void idle_append(fabric_registrations_t *all, fabric_region_t *r)
{
    r->older = all->newest;
    r->newer = NULL;
    *(all->newest ? &all->newest->newer : &all->oldest) = r;
    all->newest = r;
}

static void idle_remove(fabric_registrations_t *all, fabric_region_t *r)
{
    *(r->older ? &r->older->newer : &all->oldest) = r->newer;
    *(r->newer ? &r->newer->older : &all->newest) = r->older;
}

/* Stop keeping the region: it is deregistered when it is idle. */
static void region_release(fabric_registrations_t *all, fabric_region_t *r)
{
    tree_remove(all, r);
    if (r->users)
        return;
    idle_remove(all, r);
    r->older = all->dead;
    all->dead = r;
    atomic_store_explicit(&all->any_dead, true, memory_order_relaxed);
}

static void range_release(fabric_registrations_t *all, uintptr_t from, uintptr_t to, uint64_t *count)
{
    for (fabric_region_t *r; (r = tree_find(all, from)) && r->from < to;) {
        region_release(all, r);
        ++*count;
    }
}

static void memory_unmapped(fabric_unmap_listener_t *listener, uintptr_t from, uintptr_t to)
{
    fabric_registrations_t *all = (fabric_registrations_t *)listener;
    range_release(all, from, to, &all->lost);
}

static void region_drop(const fabric_registrations_t *all, fabric_region_t *r)
{
    if (r->handle)
        all->registrar.drop(all->registrar.arg, r->handle);
    free(r);
}

void fabric_registrations_reap(fabric_registrations_t *all)
{
    fabric_unmap_lock();
    fabric_region_t *dead = all->dead;
    all->dead = NULL;
    atomic_store_explicit(&all->any_dead, false, memory_order_relaxed);
    fabric_unmap_unlock();
    while (dead) {
        fabric_region_t *next = dead->older;
        region_drop(all, dead);
        dead = next;
    }
}

/* ---- Uses --------------------------------------------------------------------------------------------------------------- */

/* True if the region's pages are those that were registered.  Under the lock. */
static bool region_is_valid(const fabric_region_t *r)
{
    uint64_t sum;
    return fabric_unmap_watches(r->from, r->to) && fabric_unmap_pages(r->from, r->to, &sum) && sum == r->sum;
}

/* Return the region that contains the bytes, with one more user; NULL if there is none that may be used.  Under the lock. */
static fabric_region_t *region_find(fabric_registrations_t *all, uintptr_t from, uintptr_t to)
{
    fabric_region_t *r = tree_find(all, from);
    if (!r || r->from > from || r->to < to || !r->ready || fabric_unmap_pending())
        return NULL;
    if (all->checks && !region_is_valid(r)) {
        all->replaced++;
        region_release(all, r);
        return NULL;
    }
    if (!r->users++)
        idle_remove(all, r);
    all->found++;
    return r;
}

/* Make room for a number of bytes.  False if regions in use leave none.  Under the lock. */
static bool room_make(fabric_registrations_t *all, size_t bytes)
{
    while (all->bytes + bytes > all->limit && all->oldest)
        region_release(all, all->oldest);
    return all->bytes + bytes <= all->limit;
}

/* Put a region into the tree before it is registered: then no loss of its memory is missed.  Return false if the region is
 * not to be kept.  Under the lock. */
static bool region_announce(fabric_registrations_t *all, fabric_region_t *r)
{
    uintptr_t from = r->from, to = r->to;
    uint64_t count = 0;
    if (fabric_unmap_pending()) /* the memory of overlapping regions may be gone */
        return false;
    for (fabric_region_t *o; (o = tree_find(all, r->from)) && o->from < r->to;) {
        from = o->from < from ? o->from : from;
        to = o->to > to ? o->to : to;
        region_release(all, o);
        count++;
    }
    if (count && to - from <= all->limit / 2) {
        r->from = from;
        r->to = to;
    }
    if (!room_make(all, r->to - r->from) || !fabric_unmap_watch(r->from, r->to))
        return false;
    tree_insert(all, r);
    return true;
}

/* Register the region's pages.  If registration fails, or these pages cannot be kept registered, the region is kept no
 * longer. */
static void region_register(fabric_registrations_t *all, fabric_region_t *r)
{
    r->handle = all->registrar.add(all->registrar.arg, (void *)r->from, r->to - r->from, 0, true);
    bool stays = r->handle && fabric_unmap_pages(r->from, r->to, &r->sum);
    fabric_unmap_lock();
    all->added++;
    r->ready = true;
    if (!stays && r->kept)
        region_release(all, r);
    fabric_unmap_unlock();
}

/* Register bytes for one use.  Return false with errno. */
static bool bytes_register(fabric_registrations_t *all, fabric_region_t *r, void *at, size_t len, int rights)
{
    do
        r->handle = all->registrar.add(all->registrar.arg, at, len, rights, false);
    while (!r->handle && fabric_registrations_trim(all));
    return r->handle;
}

fabric_region_t *fabric_registration_get(fabric_registrations_t *all, void *at, size_t len, int rights)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at & ~(page - 1);
    uintptr_t to = ((uintptr_t)at + len + page - 1) & ~(page - 1);
    fabric_region_t *r = NULL, *fresh = NULL;
    bool keep = to - from <= all->limit, replaced = false;
    if (keep) {
        fabric_unmap_lock();
        uint64_t before = all->replaced;
        r = region_find(all, from, to);
        replaced = all->replaced != before;
        fabric_unmap_unlock();
    }
    if (r)
        return r;
    if (replaced)
        madi_log(
            MADI_LOG_ERROR, "fabric",
            "memory at %p was replaced while it was registered, without an event of the kernel: set MAD_REGISTER_CACHE=0",
            at);
    fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    *fresh = (fabric_region_t){.from = from, .to = to, .users = 1};
    if (keep) {
        fabric_unmap_lock();
        keep = region_announce(all, fresh);
        fabric_unmap_unlock();
        fabric_registrations_reap(all);
    }
    if (keep)
        region_register(all, fresh);
    if (fresh->handle || bytes_register(all, fresh, at, len, rights))
        return fresh;
    int error = errno;
    free(fresh);
    errno = error;
    return NULL;
}

void fabric_registration_put(fabric_registrations_t *all, fabric_region_t *r)
{
    bool idle = false;
    fabric_unmap_lock();
    if (!--r->users) {
        idle = r->kept;
        if (idle)
            idle_append(all, r);
    } else {
        idle = true;
    }
    fabric_unmap_unlock();
    if (!idle)
        region_drop(all, r);
    if (fabric_registrations_reapable(all))
        fabric_registrations_reap(all);
}

/* ---- Begin and end ------------------------------------------------------------------------------------------------------ */

void fabric_registrations_forget(fabric_registrations_t *all, const void *at, size_t len)
{
    uint64_t count = 0;
    fabric_unmap_lock();
    range_release(all, (uintptr_t)at, (uintptr_t)at + len, &count);
    fabric_unmap_unlock();
    fabric_registrations_reap(all);
}

bool fabric_registrations_trim(fabric_registrations_t *all)
{
    fabric_unmap_lock();
    bool any = all->oldest;
    while (all->oldest)
        region_release(all, all->oldest);
    fabric_unmap_unlock();
    fabric_registrations_reap(all);
    return any;
}

bool fabric_registrations_open(fabric_registrations_t *all, const fabric_registrar_t *registrar, size_t limit, bool checks,
                               char *reason, size_t size)
{
    *all = (fabric_registrations_t){.listener.unmapped = memory_unmapped, .registrar = *registrar, .checks = checks};
    if (!limit || !fabric_unmap_listen(&all->listener, reason, size))
        return !limit;
    all->limit = limit;
    return true;
}

void fabric_registrations_fini(fabric_registrations_t *all)
{
    if (all->limit)
        fabric_unmap_ignore(&all->listener);
    fabric_registrations_trim(all);
    all->limit = 0;
}

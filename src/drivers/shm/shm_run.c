/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of units: which ones are free, and how many units are in use.  All functions but the last belong to the sender. */
#include "drivers/shm/shm.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define AHEAD 8 /* an eighth of the window is examined at a time, so that the receiver's counters are read rarely */

static_assert(SHM_BODY_MAX / SHM_UNIT + 1 < UINT8_MAX, "length and back count the units of a run");
static_assert(SHM_WINDOW_MIN / SHM_BODY_SHARE > SHM_CHUNK / SHM_UNIT + 1, "each packet finds a place");

static uint32_t units_of(size_t len)
{
    return (uint32_t)((len + SHM_UNIT - 1) / SHM_UNIT) + 1;
}

bool shm_run_is_back(const shm_link_t *l, uint32_t unit)
{
    return atomic_load_explicit(&l->out->freed[unit], memory_order_acquire) == l->used[unit]; /* pairs with shm_run_free */
}

/* True if the run that begins at this unit was returned.  Its units are then free. */
static bool run_reclaim(shm_link_t *l, uint32_t start)
{
    if (!shm_run_is_back(l, start))
        return false;
    memset(&l->back[start], 0, l->length[start]);
    return true;
}

/* Advance `known` to at least next + n; false if the run at `known` is in use. */
static bool look_ahead(shm_link_t *l, uint32_t n)
{
    uint32_t end = l->next + n, start;
    if (end < l->next + l->window / AHEAD)
        end = l->next + l->window / AHEAD < l->window ? l->next + l->window / AHEAD : l->window;
    while (l->known < end) {
        if (!l->back[l->known]) {
            l->known++;
            continue;
        }
        start = l->known + 1 - l->back[l->known];
        if (!run_reclaim(l, start))
            return l->next + n <= l->known;
        l->known = start + l->length[start];
    }
    return true;
}

static uint32_t window_max(const shm_link_t *l)
{
    const shm_adapter_t *a = (const shm_adapter_t *)l->base.adapter;
    int peers = atomic_load_explicit(&a->n_inboxes, memory_order_relaxed);
    uint32_t share = (uint32_t)((peers < a->cores ? SHM_WINDOW_SHARE : SHM_WINDOW_CROWD) / (peers + 1));
    return share > SHM_UNITS ? SHM_UNITS : share < SHM_WINDOW_MIN ? SHM_WINDOW_MIN : share & ~1u; /* whole pages */
}

/* Allocate the memory from `from` to the unit `to`: a lack of memory is an error here, and not a signal later. */
static bool populate(shm_link_t *l, void *from, uint32_t to)
{
    size_t len = (size_t)((char *)shm_out(l->out->units[to]) - (char *)from);
    return !madvise(from, len, MADV_POPULATE_WRITE) || errno == EINVAL; /* EINVAL: an older kernel */
}

bool shm_window_open(shm_link_t *l)
{
    l->reach = SHM_UNITS;
    return populate(l, l->out, 0);
}

/* Double the window, or extend it so that n units behind `next` are in it; but not beyond the maximum. */
static bool window_grow(shm_link_t *l, uint32_t n)
{
    uint32_t max = window_max(l), to = l->window ? l->window * 2 : SHM_WINDOW_FIRST;
    while (to < l->next + n)
        to *= 2;
    to = to < max ? to : max;
    if (to <= l->window || !populate(l, shm_out(l->out->units[l->window]), to))
        return false;
    l->window = to;
    atomic_store_explicit(&l->out->window, to, memory_order_relaxed);
    return true;
}

/* Return the number of leading units that the current packet may use; allocation wraps around at that unit. */
static inline uint32_t end_of(const shm_link_t *l)
{
    return l->reach < l->window ? l->reach : l->window;
}

/* Extend the window so that n units behind `next` are in it.  Return false if the window is large enough for a body of this
 * length, or if there is no memory. */
static bool run_extends(shm_link_t *l, uint32_t n, size_t len)
{
    bool enough = (len <= SHM_WINDOW_SMALL && l->window >= SHM_WINDOW_MIN) || end_of(l) == l->reach;
    return !enough && window_grow(l, n) && l->next + n <= end_of(l);
}

/* Find the next n free units, round robin.  Runs that the receiver's program keeps lent for long are skipped. */
static bool run_find(shm_link_t *l, uint32_t n, size_t len)
{
    uint32_t passed = 0, start, next = l->next, known = l->known;
    while (passed <= end_of(l)) {
        if (l->next + n > end_of(l) && !run_extends(l, n, len)) {
            if (n > end_of(l))
                return false;
            passed += l->next < end_of(l) ? end_of(l) - l->next : 0;
            l->next = l->known = 0;
        }
        if (look_ahead(l, n))
            return true;
        start = l->known + 1 - l->back[l->known];
        passed += start + l->length[start] - l->next;
        l->next = l->known = start + l->length[start];
    }
    l->next = next;
    l->known = known;
    return false;
}

bool shm_run_is_free(shm_link_t *l, size_t len)
{
    return run_find(l, units_of(len), len);
}

bool shm_run_fits(shm_link_t *l, size_t len)
{
    return shm_run_is_free(l, len) || (end_of(l) == l->window && window_grow(l, units_of(len)) && shm_run_is_free(l, len));
}

bool shm_run_never_fits(const shm_link_t *l, size_t len)
{
    return units_of(len) > end_of(l);
}

static size_t body_max(const shm_link_t *l)
{
    uint32_t units = end_of(l) / SHM_BODY_SHARE;
    return units ? (size_t)(units - 1) * SHM_UNIT : 0;
}

size_t shm_run_max(shm_link_t *l, size_t want)
{
    l->reach = SHM_UNITS;
    while (body_max(l) < want && body_max(l) < SHM_BODY_MAX && window_grow(l, 0))
        ;
    return body_max(l) < SHM_BODY_MAX ? body_max(l) : SHM_BODY_MAX;
}

uint32_t shm_run_take(shm_link_t *l, size_t len)
{
    uint32_t n = units_of(len), at;
    if (MADI_UNLIKELY(l->next + n > l->known || l->next + n > l->reach) && !shm_run_fits(l, len))
        return SHM_RUN_NONE;
    at = l->last = l->next;
    l->next = at + n;
    l->used[at]++;
    l->length[at] = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++)
        l->back[at + i] = (uint8_t)(i + 1);
    return at;
}

void shm_run_drop(shm_link_t *l, uint32_t unit)
{
    l->used[unit]--;
}

void shm_run_free(shm_link_t *l, uint32_t unit)
{
    /* a relaxed load suffices, because no other thread returns this run */
    uint8_t times = atomic_load_explicit(&l->in->freed[unit], memory_order_relaxed);
    atomic_store_explicit(&l->in->freed[unit], (uint8_t)(times + 1), memory_order_release); /* pairs with shm_run_is_back */
    shm_bell_space(l);
}

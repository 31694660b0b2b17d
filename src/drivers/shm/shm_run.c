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

/* Extend the window to this unit.  Its memory is allocated now, so that a lack of memory is an error here and not a
 * signal later. */
static bool window_set(shm_link_t *l, uint32_t to)
{
    void *from = l->window ? shm_out(l->out->units[l->window]) : (void *)l->out;
    size_t len = (size_t)((char *)shm_out(l->out->units[to]) - (char *)from);
    if (madvise(from, len, MADV_POPULATE_WRITE) && errno != EINVAL) /* EINVAL: an older kernel */
        return false;
    l->window = to;
    atomic_store_explicit(&l->out->window, to, memory_order_relaxed);
    return true;
}

bool shm_window_open(shm_link_t *l)
{
    l->reach = SHM_UNITS;
    return window_set(l, SHM_WINDOW_MIN);
}

static bool window_grow(shm_link_t *l)
{
    uint32_t max = window_max(l), to = l->window * 2 < max ? l->window * 2 : max;
    return to > l->window && window_set(l, to);
}

/* Return the number of leading units that the current packet may use; allocation wraps around at that unit. */
static inline uint32_t end_of(const shm_link_t *l)
{
    return l->reach < l->window ? l->reach : l->window;
}

/* Find the next n free units, round robin.  Runs that the receiver's program keeps lent for long are skipped. */
static bool run_find(shm_link_t *l, uint32_t n, size_t len)
{
    uint32_t passed = 0, start, next = l->next, known = l->known;
    while (passed <= end_of(l)) {
        if (l->next + n > end_of(l) && (len <= SHM_WINDOW_SMALL || end_of(l) == l->reach || !window_grow(l))) {
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
    return shm_run_is_free(l, len) || (end_of(l) == l->window && window_grow(l) && shm_run_is_free(l, len));
}

size_t shm_run_max(shm_link_t *l, size_t want)
{
    size_t most;
    l->reach = SHM_UNITS;
    while ((most = (size_t)(end_of(l) / SHM_BODY_SHARE - 1) * SHM_UNIT) < want && most < SHM_BODY_MAX && window_grow(l))
        ;
    return most < SHM_BODY_MAX ? most : SHM_BODY_MAX;
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

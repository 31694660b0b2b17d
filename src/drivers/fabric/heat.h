/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: when a spinning thread polls a network of which each poll may cost system calls: all the time for a while after
 * the last send or arrival (hot), then less and less often, then not at all; then a descriptor or a timer makes the adapter
 * hot again. */
#ifndef FABRIC_HEAT_H
#define FABRIC_HEAT_H

#include <stdatomic.h>
#include <stdbool.h>

#define FABRIC_HOT 4000 /* empty tries until the adapter is no longer hot */

typedef struct fabric_heat {
    atomic_int hot, skip; /* hot: number of polls left until polling stops; skip: number of polls to leave out before the
                           * next one */
} fabric_heat_t;

static inline void fabric_heat(fabric_heat_t *h)
{
    atomic_store_explicit(&h->hot, FABRIC_HOT, memory_order_relaxed);
    atomic_store_explicit(&h->skip, 0, memory_order_relaxed);
}
/* Return the number of polls that are left until polling stops. */
static inline int fabric_heat_left(const fabric_heat_t *h)
{
    return atomic_load_explicit(&h->hot, memory_order_relaxed);
}
/* True if this poll is to be left out; it is then counted as left out. */
static inline bool fabric_heat_skips(fabric_heat_t *h)
{
    int skip = atomic_load_explicit(&h->skip, memory_order_relaxed);
    if (skip <= 0)
        return false;
    atomic_store_explicit(&h->skip, skip - 1, memory_order_relaxed);
    return true;
}
/* Account for a poll that found nothing.  wakes: true if a descriptor reports arrivals, so polling may stop; else polls
 * become rare and never stop. */
static inline void fabric_heat_cool(fabric_heat_t *h, bool wakes)
{
    int left = fabric_heat_left(h), tries = FABRIC_HOT - left;
    if (left > 1 || wakes)
        atomic_store_explicit(&h->hot, left - 1, memory_order_relaxed);
    atomic_store_explicit(&h->skip, tries < 256 ? 0 : tries < 32 * 64 ? tries / 64 : 32, memory_order_relaxed);
}
/* The operation pure_poll. */
static inline bool fabric_heat_polls(fabric_heat_t *h)
{
    return fabric_heat_left(h) > 0 && !fabric_heat_skips(h);
}

#endif

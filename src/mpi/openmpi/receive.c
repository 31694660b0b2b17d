/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: what Open MPI calls while it waits. */
#include "btl_mad.h"

#include <stdlib.h>
#include <time.h>

#define BUDGET 16      /* fragments of one call */
#define CLOCK_EVERY 8   /* calls without any until a look at the clock */
#define ALL_EVERY 64    /* and until all networks get their turn, whatever it says */
#define LOOK_EVERY 4096 /* and until a look at what has become of peers */

/* A fragment that is not there whole: only where packets are shorter than announced, or cut (driver fault). */
typedef struct parked {
    struct parked *next;
    mad_arrival_t arrival;
} parked_t;
static parked_t *parked;
static opal_mutex_t parked_lock = OPAL_MUTEX_STATIC_INIT;
static atomic_int n_parked;

static inline void deliver(mad_peer_t peer, const unsigned char *data, size_t len)
{
    mca_btl_base_segment_t segment; /* of both only what Open MPI reads: clearing all of it takes longer than the rest */
    mca_btl_base_descriptor_t descriptor;
    mca_btl_base_tag_t tag = data[len - 1];
    mca_btl_active_message_callback_t *to = &mca_btl_base_active_message_trigger[tag];
    segment.seg_addr.pval = (void *)data;
    segment.seg_len = len - 1;
    descriptor.des_segments = &segment;
    descriptor.des_segment_count = 1;
    descriptor.des_flags = 0;
    mad_btl_count(&mad_btl->received, len - 1);
    if (OPAL_UNLIKELY(tag == MAD_BTL_TAG_GET))
        mad_btl_answer(peer, data, len - 1);
    else if (OPAL_LIKELY(to->cbfunc != NULL))
        to->cbfunc(&mad_btl_module, tag, &descriptor, to->cbdata);
}

/* False: it is not there yet. */
static __attribute__((noinline)) bool fragment_borrow(const mad_arrival_t *arrival)
{
    const void *data;
    size_t len;
    mad_status_t status = mad_borrow(arrival->cnx, &data, &len);
    if (status == MAD_ERR_AGAIN)
        return false;
    if (status == MAD_OK && len > 0)
        deliver(arrival->peer, data, len);
    mad_end_unpacking(arrival->cnx);
    return true;
}

static inline bool fragment_read(const mad_arrival_t *arrival)
{
    if (OPAL_UNLIKELY(!arrival->len))
        return fragment_borrow(arrival);
    deliver(arrival->peer, arrival->base, arrival->len);
    mad_end_unpacking(arrival->cnx);
    return true;
}

static __attribute__((noinline)) void park(const mad_arrival_t *arrival)
{
    parked_t *p = malloc(sizeof *p);
    if (!p)
        return; /* it stays open until the end */
    p->arrival = *arrival;
    opal_mutex_lock(&parked_lock);
    p->next = parked;
    parked = p;
    atomic_fetch_add(&n_parked, 1);
    opal_mutex_unlock(&parked_lock);
}

/* Each that is there now; one thread has it meanwhile. */
static __attribute__((noinline)) int look_at_parked(void)
{
    parked_t *list, *next;
    int n = 0;
    opal_mutex_lock(&parked_lock);
    list = parked;
    parked = NULL;
    opal_mutex_unlock(&parked_lock);
    for (; list; list = next) {
        next = list->next;
        atomic_fetch_sub(&n_parked, 1);
        if (fragment_read(&list->arrival))
            n++;
        else
            park(&list->arrival);
        free(list);
    }
    return n;
}

/* Oldest first. */
static __attribute__((noinline)) int tell_done(void)
{
    mad_btl_done_t *list = atomic_exchange_explicit(&mad_btl->done, NULL, memory_order_acquire); /* pairs with push_done */
    mad_btl_done_t *oldest = NULL, *next;
    int n = 0;
    for (; list; list = next) {
        next = list->next;
        list->next = oldest;
        oldest = list;
    }
    for (; oldest; oldest = next, n++) {
        next = oldest->next;
        oldest->tell(oldest);
    }
    return n;
}

/* What is there; after a quiet time one fragment, which is likely to be what somebody waits for. */
static inline int take_fragments(int max)
{
    mad_arrival_t arrivals[BUDGET];
    int n = mad_glance(mad_btl->channel, arrivals, max);
    for (int i = 0; i < n; i++)
        if (OPAL_UNLIKELY(!fragment_read(&arrivals[i])))
            park(&arrivals[i]);
    return n;
}

/* Has the kernel's clock ticked?  Where Open MPI gives the core away between two calls there are few of them, and a
 * connection that is being made must not wait for many.  This clock costs next to nothing; ticks are milliseconds. */
static bool ticked(void)
{
    static atomic_long last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (OPAL_LIKELY(atomic_load_explicit(&last, memory_order_relaxed) == now.tv_nsec))
        return false;
    atomic_store_explicit(&last, now.tv_nsec, memory_order_relaxed);
    return true;
}

/* All networks get their turn, and descriptors by the clock.  It takes as long as many looks at what is likely: an answer
 * that comes meanwhile is late, so it is not for those who wait shortly. */
static bool all_now(unsigned turn)
{
    return turn % CLOCK_EVERY == CLOCK_EVERY - 1 && (turn % ALL_EVERY == ALL_EVERY - 1 || ticked());
}

static __attribute__((noinline)) int look_around(void)
{
    mad_progress(mad_btl->session);
    mad_btl_take_bulk(MAD_GLANCE); /* lest offers that nobody gets stand there */
    return take_fragments(BUDGET);
}

/* What is not seen in the channel of fragments. */
static inline int take_what_waits(void)
{
    int n = 0;
    if (OPAL_UNLIKELY(atomic_load_explicit(&mad_btl->done, memory_order_relaxed) != NULL))
        n += tell_done();
    if (OPAL_UNLIKELY(atomic_load_explicit(&n_parked, memory_order_relaxed)))
        n += look_at_parked();
    return n;
}

void mad_btl_serve(int64_t timeout)
{
    mad_arrival_t arrival = {.len = 0};
    if (mad_begin_unpacking_timed(mad_btl->channel, MAD_ANY_SOURCE, timeout, &arrival.cnx) == MAD_OK) {
        arrival.peer = mad_message_peer(arrival.cnx);
        if (!fragment_read(&arrival))
            park(&arrival);
    }
    mad_btl_take_bulk(MAD_GLANCE);
    take_what_waits();
}

int mad_btl_progress(void)
{
    static atomic_uint quiet; /* calls in a row without any; threads may lose some */
    unsigned turn = atomic_load_explicit(&quiet, memory_order_relaxed);
    unsigned calls = atomic_load_explicit(&mad_btl->calls, memory_order_relaxed);
    int n;
    atomic_store_explicit(&mad_btl->calls, calls + 1, memory_order_relaxed);
    n = OPAL_UNLIKELY(all_now(turn)) ? look_around() : take_fragments(turn ? 1 : BUDGET);
    if (OPAL_UNLIKELY(atomic_load_explicit(&mad_btl->gets, memory_order_relaxed)))
        n += mad_btl_take_bulk(0);
    n += take_what_waits();
    atomic_store_explicit(&quiet, n ? 0 : turn + 1, memory_order_relaxed);
    if (OPAL_UNLIKELY(turn % LOOK_EVERY == LOOK_EVERY - 1))
        mad_btl_look_for_deaths();
    return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: what Open MPI calls while it waits. */
#include "btl_mad.h"
#include "engine/wait_policy.h"

#include <endian.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A fragment that is not there whole: a long one, or where packets are shorter than announced, or cut (driver fault). */
typedef struct parked {
    struct parked *next;
    mad_arrival_t arrival;
    unsigned char *bytes; /* of a long one, which has `len` bytes of `total`; NULL: its first block is missing */
    size_t len, total;
    mca_btl_base_tag_t tag;
} parked_t;
static parked_t *parked;
static opal_mutex_t parked_lock = OPAL_MUTEX_STATIC_INIT;
static atomic_int n_parked;

/* What Open MPI is shown.  Of both structures only what it reads is set: clearing all of them takes longer than the rest. */
typedef struct shown {
    mca_btl_base_descriptor_t descriptor;
    mca_btl_base_segment_t segment;
} shown_t;

static inline void shown_begin(shown_t *shown)
{
    shown->descriptor.des_segments = &shown->segment;
    shown->descriptor.des_segment_count = 1;
    shown->descriptor.des_flags = 0;
}

/* What begins with its tag, or has had it before it. */
static inline void fragment_deliver(shown_t *shown, mad_peer_t peer, mca_btl_base_tag_t tag, madi_foreign_t data, size_t len)
{
    mca_btl_active_message_callback_t *to = &mca_btl_base_active_message_trigger[tag];
    shown->segment.seg_addr.pval = madi_foreign_pass_on(data);
    shown->segment.seg_len = len;
    mad_btl_count(&mad_btl->received, len);
    if (OPAL_UNLIKELY(tag == MAD_BTL_TAG_GET))
        mad_btl_answer(peer, data, len);
    else if (OPAL_LIKELY(to->cbfunc != NULL))
        to->cbfunc(mad_btl_module_of(peer), tag, &shown->descriptor, to->cbdata);
}

static void parked_push(parked_t *p)
{
    opal_mutex_lock(&parked_lock);
    p->next = parked;
    parked = p;
    atomic_fetch_add(&n_parked, 1);
    opal_mutex_unlock(&parked_lock);
}

/* The blocks behind the first of a long one, as far as they are there.  False: there are more to come. */
static bool long_read(shown_t *shown, parked_t *p)
{
    const void *data;
    size_t len;
    mad_status_t status = MAD_OK;
    while (p->len < p->total && !(status = mad_borrow(p->arrival.cnx, &data, &len)) && len <= p->total - p->len) {
        madi_foreign_copy(p->bytes + p->len, madi_foreign_of(data), len);
        p->len += len;
    }
    if (p->len < p->total && status == MAD_ERR_AGAIN)
        return false;
    if (p->len == p->total)
        fragment_deliver(shown, p->arrival.peer, p->tag, madi_foreign_of(p->bytes), p->total);
    else
        mad_btl_lost(p->arrival.peer, "a fragment has not the length that it says");
    mad_drop_unpacking(p->arrival.cnx); /* of one that is damaged there may be more */
    free(p->bytes);
    free(p);
    return true;
}

/* Its first block, behind the mark.  False: nothing was done. */
static bool long_begin(shown_t *shown, const mad_arrival_t *arrival, mca_btl_base_tag_t tag, madi_foreign_t data,
                       size_t len, size_t total)
{
    parked_t *p = len <= total && total <= MAD_BTL_FRAGMENT_MAX && arrival->cnx ? calloc(1, sizeof *p) : NULL;
    if (p)
        p->bytes = malloc(total);
    if (!p || !p->bytes) {
        free(p);
        return false;
    }
    p->arrival = (mad_arrival_t){.cnx = arrival->cnx, .peer = arrival->peer};
    madi_foreign_copy(p->bytes, data, len);
    p->tag = tag;
    p->len = len;
    p->total = total;
    if (!long_read(shown, p))
        parked_push(p);
    return true;
}

/* A block that has its tag before it; the message ends here, or is kept until it is whole. */
static __attribute__((noinline)) void marked_read(shown_t *shown, const mad_arrival_t *arrival, madi_foreign_t data,
                                                  size_t len)
{
    unsigned char mark[MAD_BTL_MARK];
    uint32_t follows;
    if (len >= sizeof mark) {
        madi_foreign_copy(mark, data, sizeof mark);
        memcpy(&follows, mark + 4, sizeof follows);
        data = madi_foreign_skip(data, sizeof mark);
        len -= sizeof mark;
        if (!follows)
            fragment_deliver(shown, arrival->peer, mark[1], data, len);
        else if (long_begin(shown, arrival, mark[1], data, len, le32toh(follows)))
            return;
        else
            mad_btl_lost(arrival->peer, "no memory for a fragment, or its length cannot be");
    }
    if (arrival->cnx)
        mad_drop_unpacking(arrival->cnx);
}

static inline void block_read(shown_t *shown, const mad_arrival_t *arrival, madi_foreign_t data, size_t len)
{
    uint8_t tag = madi_foreign_read1(data);
    if (OPAL_UNLIKELY(!tag)) {
        marked_read(shown, arrival, data, len);
        return;
    }
    fragment_deliver(shown, arrival->peer, tag, data, len);
    if (arrival->cnx)
        mad_drop_unpacking(arrival->cnx);
}

/* False: it is not there yet. */
static __attribute__((noinline)) bool fragment_borrow(shown_t *shown, const mad_arrival_t *arrival)
{
    const void *data;
    size_t len;
    mad_status_t status = mad_borrow(arrival->cnx, &data, &len);
    if (status == MAD_ERR_AGAIN)
        return false;
    if (status == MAD_OK && len > 0)
        block_read(shown, arrival, madi_foreign_of(data), len);
    else
        mad_drop_unpacking(arrival->cnx);
    return true;
}

static inline bool fragment_read(shown_t *shown, const mad_arrival_t *arrival)
{
    if (OPAL_LIKELY(arrival->len != 0))
        block_read(shown, arrival, madi_foreign_of(arrival->base), arrival->len);
    else if (arrival->cnx)
        return fragment_borrow(shown, arrival);
    return true;
}

static __attribute__((noinline)) void fragment_park(const mad_arrival_t *arrival)
{
    parked_t *p = calloc(1, sizeof *p);
    if (!p)
        return; /* it stays open until the end */
    p->arrival = *arrival;
    parked_push(p);
}

/* It goes on, and is gone if it is whole. */
static bool parked_read(shown_t *shown, parked_t *p)
{
    if (p->bytes && long_read(shown, p))
        return true;
    if (!p->bytes && fragment_read(shown, &p->arrival)) {
        free(p);
        return true;
    }
    parked_push(p);
    return false;
}

/* Each that is there now; one thread has it meanwhile. */
static __attribute__((noinline)) int look_at_parked(void)
{
    parked_t *list, *next;
    shown_t shown;
    int n = 0;
    shown_begin(&shown);
    opal_mutex_lock(&parked_lock);
    list = parked;
    parked = NULL;
    opal_mutex_unlock(&parked_lock);
    for (; list; list = next) {
        next = list->next;
        atomic_fetch_sub(&n_parked, 1);
        n += parked_read(&shown, list);
    }
    return n;
}

/* Oldest first. */
static __attribute__((noinline)) int done_notify(void)
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
        oldest->complete(oldest);
    }
    return n;
}

static __attribute__((noinline)) void read_fragments(const mad_arrival_t *arrivals, int n)
{
    shown_t shown;
    shown_begin(&shown);
    for (int i = 0; i < n; i++)
        if (OPAL_UNLIKELY(!fragment_read(&shown, &arrivals[i])))
            fragment_park(&arrivals[i]);
}

/* What is there, at most so many. */
static inline int take_fragments(int max)
{
    mad_arrival_t arrivals[MAD_BTL_BUDGET];
    int n = mad_glance(mad_btl->channel, arrivals, max);
    if (n)
        read_fragments(arrivals, n);
    return n;
}

/* Has the kernel's clock btl_clock_ticked?  Where Open MPI gives the core away between two calls there are few of them, and a
 * connection that is being made must not wait for many.  This clock costs next to nothing; ticks are milliseconds. */
static bool btl_clock_ticked(void)
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
static __attribute__((noinline)) int btl_look_around(unsigned turn)
{
    if (madi_poll_due(turn, MADI_POLL_ALL_EVERY) || btl_clock_ticked()) {
        mad_progress(mad_btl->session);
        mad_btl_take_bulk(MAD_GLANCE); /* lest offers that nobody gets stand there */
    }
    if (madi_poll_due(turn, MADI_BTL_YIELD_EVERY) && mad_btl->async)
        sched_yield();
    if (madi_poll_due(turn, MADI_BTL_LOSSES_EVERY))
        mad_btl_look_for_deaths();
    return take_fragments(MAD_BTL_BUDGET);
}

/* What is not seen in the channel of fragments. */
static inline int take_what_waits(void)
{
    int n = 0;
    if (OPAL_UNLIKELY(atomic_load_explicit(&mad_btl->done, memory_order_relaxed) != NULL))
        n += done_notify();
    if (OPAL_UNLIKELY(atomic_load_explicit(&n_parked, memory_order_relaxed)))
        n += look_at_parked();
    return n;
}

void mad_btl_serve(int64_t timeout)
{
    mad_arrival_t arrival = {.len = 0};
    shown_t shown;
    shown_begin(&shown);
    if (mad_begin_unpacking_timed(mad_btl->channel, MAD_ANY_SOURCE, timeout, &arrival.cnx) == MAD_OK) {
        arrival.peer = mad_message_peer(arrival.cnx);
        if (!fragment_read(&shown, &arrival))
            fragment_park(&arrival);
    }
    mad_btl_take_bulk(MAD_GLANCE);
    take_what_waits();
}

/* After a quiet time one fragment, which is likely to be what somebody waits for. */
int mad_btl_progress(void)
{
    static atomic_uint quiet; /* calls in a row without any; threads may lose some */
    unsigned turn = atomic_load_explicit(&quiet, memory_order_relaxed);
    unsigned calls = atomic_load_explicit(&mad_btl->calls, memory_order_relaxed);
    int n;
    atomic_store_explicit(&mad_btl->calls, calls + 1, memory_order_relaxed);
    n = OPAL_UNLIKELY(madi_poll_due(turn, MADI_POLL_CLOCK_EVERY)) ? btl_look_around(turn)
                                                                  : take_fragments(turn ? 1 : MAD_BTL_BUDGET);
    if (OPAL_UNLIKELY(atomic_load_explicit(&mad_btl->gets, memory_order_relaxed)))
        n += mad_btl_take_bulk(0);
    n += take_what_waits();
    atomic_store_explicit(&quiet, n ? 0 : turn + 1, memory_order_relaxed);
    return n;
}

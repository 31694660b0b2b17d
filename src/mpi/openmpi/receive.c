/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: the functions that Open MPI calls while it waits. */
#include "btl_mad.h"
#include "engine/wait_policy.h"
#include "mpi/oldest_first.h"
#include "mpi/openmpi/tally.h"

#include <endian.h>
#include <madeleine/runtime.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A fragment that has not arrived completely: a long one, or one whose packets are shorter than announced, or were split
 * (driver fault). */
typedef struct parked {
    struct parked *next;
    mad_arrival_t arrival;
    /* a long fragment, of which `len` of `total` bytes have arrived; NULL if its first block is missing */
    unsigned char *bytes;
    size_t len, total;
    mca_btl_base_tag_t tag;
} parked_t;
static parked_t *parked;
static opal_mutex_t parked_lock = OPAL_MUTEX_STATIC_INIT;
static atomic_int n_parked;
static mad_btl_tally_t parked_kept; /* numbers of parked fragments, with those that look_at_parked reads; under the lock */

/* Structures passed to Open MPI's callback.  Only fields that Open MPI reads are set, because clearing all fields takes
 * longer than the rest. */
typedef struct shown {
    mad_ompi_received_t descriptor;
    mca_btl_base_segment_t segment;
} shown_t;

static inline void shown_begin(shown_t *shown)
{
    shown->descriptor.des_segments = &shown->segment;
    shown->descriptor.des_segment_count = 1;
}

/* Deliver a fragment that begins with its tag, or whose mark was removed. */
static inline void fragment_deliver(shown_t *shown, mad_peer_t peer, mca_btl_base_tag_t tag, madi_foreign_t data, size_t len)
{
    mca_btl_active_message_callback_t *to = &mca_btl_base_active_message_trigger[tag];
    shown->segment.seg_addr.pval = madi_foreign_pass_on(data);
    shown->segment.seg_len = len;
    mad_btl_count(&mad_btl->received, len);
    if (OPAL_UNLIKELY(tag == MAD_BTL_TAG_GET))
        mad_btl_answer(peer, data, len);
    else if (OPAL_LIKELY(to->cbfunc != NULL))
        mad_ompi_deliver(to, mad_btl_module_of(peer), tag, &shown->descriptor,
                         mad_ompi_needs_endpoint(tag) ? mad_btl_endpoint_of(peer) : NULL);
}

static void parked_push(parked_t *p)
{
    opal_mutex_lock(&parked_lock);
    p->next = parked;
    parked = p;
    atomic_fetch_add(&n_parked, 1);
    opal_mutex_unlock(&parked_lock);
}

/* Park a fragment for the first time.  Return false if its peer has too many, or if out of memory; the peer then counts as
 * lost. */
static bool parked_add(parked_t *p)
{
    bool added;
    opal_mutex_lock(&parked_lock);
    added = mad_btl_tally_add(&parked_kept, p->arrival.peer, MAD_BTL_PARKED_MAX);
    opal_mutex_unlock(&parked_lock);
    if (added)
        parked_push(p);
    else
        mad_btl_lost(p->arrival.peer, "it sends too many fragments that stay incomplete, or memory is lacking");
    return added;
}

/* Unpack further blocks of a long fragment, as far as they have arrived.  Return false if some blocks are missing. */
static bool long_read(shown_t *shown, parked_t *p)
{
    const void *data;
    size_t len;
    mad_status_t status = MAD_OK;
    while (p->len < p->total && !(status = mad_unpack_borrow(p->arrival.message, &data, &len)) && len <= p->total - p->len) {
        madi_foreign_copy(p->bytes + p->len, madi_foreign_of(data), len);
        p->len += len;
    }
    if (p->len < p->total && status == MAD_ERR_AGAIN)
        return false;
    if (p->len == p->total)
        fragment_deliver(shown, p->arrival.peer, p->tag, madi_foreign_of(p->bytes), p->total);
    else
        mad_btl_lost(p->arrival.peer, "a fragment's length differs from its header");
    mad_message_drop(p->arrival.message); /* a damaged message may have further blocks */
    free(p->bytes);
    free(p);
    return true;
}

/* Begin a long fragment: data is its first block, without the mark of 8 bytes that precedes it (btl_mad.h).  Return
 * false, without an effect, if the lengths are invalid, or if out of memory. */
static bool long_begin(shown_t *shown, const mad_arrival_t *arrival, mca_btl_base_tag_t tag, madi_foreign_t data, size_t len,
                       size_t total)
{
    parked_t *p = len <= total && total <= MAD_BTL_FRAGMENT_MAX && arrival->message ? calloc(1, sizeof *p) : NULL;
    if (p)
        p->bytes = malloc(total);
    if (!p || !p->bytes) {
        free(p);
        return false;
    }
    p->arrival = (mad_arrival_t){.message = arrival->message, .peer = arrival->peer};
    madi_foreign_copy(p->bytes, data, len);
    p->tag = tag;
    p->len = len;
    p->total = total;
    if (!long_read(shown, p) && !parked_add(p)) {
        mad_message_drop(p->arrival.message);
        free(p->bytes);
        free(p);
    }
    return true;
}

/* Handle a block with a mark.  The message ends here, or is kept until it is complete. */
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
            mad_btl_lost(arrival->peer, "no memory for a fragment, or its length is invalid");
    }
    if (arrival->message)
        mad_message_drop(arrival->message);
}

static inline void block_read(shown_t *shown, const mad_arrival_t *arrival, madi_foreign_t data, size_t len)
{
    uint8_t tag = madi_foreign_read1(data);
    if (OPAL_UNLIKELY(!tag)) {
        marked_read(shown, arrival, data, len);
        return;
    }
    fragment_deliver(shown, arrival->peer, tag, data, len);
    if (arrival->message)
        mad_message_drop(arrival->message);
}

/* Read a fragment in place.  Return false if it has not arrived yet. */
static __attribute__((noinline)) bool fragment_borrow(shown_t *shown, const mad_arrival_t *arrival)
{
    const void *data;
    size_t len;
    mad_status_t status = mad_unpack_borrow(arrival->message, &data, &len);
    if (status == MAD_ERR_AGAIN)
        return false;
    if (status == MAD_OK && len > 0)
        block_read(shown, arrival, madi_foreign_of(data), len);
    else
        mad_message_drop(arrival->message);
    return true;
}

static inline bool fragment_read(shown_t *shown, const mad_arrival_t *arrival)
{
    if (OPAL_LIKELY(arrival->len != 0))
        block_read(shown, arrival, madi_foreign_of(arrival->base), arrival->len);
    else if (arrival->message)
        return fragment_borrow(shown, arrival);
    return true;
}

static __attribute__((noinline)) void fragment_park(const mad_arrival_t *arrival)
{
    parked_t *p = calloc(1, sizeof *p);
    if (!p)
        return; /* the message stays open until the session ends */
    p->arrival = *arrival;
    if (!parked_add(p)) {
        mad_message_drop(p->arrival.message);
        free(p);
    }
}

/* Continue a parked fragment.  If the fragment is complete, free it and return true. */
static bool parked_read(shown_t *shown, parked_t *p)
{
    mad_peer_t peer = p->arrival.peer;
    bool is_long = p->bytes != NULL;
    if (!(is_long ? long_read(shown, p) : fragment_read(shown, &p->arrival))) {
        parked_push(p);
        return false;
    }
    if (!is_long)
        free(p);
    opal_mutex_lock(&parked_lock);
    mad_btl_tally_remove(&parked_kept, peer);
    opal_mutex_unlock(&parked_lock);
    return true;
}

/* Continue all parked fragments; one thread at a time.  Return the number of fragments completed. */
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

/* Report all completions to Open MPI, oldest first.  Return their number. */
static __attribute__((noinline)) int done_notify(void)
{
    mad_btl_done_t *list =
        atomic_exchange_explicit(&mad_btl->done, NULL, memory_order_acquire); /* pairs with mad_btl_push_done */
    mad_btl_done_t *oldest, *next;
    int n = 0;
    MAD_OLDEST_FIRST(list, oldest);
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

/* Handle the fragments that have arrived, at most max. */
static inline int take_fragments(int max)
{
    mad_arrival_t arrivals[MAD_BTL_BUDGET];
    int n = mad_channel_poll(mad_btl->channel, arrivals, max);
    if (n)
        read_fragments(arrivals, n);
    return n;
}

/* True if the kernel's coarse clock has advanced since the last call.  A tick takes some milliseconds; reading this
 * clock costs almost nothing.  If Open MPI yields between two calls, calls are rare, and a connection in progress
 * must not wait for many of them. */
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

/* Poll all networks, and also the descriptors if the clock has advanced.  This takes as long as many calls that poll only
 * likely sources, and a fragment that arrives meanwhile is delayed.  So short waits do not call it. */
static __attribute__((noinline)) int btl_look_around(unsigned turn)
{
    if (madi_poll_due(turn, MADI_POLL_ALL_EVERY) || btl_clock_ticked()) {
        mad_progress(mad_btl->session);
        mad_btl_take_bulk(false); /* read the offers now and then, so that they do not accumulate */
    }
    if (madi_poll_due(turn, MADI_BTL_YIELD_EVERY) && mad_btl->async)
        sched_yield();
    if (madi_poll_due(turn, MADI_BTL_LOSSES_EVERY))
        mad_btl_look_for_deaths();
    return take_fragments(MAD_BTL_BUDGET);
}

/* Handle completions and parked fragments.  Return the number of events. */
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
    if (mad_begin_unpacking_within(mad_btl->channel, MAD_ANY_SOURCE, timeout, &arrival.message) == MAD_OK) {
        arrival.peer = mad_message_peer(arrival.message);
        if (!fragment_read(&shown, &arrival))
            fragment_park(&arrival);
    }
    mad_btl_take_bulk(false);
    take_what_waits();
}

/* Make progress.  After a quiet time only one fragment is taken, because the program probably waits for it. */
int mad_btl_progress(void)
{
    static atomic_uint quiet; /* consecutive calls without a fragment; calls of several threads may be missed */
    unsigned turn = atomic_load_explicit(&quiet, memory_order_relaxed);
    unsigned calls = atomic_load_explicit(&mad_btl->calls, memory_order_relaxed);
    int n;
    atomic_store_explicit(&mad_btl->calls, calls + 1, memory_order_relaxed);
    n = OPAL_UNLIKELY(madi_poll_due(turn, MADI_POLL_CLOCK_EVERY)) ? btl_look_around(turn)
                                                                  : take_fragments(turn ? 1 : MAD_BTL_BUDGET);
    if (OPAL_UNLIKELY(atomic_load_explicit(&mad_btl->gets, memory_order_relaxed)))
        n += mad_btl_take_bulk(true);
    n += take_what_waits();
    atomic_store_explicit(&quiet, n ? 0 : turn + 1, memory_order_relaxed);
    return n;
}

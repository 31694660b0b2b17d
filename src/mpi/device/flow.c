/* SPDX-License-Identifier: BSD-3-Clause */
/* How much a peer may send unasked: what is kept for receives that were not posted is bounded so.  Both sides count what
 * messages cost, their length and MAD_DEV_HEAD_COST.  A sender has MAD_DEV_WINDOW at first; as messages are received the
 * receiver says how much more there may be in all, and lets the window of a sender that needs it grow out of
 * MAD_DEV_WINDOWS.  A sender without more sends heads (ask.c): a message is always matched in its place, so nothing waits
 * for a window. */
#include "inside.h"

#include <stdlib.h>

static MAD_DEV_RARE flow_t *flow_first(mad_dev_t *dev, mad_peer_t peer)
{
    uint32_t k = 25 - (uint32_t)__builtin_clz((uint32_t)peer + FLOWS);
    if (!dev->flows[k])
        atomic_store_explicit(&dev->flows[k], calloc((size_t)FLOWS << k, sizeof(flow_t)), memory_order_release);
    return flow_find(dev, peer);
}

/* Under the lock.  NULL: no memory. */
static inline flow_t *flow_make(mad_dev_t *dev, mad_peer_t peer)
{
    flow_t *f = flow_find(dev, peer);
    return f ? f : flow_first(dev, peer);
}

/* ---- At the sender ----------------------------------------------------------------------------------------------- */

/* There is nothing of this peer yet, or too much was sent. */
MAD_DEV_RARE bool flow_take_more(mad_dev_t *dev, mad_peer_t to, uint64_t cost)
{
    flow_t *f = flow_find(dev, to);
    if (!f) {
        dev_lock(dev);
        f = flow_make(dev, to);
        dev_unlock(dev);
        if (!f)
            return true; /* nothing is counted: it is the receiver's loss, and small */
        if (flow_take_of(dev, f, cost))
            return true;
    }
    mad_dev_progress(dev); /* it may have said more meanwhile, to a program that only sends */
    return flow_take_of(dev, f, cost);
}

void flow_untake(mad_dev_t *dev, mad_peer_t to, uint64_t cost)
{
    flow_t *f = flow_find(dev, to);
    if (f)
        flow_count(dev, f, -cost);
}

void flow_more(mad_dev_t *dev, mad_peer_t from, uint64_t more)
{
    flow_t *f = flow_find(dev, from);
    if (f && more > atomic_load_explicit(&f->more, memory_order_relaxed))
        atomic_store_explicit(&f->more, more, memory_order_relaxed);
}

/* ---- At the receiver --------------------------------------------------------------------------------------------- */

static void tell(mad_dev_t *dev, mad_peer_t to, flow_t *f)
{
    f->told += f->due;
    f->due = 0;
    send_answer(dev, to, &(head_t){.kind = HEAD_MORE, .flags = FLAG_WIDE, .number = f->told});
}

void flow_kept(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = flow_make(dev, from);
    uint64_t window;
    if (!f)
        return;
    f->kept += cost;
    window = MAD_DEV_WINDOW + f->grown;
    if (f->kept > window / 2 && dev->windows >= window) {
        dev->windows -= window;
        f->grown += window;
        f->due += window;
        tell(dev, from, f);
    }
}

MAD_DEV_RARE void flow_due(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = flow_make(dev, from);
    if (!f)
        return;
    f->due += cost;
    if (f->due >= MAD_DEV_WINDOW / 4)
        tell(dev, from, f);
}

void flow_unkept(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = flow_find(dev, from);
    if (f)
        f->kept -= f->kept < cost ? f->kept : cost;
    flow_met(dev, from, cost);
}

void flow_fini(mad_dev_t *dev)
{
    for (int k = 0; k < FLOW_CHUNKS; k++)
        free(dev->flows[k]);
}

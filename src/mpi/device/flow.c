/* SPDX-License-Identifier: BSD-3-Clause */
/* Maximum amount that a peer may send without a grant; this limit bounds the memory for messages that no receive has
 * matched.  Both sides count the cost of messages: their length and MAD_DEV_ENVELOPE_COST.  A sender starts with
 * MAD_DEV_WINDOW.  As messages are received, the receiver raises the limit, and lets the window of a sender that needs
 * more grow out of MAD_DEV_WINDOWS.  A sender beyond its limit sends only envelopes (rendezvous.c).  So each message is
 * matched in order, and no message waits for a window.  A sender that exceeds its limit counts as lost. */
#include "inside.h"

#include <stdlib.h>

static MAD_DEV_RARE flow_t *flow_first(mad_dev_t *dev, mad_peer_t peer)
{
    uint32_t k = 25 - (uint32_t)__builtin_clz((uint32_t)peer + FLOWS);
    if (!dev->flows[k])
        atomic_store_explicit(&dev->flows[k], calloc((size_t)FLOWS << k, sizeof(flow_t)), memory_order_release);
    return dev_flow_find(dev, peer);
}

flow_t *dev_flow_make(mad_dev_t *dev, mad_peer_t peer)
{
    flow_t *f = dev_flow_find(dev, peer);
    return f ? f : flow_first(dev, peer);
}

/* ---- At the sender ----------------------------------------------------------------------------------------------- */

/* Slow path of dev_flow_take: the peer has no flow yet, or its limit is reached. */
MAD_DEV_RARE bool dev_flow_take_slow(mad_dev_t *dev, mad_peer_t to, uint64_t cost)
{
    flow_t *f = dev_flow_find(dev, to);
    if (!f) {
        dev_lock(dev);
        f = dev_flow_make(dev, to);
        dev_unlock(dev);
        if (!f)
            return false; /* the message asks for a grant, because the receiver counts messages beyond the window as a breach */
        if (dev_flow_take_from(dev, f, cost))
            return true;
    }
    mad_dev_progress(dev); /* the receiver may have raised the limit, which a program that only sends has not read yet */
    return dev_flow_take_from(dev, f, cost);
}

void dev_flow_refund(mad_dev_t *dev, mad_peer_t to, uint64_t cost)
{
    flow_t *f = dev_flow_find(dev, to);
    if (f)
        dev_flow_count(dev, f, -cost);
}

void dev_flow_raise(mad_dev_t *dev, mad_peer_t from, uint64_t more)
{
    flow_t *f = dev_flow_find(dev, from);
    if (f && more > atomic_load_explicit(&f->more, memory_order_relaxed))
        atomic_store_explicit(&f->more, more, memory_order_relaxed);
}

/* ---- At the receiver --------------------------------------------------------------------------------------------- */

static void window_send(mad_dev_t *dev, mad_peer_t to, flow_t *f)
{
    f->announced += f->due;
    f->due = 0;
    dev_answer_send(dev, to, &(wire_envelope_t){.kind = KIND_MORE, .flags = FLAG_WIDE, .number = f->announced});
}

void dev_flow_hold(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = dev_flow_make(dev, from);
    uint64_t window;
    if (!f)
        return;
    f->kept += cost;
    window = MAD_DEV_WINDOW + f->grown;
    if (f->kept > window / 2 && dev->windows >= window) {
        dev->windows -= window;
        f->grown += window;
        f->due += window;
        window_send(dev, from, f);
    }
    if (f->kept > MAD_DEV_WINDOW + f->grown)
        dev_peer_breach(dev, from);
}

MAD_DEV_RARE void dev_flow_refund_pending(mad_dev_t *dev, mad_peer_t from, uint64_t cost)
{
    flow_t *f = dev_flow_make(dev, from);
    if (!f)
        return;
    f->due += cost;
    if (f->due >= MAD_DEV_WINDOW / 4)
        window_send(dev, from, f);
}

void dev_flow_fini(mad_dev_t *dev)
{
    for (int k = 0; k < FLOW_CHUNKS; k++)
        free(dev->flows[k]);
}

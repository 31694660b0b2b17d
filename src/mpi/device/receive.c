/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives, probes, claims, cancellation. */
#include "quick.h"

/* ---- Receives ---------------------------------------------------------------------------------------------------- */

static op_t *op_of_receive(mad_dev_t *dev, const mad_dev_receive_t *r)
{
    op_t *op = dev_op_new(dev);
    if (!op)
        return NULL;
    op->space = r->space;
    op->peer = r->from;
    op->tag = r->tag;
    op->ignore = r->ignore;
    op->n = r->n;
    for (int i = 0; i < r->n; i++) {
        op->pieces[i] = r->pieces[i];
        op->room += r->pieces[i].iov_len;
    }
    op->multi = r->multi;
    op->context = r->context;
    op->flags = r->flags;
    return op;
}

/* Complete a receive without a message. */
static void receive_fail(mad_dev_t *dev, op_t *op, mad_status_t status)
{
    op->done.status = status;
    op->done.source = op->peer;
    op->done.tag = op->tag;
    dev_op_complete(dev, op);
}

/* Give a posted multi-receive all unexpected messages that match, until the receive is closed. */
static void multi_fill(mad_dev_t *dev, op_t *op)
{
    matcher_t *m = &dev->matchers[op->space];
    mad_dev_message_t *u;
    while ((u = dev_match_receive(m, op->peer, op->tag, op->ignore))) {
        bool last;
        op_t *part = dev_op_part(dev, op, u->envelope.len);
        if (!part)
            return; /* later messages may overtake this one when memory is free again: only the order is lost */
        last = op->closed;
        dev_match_take(m, u);
        dev_message_meet(dev, part, u);
        if (last)
            return;
    }
}

static inline bool receive_good(const mad_dev_receive_t *r)
{
    return r->n >= 0 && r->n <= MAD_DEV_PIECES && (!r->multi || r->n == 1);
}

static mad_status_t receive_post(mad_dev_t *dev, op_t *op)
{
    op->quick = op->n == 1 && !op->multi;
    if (dev_match_post(dev, op)) {
        if (dev->watch)
            dev_peer_watch(dev, op->peer);
        if (op->multi)
            multi_fill(dev, op);
        return MAD_OK;
    }
    dev_op_free(dev, op);
    return MAD_ERR_NOMEM;
}

/* Receive a kept message at once, and free it.  Return false, and do nothing, unless the message's payload is here and
 * fits. */
__attribute__((always_inline)) static inline bool message_fetch(mad_dev_t *dev, matcher_t *m, mad_dev_message_t *u,
                                                                struct iovec piece, mad_dev_got_t *got)
{
    const dev_envelope_t *e = &u->envelope;
    size_t len = e->len;
    if (!u->here || len > piece.iov_len)
        return false;
    got->tag = e->tag;
    got->data = e->data;
    got->source = e->source;
    got->has_data = e->has_data;
    got->len = len;
    got->buffer = piece.iov_base;
    if (MAD_DEV_LIKELY(len == 8)) /* the most common length, copied without a function call */
        memcpy(piece.iov_base, u->bytes, 8);
    else if (len)
        memcpy(piece.iov_base, u->bytes, len);
    dev_match_take(m, u);
    if (MAD_DEV_LIKELY(e->cost))
        dev_flow_release(dev, e->source, e->cost);
    if (MAD_DEV_LIKELY(len <= sizeof u->inside))
        dev_message_free_short(dev, u);
    else
        dev_message_free(dev, u);
    return true;
}

/* Receive a kept message at once, in place of posting the receive.  Return false, and do nothing, if there is no such
 * message, or if the message is not complete or longer than the receive. */
static inline bool receive_kept(mad_dev_t *dev, const mad_dev_receive_t *r)
{
    matcher_t *m = &dev->matchers[r->space];
    mad_dev_message_t *u = r->n == 1 && !r->multi ? dev_match_receive(m, r->from, r->tag, r->ignore) : NULL;
    mad_dev_got_t got;
    if (!u || !message_fetch(dev, m, u, r->pieces[0], &got))
        return false;
    dev->notify_received(dev->arg, r->context, r->flags, &got);
    return true;
}

static __attribute__((noinline)) mad_status_t receive_other(mad_dev_t *dev, const mad_dev_receive_t *r)
{
    matcher_t *m = &dev->matchers[r->space];
    mad_dev_message_t *u;
    mad_status_t lost;
    op_t *op;
    if (receive_kept(dev, r))
        return MAD_OK;
    /* take shown messages first: they arrived before this receive was posted, and before any later failure */
    if (dev_shown_waits(dev))
        dev_shown_take(dev, true);
    op = op_of_receive(dev, r);
    if (!op)
        return MAD_ERR_NOMEM;
    u = op->multi ? NULL : dev_match_receive(m, op->peer, op->tag, op->ignore);
    if (u) {
        dev_match_take(m, u);
        dev_message_meet(dev, op, u);
        return MAD_OK;
    }
    lost = dev_peer_status(dev, op->peer);
    if (!lost)
        return receive_post(dev, op);
    receive_fail(dev, op, lost);
    return MAD_OK;
}

/* Receive the first message that waits in dev->shown at once, in place of posting the receive.  Return false, and do
 * nothing, if the receive does not match that message, or if an older receive or an older message might come first. */
static bool receive_shown(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore, struct iovec piece, void *context,
                          uint64_t flags)
{
    const matcher_t *m = &dev->matchers[MAD_DEV_TAGGED];
    mad_dev_got_t got;
    if (m->posted || m->first || !dev_arrival_fetch(dev, &dev->shown[dev->next_shown], from, tag, ignore, piece, &got))
        return false;
    dev->next_shown++;
    dev->notify_received(dev->arg, context, flags, &got);
    return true;
}

/* Receive a shown message at once, or else post the receive on the fast path.  Return false, without an effect, if neither
 * is possible. */
static bool receive_quick(mad_dev_t *dev, const mad_dev_receive_t *r)
{
    bool waits = dev_shown_waits(dev);
    if (waits && r->space == MAD_DEV_TAGGED &&
        receive_shown(dev, r->from, r->tag, r->ignore, r->pieces[0], r->context, r->flags))
        return true;
    if (!dev_post_quick(dev, r->space, r->from, r->tag, r->ignore, r->pieces[0], r->context, r->flags))
        return false;
    if (waits)
        dev_shown_take(dev, false);
    return true;
}

mad_status_t mad_dev_receive(mad_dev_t *dev, const mad_dev_receive_t *r)
{
    mad_status_t status = MAD_OK;
    dev_lock(dev);
    if (r->n != 1 || r->multi || !receive_quick(dev, r))
        status = receive_good(r) ? receive_other(dev, r) : MAD_ERR_INVAL;
    dev_unlock(dev);
    return status;
}

static __attribute__((noinline)) mad_status_t receive_one_other(mad_dev_t *dev, mad_peer_t from, uint64_t tag,
                                                                uint64_t ignore, struct iovec piece, void *context)
{
    mad_dev_receive_t r = {.from = from, .tag = tag, .ignore = ignore, .pieces = &piece, .n = 1, .context = context};
    return mad_dev_receive(dev, &r);
}

/* Receive a kept message, or else post the receive. */
static inline mad_status_t receive_one_kept(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore,
                                            struct iovec piece, void *context)
{
    matcher_t *m = &dev->matchers[MAD_DEV_TAGGED];
    mad_dev_message_t *u = dev_match_receive(m, from, tag, ignore);
    mad_dev_got_t got;
    if (!u || !message_fetch(dev, m, u, piece, &got))
        return receive_one_other(dev, from, tag, ignore, piece, context);
    dev->notify_received(dev->arg, context, 0, &got);
    return MAD_OK;
}

/* Like mad_dev_receive_one, while shown messages wait. */
static inline mad_status_t receive_one_shown(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore,
                                             struct iovec piece, void *context)
{
    if (receive_shown(dev, from, tag, ignore, piece, context, 0))
        return MAD_OK;
    if (!dev_post_quick(dev, MAD_DEV_TAGGED, from, tag, ignore, piece, context, 0))
        return receive_one_other(dev, from, tag, ignore, piece, context);
    dev_shown_take(dev, false);
    return MAD_OK;
}

/* Like mad_dev_receive_one, off the fast path. */
static __attribute__((noinline)) mad_status_t receive_one_rare(mad_dev_t *dev, mad_peer_t from, uint64_t tag,
                                                               uint64_t ignore, struct iovec piece, void *context)
{
    if (!dev->threaded && dev->matchers[MAD_DEV_TAGGED].first)
        return receive_one_kept(dev, from, tag, ignore, piece, context);
    if (!dev->threaded && dev_shown_waits(dev))
        return receive_one_shown(dev, from, tag, ignore, piece, context);
    return receive_one_other(dev, from, tag, ignore, piece, context);
}

mad_status_t mad_dev_receive_one(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore, struct iovec piece,
                                 void *context)
{
    if (MAD_DEV_LIKELY(dev_receive_one_quick(dev, from, tag, ignore, piece, context)))
        return MAD_OK;
    return receive_one_rare(dev, from, tag, ignore, piece, context);
}

mad_status_t mad_dev_receive_now(mad_dev_t *dev, mad_peer_t from, uint64_t tag, uint64_t ignore, struct iovec piece,
                                 mad_dev_got_t *got)
{
    matcher_t *m = &dev->matchers[MAD_DEV_TAGGED];
    mad_dev_message_t *u;
    if (dev->threaded || dev->is_stuck)
        return MAD_ERR_AGAIN;
    u = dev_match_receive(m, from, tag, ignore);
    if (u)
        return message_fetch(dev, m, u, piece, got) ? MAD_OK : MAD_ERR_AGAIN;
    if (m->posted || dev->n_lost)
        return MAD_ERR_AGAIN;
    if (!dev_shown_waits(dev) && !dev_shown_poll(dev))
        return MAD_ERR_AGAIN;
    if (!dev_arrival_fetch(dev, &dev->shown[dev->next_shown], from, tag, ignore, piece, got))
        return MAD_ERR_AGAIN;
    dev->next_shown++;
    return MAD_OK;
}

/* ---- Probes ------------------------------------------------------------------------------------------------------ */

static void message_claim(mad_dev_t *dev, mad_dev_message_t *u, void *context)
{
    u->context = context;
    u->prev = NULL;
    u->next = dev->claimed;
    if (u->next)
        u->next->prev = u;
    dev->claimed = u;
}

static mad_dev_message_t *message_unclaim(mad_dev_t *dev, void *context)
{
    mad_dev_message_t *u = dev->claimed;
    while (u && u->context != context)
        u = u->next;
    if (!u)
        return NULL;
    if (u->prev)
        u->prev->next = u->next;
    else
        dev->claimed = u->next;
    if (u->next)
        u->next->prev = u->prev;
    return u;
}

mad_status_t mad_dev_probe(mad_dev_t *dev, const mad_dev_receive_t *r, mad_dev_probe_t how, mad_dev_done_t *found)
{
    matcher_t *m = &dev->matchers[r->space];
    mad_dev_message_t *u;
    mad_status_t status = MAD_OK;
    dev_lock(dev);
    if (dev_shown_waits(dev))
        dev_shown_take(dev, true);
    u = dev_match_receive(m, r->from, r->tag, r->ignore);
    if (u) {
        *found = (mad_dev_done_t){.context = r->context,
                                  .flags = r->flags,
                                  .source = u->envelope.source,
                                  .tag = u->envelope.tag,
                                  .data = u->envelope.data,
                                  .has_data = u->envelope.has_data,
                                  .whole = u->envelope.len,
                                  .len = u->envelope.len};
        if (how != MAD_DEV_PEEK)
            dev_match_take(m, u);
        if (how == MAD_DEV_CLAIM)
            message_claim(dev, u, r->context);
        if (how == MAD_DEV_DISCARD)
            dev_message_drop(dev, u);
    } else {
        status = dev_peer_status(dev, r->from);
        if (!status)
            status = MAD_ERR_AGAIN;
    }
    dev_unlock(dev);
    return status;
}

mad_status_t mad_dev_receive_claimed(mad_dev_t *dev, const mad_dev_receive_t *r, bool discard)
{
    mad_dev_message_t *u;
    mad_status_t status = MAD_OK;
    op_t *op = NULL;
    if (!receive_good(r))
        return MAD_ERR_INVAL;
    dev_lock(dev);
    if (!discard)
        op = op_of_receive(dev, r);
    u = discard || op ? message_unclaim(dev, r->context) : NULL;
    if (!discard && !op)
        status = MAD_ERR_NOMEM;
    else if (!u)
        status = MAD_ERR_INVAL;
    if (!status && discard) {
        dev_message_drop(dev, u);
    } else if (!status) {
        op->multi = 0;
        dev_message_meet(dev, op, u);
    } else if (op) {
        dev_op_free(dev, op);
    }
    dev_unlock(dev);
    return status;
}

/* ---- Cancellation ------------------------------------------------------------------------------------------------ */

/* End a receive that is no longer posted.  A multi-receive ends with the last of its parts. */
static void receive_withdrawn(mad_dev_t *dev, op_t *op, mad_status_t status)
{
    dev_op_settle(op);
    op->closed = true;
    if (op->parts == 0)
        receive_fail(dev, op, status);
}

mad_status_t mad_dev_cancel(mad_dev_t *dev, void *context)
{
    op_t *op;
    dev_lock(dev);
    op = dev_match_find(dev, context);
    if (op) {
        dev_match_unpost(&dev->matchers[op->space], op);
        receive_withdrawn(dev, op, MAD_ERR_CANCELLED);
    }
    dev_unlock(dev);
    return op ? MAD_OK : MAD_ERR_TOO_LATE;
}

void dev_receives_fail(mad_dev_t *dev, mad_peer_t peer, mad_status_t status)
{
    for (op_t *op = dev_match_withdraw(dev, peer), *next; op; op = next) {
        next = op->next;
        receive_withdrawn(dev, op, status);
    }
}

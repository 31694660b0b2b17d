/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: long packets whose memory cannot be registered, because a limit is reached.  The header is sent without segments,
 * and the body follows in pieces, which are copied.  A link sends no other packet meanwhile. */
#include "drivers/verbs/verbs.h"

#include <string.h>

/* Copy the next bytes of the body; return their number. */
static size_t piece_gather(verbs_spill_t *s, char *to)
{
    size_t len = 0;
    while (s->at < s->n && len < VERBS_PACKET_MAX) {
        size_t part = s->vec[s->at].iov_len - s->offset;
        if (part > VERBS_PACKET_MAX - len)
            part = VERBS_PACKET_MAX - len;
        madi_copy(to + len, (char *)s->vec[s->at].iov_base + s->offset, part);
        len += part;
        s->offset += part;
        if (s->offset == s->vec[s->at].iov_len) {
            s->at++;
            s->offset = 0;
        }
    }
    return len;
}

/* True if bytes are left. */
static bool spill_is_active(const verbs_spill_t *s)
{
    return s->at < s->n;
}

/* Send as many pieces of the body as credit and memory allow.  Under the tx lock. */
static void spill_continue(verbs_link_t *l)
{
    char *to;
    while (spill_is_active(&l->spill) && !atomic_load_explicit(&l->base.failed, memory_order_relaxed) &&
           (to = verbs_message_begin(l, false)))
        verbs_message_post(l, VERBS_KIND_PIECE, piece_gather(&l->spill, to), false);
}

madi_sent_t verbs_spill_send(verbs_link_t *l, const struct iovec *vec, int n, madi_op_t *op)
{
    verbs_adapter_t *a = verbs_of(l);
    verbs_spill_t *s = &l->spill;
    char *to = verbs_message_begin(l, false);
    if (!to) {
        fabric_refuse(&l->base);
        return MADI_AGAIN;
    }
    memcpy(to, vec->iov_base, sizeof(madi_wire_hdr_t));
    memcpy(s->vec, vec, (size_t)n * sizeof *vec);
    s->n = n;
    s->at = 0;
    s->offset = sizeof(madi_wire_hdr_t);
    if (s->offset == vec->iov_len) {
        s->at = 1;
        s->offset = 0;
    }
    verbs_message_post(l, FABRIC_KIND_PACKET, sizeof(madi_wire_hdr_t), false);
    spill_continue(l);
    if (!spill_is_active(s))
        return MADI_SENT;
    s->op = op;
    atomic_store_explicit(&a->spilling, true, memory_order_release);
    return MADI_TAKEN; /* if the post has failed, the link ends, and its end completes the op */
}

/* Send further pieces on one link.  Return true if the link has more to send. */
static bool link_spill(verbs_link_t *l)
{
    madi_link_lock_tx(&l->base.link);
    spill_continue(l);
    bool more = spill_is_active(&l->spill);
    madi_op_t *op = more ? NULL : l->spill.op;
    if (op)
        l->spill.op = NULL;
    madi_link_unlock_tx(&l->base.link);
    if (op)
        op->done(op, MAD_OK);
    return more;
}

void verbs_spills_run(verbs_adapter_t *a)
{
    bool more = false;
    atomic_store_explicit(&a->spilling, false, memory_order_relaxed);
    for (int i = 0; i < a->base.links.n; i++) {
        verbs_link_t *l = a->base.links.links[i];
        if (l && l->base.is_up && !l->base.closed && !l->base.down)
            more |= link_spill(l);
    }
    if (more)
        atomic_store_explicit(&a->spilling, true, memory_order_relaxed);
}

void verbs_spill_fail(verbs_link_t *l)
{
    madi_op_t *op = l->spill.op;
    l->spill.op = NULL;
    l->spill.n = l->spill.at = 0;
    if (op)
        op->done(op, MAD_ERR_PEER);
}

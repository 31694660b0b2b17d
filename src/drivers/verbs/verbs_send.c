/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: outgoing messages.  Each lies in a ring of registered memory, short ones are copied to the device by the processor
 * (inline).  One message in VERBS_SIGNAL requests a completion, which frees all messages up to it. */
#include "drivers/verbs/verbs.h"

#include <assert.h>
#include <string.h>

#define CREDIT_OWED (VERBS_WINDOW / 2) /* number of free slots that are reported by a message without a packet */

char *verbs_message_begin(verbs_link_t *l, bool only_head)
{
    uint32_t sent = atomic_load_explicit(&l->sent, memory_order_relaxed), kept = only_head ? 0 : VERBS_KEPT;
    uint32_t uncredited = sent - atomic_load_explicit(&l->credited, memory_order_relaxed);
    uint32_t uncompleted = sent - atomic_load_explicit(&l->completed, memory_order_acquire); /* pairs with sends_completed */
    if (uncredited + kept >= l->window || uncompleted + kept >= VERBS_RING)
        return NULL;
    return l->ring + sent % VERBS_RING * VERBS_MESSAGE_MAX + sizeof(verbs_head_t);
}

bool verbs_message_post(verbs_link_t *l, fabric_kind_t kind, size_t len, bool signal)
{
    uint32_t sent = atomic_load_explicit(&l->sent, memory_order_relaxed);
    char *at = l->ring + sent % VERBS_RING * VERBS_MESSAGE_MAX;
    verbs_head_t head = {.tag = fabric_tag(kind, fabric_tag_key(l->base.tag), fabric_tag_index(l->base.tag)),
                         .returned = atomic_load_explicit(&l->freed, memory_order_relaxed),
                         .bodies = atomic_load_explicit(&l->bodies, memory_order_relaxed)};
    struct ibv_sge sge = {(uintptr_t)at, (uint32_t)(sizeof head + len), l->ring_mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    memcpy(at, &head, sizeof head);
    sent++;
    wr.wr_id = fabric_tag((fabric_kind_t)VERBS_DONE_SEND, l->base.key, (uint16_t)l->base.index) | (sent & 0xffff);
    if (signal || sent % VERBS_SIGNAL == 0)
        wr.send_flags |= IBV_SEND_SIGNALED;
    if (sge.length <= l->inline_max)
        wr.send_flags |= IBV_SEND_INLINE;
    atomic_store_explicit(&l->advertised, head.returned, memory_order_relaxed);
    atomic_store_explicit(&l->bodies_advertised, head.bodies, memory_order_relaxed);
    /* stored before the post, since another thread may read the answer immediately */
    atomic_store_explicit(&l->sent, sent, memory_order_relaxed);
    int rc = ibv_post_send(l->pair, &wr, &bad);
    if (rc)
        fabric_send_failed(&l->base, rc);
    return !rc;
}

madi_sent_t verbs_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    verbs_link_t *l = (verbs_link_t *)link;
    verbs_adapter_t *a = verbs_of(l);
    assert(n >= 1 && n <= VERBS_GATHER && vec->iov_len >= sizeof(madi_wire_hdr_t) && (op || total <= VERBS_PACKET_MAX));
    fabric_heat(&a->base.heat);
    if (MADI_UNLIKELY(fabric_send_error(&l->base)))
        return MADI_AGAIN;
    if (MADI_UNLIKELY(l->spill.at < l->spill.n)) {
        fabric_refuse(&l->base);
        return MADI_AGAIN;
    }
    if (total > VERBS_PACKET_MAX)
        return verbs_flight_send(l, vec, n, op);
    char *to = verbs_message_begin(l, false);
    if (MADI_UNLIKELY(!to)) {
        fabric_refuse(&l->base);
        return MADI_AGAIN;
    }
    for (int i = 0; i < n; i++) {
        madi_copy(to, vec[i].iov_base, vec[i].iov_len);
        to += vec[i].iov_len;
    }
    return verbs_message_post(l, FABRIC_KIND_PACKET, total, false) ? MADI_SENT : MADI_AGAIN;
}

/* ---- Messages without a packet --------------------------------------------------------------------------------------- */

bool verbs_return_send(verbs_link_t *l, bool signal)
{
    bool done = true;
    madi_link_lock_tx(&l->base.link);
    if (!fabric_send_error(&l->base))
        done = verbs_message_begin(l, true) && verbs_message_post(l, FABRIC_KIND_CONTROL, 0, signal);
    madi_link_unlock_tx(&l->base.link);
    return done;
}

void verbs_return_check(verbs_link_t *l)
{
    uint32_t freed = atomic_load_explicit(&l->freed, memory_order_relaxed);
    bool owed = freed - atomic_load_explicit(&l->advertised, memory_order_relaxed) >= CREDIT_OWED ||
                atomic_load_explicit(&l->bodies, memory_order_relaxed) !=
                    atomic_load_explicit(&l->bodies_advertised, memory_order_relaxed);
    if (MADI_LIKELY(!owed) || !l->base.is_up || l->base.closed || l->base.down)
        return;
    l->owes = !verbs_return_send(l, false);
    verbs_of(l)->owing |= l->owes;
}

void verbs_return_again(verbs_adapter_t *a)
{
    a->owing = false;
    for (int i = 0; i < a->base.links.n; i++) {
        verbs_link_t *l = a->base.links.links[i];
        if (l && l->owes)
            verbs_return_check(l);
    }
}

/* A message whose completion has come lies in the peer's memory, except on iWARP (verbs_hello.c). */
bool verbs_drained(madi_link_t *link)
{
    verbs_link_t *l = (verbs_link_t *)link;
    if (!l->base.is_up || l->base.down || l->base.closed)
        return true;
    madi_link_lock_tx(link);
    uint32_t sent = atomic_load_explicit(&l->sent, memory_order_relaxed);
    bool empty = sent == atomic_load_explicit(&l->completed, memory_order_relaxed);
    bool drained = (empty && !l->flights && !l->spill.op) || fabric_send_error(&l->base);
    bool ask = !empty && l->asked != sent;
    madi_link_unlock_tx(link);
    /* the completion of this message shows that all earlier messages have completed */
    if (ask && verbs_return_send(l, true))
        l->asked = atomic_load_explicit(&l->sent, memory_order_relaxed);
    fabric_heat(&verbs_of(l)->base.heat);
    return drained && (!verbs_of(l)->port.iwarp || fabric_send_error(&l->base) || verbs_flush_known(l));
}

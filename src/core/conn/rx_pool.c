/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of arriving messages and of their packets: allocation, reuse, release. */
#include "core/conn/rx_pool.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/rx.h"

#include <stdlib.h>
#include <string.h>

/* Message structures form a ring.  The structure that was used last is tried first.  When a few in a row are in use, a
 * new one is inserted, and the next search begins with the new one. */
madi_rx_msg_t *madi_rx_more(mad_session_t *session)
{
    madi_rx_msg_t *m = session->rx_ring, *new;
    void *memory;
    for (int i = 0; m && i < 8; i++, m = m->ring)
        if (!atomic_load_explicit(&m->used, memory_order_acquire)) {
            atomic_store_explicit(&m->used, 1, memory_order_relaxed);
            session->rx_ring = m;
            return m;
        }
    if (posix_memalign(&memory, MADI_LINE, sizeof *new))
        return NULL;
    new = memory;
    new->ring = m ? m->ring : new;
    if (m)
        m->ring = new;
    new->base.session = session;
    new->free_block = NULL;
    madi_rx_clear(new);
    atomic_init(&new->used, 1);
    session->rx_ring = new;
    return new;
}

void madi_rx_clear(madi_rx_msg_t *m)
{
    mad_session_t *session = m->base.session;
    memset(m, 0, offsetof(madi_rx_msg_t, ring));
    m->base.kind = MADI_MESSAGE_RX;
    m->base.session = session;
    m->tail = &m->head;
    m->blocks_tail = &m->blocks;
}

/* Discard a body whose link broke while it was arriving: no list holds it yet. */
void madi_rx_abandon(madi_gate_t *gate)
{
    void *half = gate->partial_rx;
    gate->partial_rx = NULL;
    if (half && gate->partial_rx_is_message) {
        madi_rx_msg_t *m = half;
        free(m->current);
        madi_rx_clear(m);
        madi_rx_free(m);
    } else {
        free(half);
    }
}

void madi_packet_return(madi_rx_packet_t *packet)
{
    packet->link->driver->fast.slot_put(packet->link, packet->loan);
    atomic_fetch_sub_explicit(&packet->link->loans, 1, memory_order_release); /* pairs with madi_links_reap */
    packet->loan = (madi_foreign_t){0};
}

void madi_rx_packet_free(madi_rx_packet_t *packet)
{
    if (madi_foreign_is_set(packet->loan))
        madi_packet_return(packet);
    if (!packet->inside)
        free(packet);
}

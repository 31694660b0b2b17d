/* SPDX-License-Identifier: BSD-3-Clause */
/* The offer of a posted receive's memory to its sender. */
#include "core/conn/credit.h"
#include "core/driver.h"
#include "core/object/gate.h"
#include "core/recv/posted.h"
#include "core/send/policy.h"

/* Return the length of the shortest block that a waiting sender writes into the receiver's memory instead of sending it. */
static size_t offer_min(const madi_caps_t *caps)
{
    return caps->direct_min && caps->direct_min < caps->rdv_min ? caps->direct_min : caps->rdv_min;
}

/* Advertise the first posted receive to the sender, so that a waiting sender writes there, and the receiver has nothing to
 * do.  The offer is for the message that begins behind everything that has arrived so far.  The next message belongs to the
 * first posted receive, which has precedence over all other receivers. */
void madi_posted_offer(madi_conn_t *conn)
{
    madi_posted_t *p = conn->posted;
    madi_gate_t *gate = conn->gate;
    madi_offer_t offer;
    if (p->n != 1 || p->blocks[0].len < MADI_OFFER_MIN || p->offer >= 0 || p->claimed || conn->arriving ||
        !conn->remote_known || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP ||
        !gate->link->direct || p->blocks[0].len < offer_min(&gate->link->adapter->caps))
        return;
    offer = (madi_offer_t){.position = madi_credit_consumed(conn) + conn->rx_held,
                           .len = p->blocks[0].len,
                           .at = (uintptr_t)p->blocks[0].base,
                           .channel = conn->remote};
    p->offer = gate->link->driver->direct.offer(gate->link, &offer);
}

bool madi_posted_withdraw(madi_posted_t *p)
{
    madi_link_t *link = p->conn->gate->link;
    if (p->offer >= 0)
        p->claimed = !link->driver->direct.withdraw(link, p->offer);
    p->offer = -1;
    return !p->claimed;
}

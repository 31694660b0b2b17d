/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: messages between the drivers of a link's two ends (drivers/fabric/end.h), and liveness.
 *
 * MPI does not report the end of a peer, or it ends the job.  A timer of the adapter makes MPI progress and looks at every
 * link.  The timer is a rare watch, so handshakes, PING and ASK are answered while the program computes. */
#include "drivers/mpi/mpi.h"

#include "base/clock.h"

#define TICK_NS INT64_C(100000000) /* ns between two calls of MPI, which may have received a handshake */

bool mpi_control_send(mpi_link_t *l, fabric_what_t what, uint32_t number)
{
    fabric_control_t c = {what, number};
    uint64_t tag = fabric_tag(FABRIC_KIND_CONTROL, fabric_tag_key(l->tag), fabric_tag_index(l->tag));
    int error;
    madi_sent_t sent =
        mpi_message_send(mpi_of(l)->world, (int)l->peer.rank, tag, &(struct iovec){&c, sizeof c}, 1, NULL, &error);
    if (error && !l->closed)
        mpi_send_failed(l, error);
    return sent == MADI_SENT;
}

void mpi_control_arrived(mpi_link_t *l, const fabric_control_t *c)
{
    fabric_control_t answer;
    if (!l->started)
        return; /* the tag of the other end is not known yet */
    if (fabric_end_arrived(&l->end, c, &answer))
        mpi_control_send(l, (fabric_what_t)answer.what, answer.number);
    mpi_bye_check(l);
}

void mpi_bye_check(mpi_link_t *l)
{
    if (fabric_end_reached(&l->end))
        mpi_down(l, MAD_ERR_PEER, FABRIC_CLOSED);
}

/* A copied message that MPI has completed may still be on its way, so the link is drained only when the peer has
 * answered. */
bool mpi_drained(madi_link_t *link)
{
    mpi_link_t *l = (mpi_link_t *)link;
    madi_link_lock_tx(link);
    uint32_t sent = l->end.sent;
    madi_link_unlock_tx(link);
    if (!l->started || (l->end.acked == sent && !atomic_load_explicit(&l->flying, memory_order_relaxed)))
        return true;
    if (fabric_end_asks(&l->end))
        mpi_control_send(l, FABRIC_ASK, sent);
    fabric_heat(&mpi_of(l)->heat);
    return false;
}

static void mpi_link_look(mpi_link_t *l)
{
    char text[MADI_REASON_MAX];
    switch (fabric_end_look(&l->end, text)) {
    case FABRIC_LOOK_HEARD: break;
    case FABRIC_LOOK_SILENT: mpi_control_send(l, FABRIC_PING, 1); break;
    case FABRIC_LOOK_GONE:
        mpi_lib_peer_died();
        mpi_down(l, MAD_ERR_PEER, text);
        break;
    }
}

static void mpi_tick_ready(madi_watch_t *watch, uint32_t events)
{
    mpi_adapter_t *a = MADI_CONTAINER(watch, mpi_adapter_t, tick);
    int64_t now = madi_now();
    int i = 0;
    (void)events;
    if (!fabric_tick_take(watch))
        return;
    if (!mpi_lib_may_call(&a->world->lib))
        return; /* so this thread receives no sign of life either */
    mpi_drain(a);
    if (now - a->looked < fabric_look_ns())
        return;
    a->looked = now;
    for (mpi_link_t *l; (l = mpi_link_next(a, &i));)
        if (!l->closed && !l->down && l->started && l->process.fd <= 0) /* a pidfd reports more, and sooner */
            mpi_link_look(l);
}

mad_status_t mpi_tick_open(mpi_adapter_t *a, char *reason)
{
    a->tick.ready = mpi_tick_ready;
    return fabric_tick_open(a->base.session, &a->tick, TICK_NS < fabric_look_ns() ? TICK_NS : fabric_look_ns(), reason);
}

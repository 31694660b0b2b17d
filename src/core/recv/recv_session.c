/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a session for receiving. */
#include "core/object/rx.h"
#include "core/object/session.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/recv/rx_block.h"
#include "core/wire/handle.h"

#include <stdlib.h>

mad_status_t madi_recv_session_init(mad_session_t *session)
{
    session->recv.blocks = madi_handles_new();
    return session->recv.blocks ? MAD_OK : MAD_ERR_NOMEM;
}

/* Free all message structures, at the end of the session; lent bodies have gone with their links. */
static void rx_ring_free(mad_session_t *session)
{
    madi_rx_msg_t *m = session->rx_ring, *next;
    if (!m)
        return;
    do {
        next = m->ring;
        for (madi_rx_packet_t *p; (p = m->head); free(p))
            m->head = p->next;
        if (m->current && !m->current->inside)
            free(m->current);
        for (madi_rx_block_t *b; (b = m->blocks); free(b))
            m->blocks = b->next;
        free(m->early);
        free(m->free_block);
        free(m);
        m = next;
    } while (m != session->rx_ring);
}

void madi_recv_session_fini(mad_session_t *session)
{
    rx_ring_free(session);
    madi_posted_ring_free(session);
    madi_handles_free(session->recv.blocks);
}

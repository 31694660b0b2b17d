/* SPDX-License-Identifier: BSD-3-Clause */
/* The structures of posted receives. */
#include "core/conn/request.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/recv/posted.h"

#include <stdlib.h>

/* Return a structure of the pool, in which receives follow each other in the order in which they are posted.  So the
 * structure that was used longest ago is mostly free.  Return NULL if that structure is in use and the pool is full.
 * Under session->lock. */
static madi_posted_t *posted_pooled(mad_session_t *session)
{
    madi_posted_t *last = session->recv.posted_ring, *p = last ? last->ring : NULL;
    if (!p || atomic_load_explicit(&p->request.used, memory_order_acquire)) { /* pairs with madi_request_free */
        if (session->recv.n_posted_ring == MADI_POSTED_POOLED)
            return NULL;
        p = malloc(sizeof *p + MADI_POSTED_BLOCKS * sizeof p->blocks[0]);
        if (!p)
            return NULL;
        p->ring = last ? last->ring : p;
        if (last)
            last->ring = p;
        session->recv.n_posted_ring++;
    }
    session->recv.posted_ring = p;
    return p;
}

void madi_posted_ring_free(mad_session_t *session)
{
    madi_posted_t *p = session->recv.posted_ring, *next;
    for (; session->recv.n_posted_ring; session->recv.n_posted_ring--, p = next) {
        next = p->ring;
        if (atomic_load_explicit(&p->request.used, memory_order_acquire))
            p->request.pooled = false; /* from here on the request's owner frees this structure */
        else
            free(p);
    }
    session->recv.posted_ring = NULL;
}

madi_posted_t *madi_posted_new(madi_conn_t *conn, const mad_block_t *blocks, int n, bool async)
{
    mad_session_t *session = conn->gate->session;
    madi_posted_t *p = n <= MADI_POSTED_BLOCKS ? posted_pooled(session) : NULL;
    bool pooled = p != NULL;
    if (!p)
        p = malloc(sizeof *p + (size_t)n * sizeof *blocks);
    if (!p)
        return NULL;
    madi_request_init(&p->request, session, async);
    p->request.received = true;
    p->request.pooled = pooled;
    if (!n) /* a receive without blocks completes only when its peer is lost, so no thread stays awake for it */
        p->request.counted = 0;
    madi_posted_fill(p, conn, blocks, n);
    return p;
}

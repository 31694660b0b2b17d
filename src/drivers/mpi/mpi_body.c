/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: bodies that MPI writes to their destination.  The next packets of the link wait until a body ends.  A body that is to
 * be dropped is received, too, because its sender waits until it has been received. */
#include "drivers/mpi/mpi.h"

#include <stdlib.h>

/* Deliver a body that has ended, which is in no list. */
static void body_deliver(mpi_link_t *l, int error)
{
    l->base.receiving = NULL;
    if (error) {
        fabric_send_failed(&l->base, error);
        return;
    }
    l->base.end.got++;
    madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
    if (!l->base.closed)
        mpi_early_run(&l->base);
}

/* Post the receive of a body.  Under the lock io.  Return false if out of memory, or if MPI has failed. */
static bool mpi_body_post(mpi_world_t *w, mpi_link_t *l, int source, uint32_t tag, size_t len)
{
    mpi_body_t *body = calloc(1, sizeof *body);
    void *to = l ? l->base.rx.base : malloc(len);
    if (!body || !to || w->error) {
        free(body);
        if (!l)
            free(to);
        return false;
    }
    body->link = l;
    body->source = source;
    body->sink = l ? NULL : to;
    body->error = w->lib.calls->receive(to, len, source, (int)tag, &body->request);
    if (body->error) {
        mpi_world_fail(w, body->error);
        free(body->sink);
        free(body);
        return false;
    }
    body->next = w->bodies;
    w->bodies = body;
    if (l)
        l->base.receiving = body;
    return true;
}

void mpi_body_discard(mpi_world_t *w, int source, uint32_t tag, size_t len)
{
    int n = 0;
    for (const mpi_body_t *body = w->bodies; body; body = body->next)
        n += body->sink && body->source == source;
    if (n < WORLD_SINKS)
        mpi_body_post(w, NULL, source, tag, len); /* otherwise, and if out of memory, the body stays in MPI */
}

void mpi_body_begin(mpi_link_t *l, int source, uint32_t tag)
{
    mpi_world_t *w = mpi_of(l)->world;
    madi_lock(&w->io);
    bool posted = mpi_body_post(w, l, source, tag, l->base.hdr.length);
    madi_unlock(&w->io);
    if (!posted)
        fabric_link_down(&l->base, MAD_ERR_NOMEM, "no memory for a packet");
}

int mpi_bodies_test(mpi_world_t *w)
{
    int n = 0;
    bool is_done;
    for (mpi_body_t **p = &w->bodies, *body; (body = *p);) {
        body->error = w->lib.calls->test(&body->request, &is_done);
        if (!is_done && !body->error) {
            p = &body->next;
            continue;
        }
        *p = body->next;
        n++;
        if (!body->link) {
            free(body->sink);
            free(body);
            continue;
        }
        body->next = mpi_of(body->link)->ended;
        mpi_of(body->link)->ended = body;
        atomic_fetch_add_explicit(&mpi_of(body->link)->listed, 1, memory_order_relaxed);
        fabric_heat(&mpi_of(body->link)->base.heat);
    }
    return n;
}

int mpi_bodies_land(mpi_adapter_t *a)
{
    mpi_world_t *w = a->world;
    int n = 0;
    for (;; n++) {
        madi_lock(&w->io);
        mpi_body_t *body = a->ended;
        if (body) {
            a->ended = body->next;
            atomic_fetch_sub_explicit(&a->listed, 1, memory_order_relaxed);
        }
        madi_unlock(&w->io);
        if (!body)
            return n;
        mpi_link_t *l = body->link;
        int error = body->error;
        free(body);
        body_deliver(l, error);
    }
}

void mpi_body_cancel(mpi_link_t *l)
{
    mpi_world_t *w = mpi_of(l)->world;
    madi_lock(&w->io);
    mpi_body_t *body = w->bodies;
    while (body && body != l->base.receiving)
        body = body->next;
    if (body && mpi_world_works(w))
        w->lib.calls->cancel(&body->request);
    madi_unlock(&w->io);
}

void mpi_body_forget(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    madi_lock(&a->world->io);
    mpi_body_t **p = &a->ended, *body = l->base.receiving;
    while (*p && *p != body)
        p = &(*p)->next;
    if (*p && body) {
        *p = body->next;
        atomic_fetch_sub_explicit(&a->listed, 1, memory_order_relaxed);
        free(body);
    } else if (body) {
        body->link = NULL;
    }
    l->base.receiving = NULL;
    madi_unlock(&a->world->io);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: outgoing packets. */
#include "drivers/mpi/mpi.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TESTS 4 /* maximum number of requests of each kind that one call of mpi_sends_test checks */

/* ---- Copied messages --------------------------------------------------------------------------------------------- */

/* Free a copy that MPI no longer uses.  Under the lock io. */
static void send_copy_free(mpi_world_t *w, mpi_copy_t *c)
{
    if (c->link) {
        fabric_copies_count(&c->link->base, -1);
        c->link->n_copies--;
        c->link = NULL;
    }
    c->next = w->copies;
    w->copies = c;
}

/* Return a place for a message; NULL if all are in flight, or if out of memory.  Under the lock io. */
static mpi_copy_t *send_copy_take(mpi_world_t *w, const mpi_link_t *l, int limit)
{
    mpi_copy_t *c = w->copies;
    if (l && l->n_copies >= limit)
        return NULL;
    if (MADI_LIKELY(c != NULL))
        w->copies = c->next;
    else
        c = malloc(sizeof *c);
    if (c)
        c->link = NULL;
    return c;
}

/* Send a copy of len bytes behind the tag.  The caller keeps the copy if *is_done is set.  Return MPI's error.  Under the
 * lock io. */
static inline int send_copy_post(mpi_world_t *w, int rank, mpi_copy_t *c, size_t len, bool *is_done)
{
    int error = w->lib.calls->send(&c->tag, WORLD_TAG_SIZE + len, rank, WORLD_TAG, &c->request, is_done);
    if (MADI_LIKELY(*is_done && !error))
        return 0;
    *is_done = true;
    return error ? error : w->lib.calls->test(&c->request, is_done);
}

/* Record that MPI sends the copy later.  Under the lock io. */
static void send_copy_keep(mpi_world_t *w, mpi_copy_t *c, mpi_link_t *l)
{
    c->link = l;
    c->next = NULL;
    *w->sent_last = c;
    w->sent_last = &c->next;
    if (!l)
        return;
    l->n_copies++;
    fabric_copies_count(&l->base, 1);
}

/* Send pieces.  Under the lock io. */
static madi_sent_t pieces_send(mpi_world_t *w, int rank, uint64_t tag, const struct iovec *vec, int n, mpi_link_t *l,
                               int *error)
{
    size_t len = 0;
    bool is_done;
    int limit = fabric_tag_kind(tag) == FABRIC_KIND_PACKET ? WORLD_COPIES : WORLD_CONTROLS;
    mpi_copy_t *c = mpi_world_works(w) ? send_copy_take(w, l, limit) : NULL;
    if (!c)
        return MADI_AGAIN;
    c->tag = tag;
    for (int i = 0; i < n; i++) {
        madi_copy(c->data + len, vec[i].iov_base, vec[i].iov_len);
        len += vec[i].iov_len;
    }
    *error = send_copy_post(w, rank, c, len, &is_done);
    if (MADI_LIKELY(is_done) || *error)
        send_copy_free(w, c);
    else
        send_copy_keep(w, c, l);
    return *error ? MADI_AGAIN : MADI_SENT;
}

madi_sent_t mpi_message_send(mpi_world_t *w, int rank, uint64_t tag, const struct iovec *vec, int n, mpi_link_t *l,
                             int *error)
{
    *error = 0;
    madi_lock(&w->io);
    madi_sent_t sent = pieces_send(w, rank, tag, vec, n, l, error);
    madi_unlock(&w->io);
    return sent;
}

/* ---- Bodies ----------------------------------------------------------------------------------------------------------- */

static mpi_flight_t *flight_take_free(mpi_world_t *w)
{
    mpi_flight_t *f = w->flights;
    if (f)
        w->flights = f->next;
    return f ? f : malloc(sizeof *f);
}

static void flight_put_free(mpi_world_t *w, mpi_flight_t *f)
{
    free(f->copy);
    f->next = w->flights;
    w->flights = f;
}

/* Return the bytes of a body behind its header: the program's memory, or a copy if the body is in pieces.  Return NULL if
 * out of memory. */
static const void *flight_bytes(mpi_flight_t *f, const struct iovec *vec, int n, size_t len)
{
    size_t skip = sizeof(madi_wire_hdr_t), at = 0;
    if (vec->iov_len == skip && n == 2)
        return vec[1].iov_base;
    if (n == 1)
        return (char *)vec->iov_base + skip;
    f->copy = malloc(len);
    for (int i = 0; i < n && f->copy; i++, skip = 0) {
        memcpy((char *)f->copy + at, (char *)vec[i].iov_base + skip, vec[i].iov_len - skip);
        at += vec[i].iov_len - skip;
    }
    return f->copy;
}

/* Send the header, and then the body.  Under the lock io. */
static madi_sent_t flight_post_both(mpi_world_t *w, mpi_link_t *l, mpi_flight_t *f, const struct iovec *vec,
                                    const void *body, size_t len, int *error)
{
    uint32_t tag = WORLD_BODY_TAG + w->body_tag % WORLD_BODY_TAGS;
    const struct iovec head[2] = {{vec->iov_base, sizeof(madi_wire_hdr_t)}, {&tag, sizeof tag}};
    madi_sent_t sent = pieces_send(w, (int)l->peer.rank, l->base.tag, head, 2, l, error);
    if (sent != MADI_SENT)
        return MADI_AGAIN;
    w->body_tag++;
    bool is_ended; /* not used, since mpi_sends_test tests the request */
    *error = w->lib.calls->send(body, len, (int)l->peer.rank, (int)tag, &f->request, &is_ended);
    if (*error)
        return MADI_AGAIN;
    f->next = w->flying;
    w->flying = f;
    atomic_fetch_add_explicit(&l->base.flying, 1, memory_order_relaxed);
    return MADI_TAKEN;
}

static madi_sent_t mpi_flight_send(mpi_link_t *l, const struct iovec *vec, int n, size_t total, madi_op_t *op, int *error)
{
    mpi_world_t *w = mpi_of(l)->world;
    size_t len = total - sizeof(madi_wire_hdr_t);
    madi_sent_t sent = MADI_AGAIN;
    madi_lock(&w->io);
    mpi_flight_t *f = mpi_world_works(w) ? flight_take_free(w) : NULL;
    if (f) {
        *f = (mpi_flight_t){.link = l, .op = op};
        const void *body = flight_bytes(f, vec, n, len);
        if (body)
            sent = flight_post_both(w, l, f, vec, body, len, error);
        if (sent != MADI_TAKEN)
            flight_put_free(w, f);
    }
    madi_unlock(&w->io);
    return sent;
}

int mpi_flights_land(mpi_adapter_t *a)
{
    mpi_world_t *w = a->world;
    int n = 0;
    for (;; n++) {
        madi_lock(&w->io);
        mpi_flight_t *f = a->landed;
        if (!f) {
            madi_unlock(&w->io);
            return n;
        }
        mpi_link_t *l = f->link;
        madi_op_t *op = f->op;
        int error = f->error;
        a->landed = f->next;
        atomic_fetch_sub_explicit(&a->listed, 1, memory_order_relaxed);
        flight_put_free(w, f);
        madi_unlock(&w->io);
        atomic_fetch_sub_explicit(&l->base.flying, 1, memory_order_relaxed);
        if (error && !l->base.closed)
            fabric_send_failed(&l->base, error);
        op->done(op, error ? MAD_ERR_PEER : MAD_OK);
    }
}

bool mpi_flights_exist(mpi_link_t *l)
{
    mpi_world_t *w = mpi_of(l)->world;
    madi_lock(&w->io);
    mpi_flight_t *f = w->flying;
    while (f && f->link != l)
        f = f->next;
    madi_unlock(&w->io);
    return f != NULL;
}

/* Take the op from a flight of the link, and return it; MPI keeps the flight.  NULL if there is none.  Under the lock io. */
static madi_op_t *flight_abandon(mpi_world_t *w, mpi_link_t *l)
{
    for (mpi_flight_t *f = w->flying; f; f = f->next)
        if (f->link == l) {
            f->link = NULL;
            return f->op;
        }
    return NULL;
}

void mpi_sends_forget(mpi_link_t *l)
{
    mpi_world_t *w = mpi_of(l)->world;
    madi_op_t *op;
    for (;;) {
        madi_lock(&w->io);
        op = flight_abandon(w, l);
        madi_unlock(&w->io);
        if (!op)
            break;
        atomic_fetch_sub_explicit(&l->base.flying, 1, memory_order_relaxed);
        op->done(op, MAD_ERR_PEER);
    }
    madi_lock(&w->io);
    for (mpi_copy_t *c = w->sending; c; c = c->next)
        if (c->link == l) {
            fabric_copies_count(&l->base, -1);
            l->n_copies--;
            c->link = NULL;
        }
    madi_unlock(&w->io);
}

/* ---- Requests that end, under the lock io ------------------------------------------------------------------------ */

/* Test the oldest copies in flight.  Copies that are not complete go to the end of the list, because their receiver may be
 * stopped. */
static int copies_test(mpi_world_t *w)
{
    int n = 0;
    bool is_done;
    for (int i = 0; i < TESTS && w->sending; i++) {
        mpi_copy_t *c = w->sending;
        w->sending = c->next;
        if (!w->sending)
            w->sent_last = &w->sending;
        int error = w->lib.calls->test(&c->request, &is_done);
        if (error && c->link)
            fabric_send_failed(&c->link->base, error);
        if (is_done || error) {
            send_copy_free(w, c);
            n++;
        } else {
            c->next = NULL;
            *w->sent_last = c;
            w->sent_last = &c->next;
        }
    }
    return n;
}

static int flights_test(mpi_world_t *w)
{
    int n = 0;
    bool is_done;
    for (mpi_flight_t **p = &w->flying, *f; (f = *p);) {
        int error = w->lib.calls->test(&f->request, &is_done);
        if (!is_done && !error) {
            p = &f->next;
            continue;
        }
        *p = f->next;
        f->error = error;
        n++;
        if (!f->link) {
            flight_put_free(w, f);
            continue;
        }
        f->next = mpi_of(f->link)->landed;
        mpi_of(f->link)->landed = f;
        atomic_fetch_add_explicit(&mpi_of(f->link)->listed, 1, memory_order_relaxed);
        fabric_heat(&mpi_of(f->link)->base.heat);
    }
    return n;
}

int mpi_sends_test(mpi_world_t *w)
{
    int n = 0;
    if (MADI_UNLIKELY(w->sending != NULL))
        n += copies_test(w);
    if (MADI_UNLIKELY(w->flying != NULL))
        n += flights_test(w);
    return n;
}

bool mpi_sends_remain(mpi_world_t *w)
{
    madi_lock(&w->io);
    bool remain = w->sending && !w->error;
    madi_unlock(&w->io);
    return remain;
}

/* ---- Packets -------------------------------------------------------------------------------------------------------- */

madi_sent_t mpi_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    mpi_link_t *l = (mpi_link_t *)link;
    mpi_adapter_t *a = mpi_of(l);
    int error = 0;
    madi_sent_t sent;
    assert(n >= 1 && n <= WORLD_GATHER && vec->iov_len >= sizeof(madi_wire_hdr_t) && (op || total <= WORLD_PACKET_MAX));
    if (MADI_UNLIKELY(fabric_send_error(&l->base)))
        return MADI_AGAIN;
    if (total > WORLD_PACKET_MAX)
        sent = mpi_flight_send(l, vec, n, total, op, &error);
    else
        sent = mpi_message_send(a->world, (int)l->peer.rank, l->base.tag, vec, n, l, &error);
    fabric_heat(&a->base.heat);
    if (MADI_LIKELY(sent != MADI_AGAIN)) {
        fabric_packet_left(&l->base);
        return sent;
    }
    if (error)
        fabric_send_failed(&l->base, error);
    fabric_refuse(&l->base);
    return MADI_AGAIN;
}

/* Send a short packet from a copy that stays in the list, unless MPI keeps it.  Return false if that is not possible.  Under
 * the lock io. */
static inline bool short_copy_post(mpi_world_t *w, mpi_link_t *l, const void *packet, size_t total)
{
    mpi_copy_t *c = w->copies;
    bool is_done;
    if (MADI_UNLIKELY(!c || l->n_copies >= WORLD_COPIES || !mpi_world_works(w) || fabric_send_error(&l->base)))
        return false;
    c->tag = l->base.tag;
    memcpy(c->data, packet, MADI_PACKET_SHORT);
    if (MADI_UNLIKELY(send_copy_post(w, (int)l->peer.rank, c, total, &is_done)))
        return false;
    if (MADI_UNLIKELY(!is_done)) {
        w->copies = c->next;
        send_copy_keep(w, c, l);
    }
    return true;
}

bool mpi_send_short(madi_link_t *link, const void *packet, size_t total)
{
    mpi_link_t *l = (mpi_link_t *)link;
    mpi_world_t *w = mpi_of(l)->world;
    madi_lock(&w->io);
    bool sent = short_copy_post(w, l, packet, total);
    madi_unlock(&w->io);
    if (MADI_UNLIKELY(!sent))
        return mpi_send(link, &(struct iovec){(void *)(uintptr_t)packet, total}, 1, total, NULL) == MADI_SENT;
    fabric_heat(&mpi_of(l)->base.heat);
    fabric_packet_left(&l->base);
    return true;
}

bool mpi_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number)
{
    fabric_control_t c = {what, number};
    int error;
    mpi_link_t *l = (mpi_link_t *)link;
    madi_sent_t sent = mpi_message_send(mpi_of(l)->world, (int)l->peer.rank, fabric_control_tag(link),
                                        &(struct iovec){&c, sizeof c}, 1, l, &error);
    if (error && !link->closed)
        fabric_send_failed(link, error);
    return sent == MADI_SENT;
}

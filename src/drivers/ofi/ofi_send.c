/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: outgoing packets. */
#include "drivers/ofi/ofi.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Messages that are injected or copied ----------------------------------------------------------------------------- */

static void bytes_gather(char *to, const struct iovec *vec, int n)
{
    for (int i = 0; i < n; i++) {
        madi_copy(to, vec[i].iov_base, vec[i].iov_len);
        to += vec[i].iov_len;
    }
}

static ssize_t message_inject(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, const struct iovec *vec, int n, size_t total)
{
    char small[OFI_INJECT_MAX];
    const char *from = vec->iov_base;
    ssize_t rc;
    if (n > 1) {
        bytes_gather(small, vec, n);
        from = small;
    }
    madi_lock(&a->io);
    rc = a->ep ? fi_injectdata(a->ep, from, total, tag, to) : -FI_ESHUTDOWN;
    madi_unlock(&a->io);
    return rc;
}

/* Make a place for a copied message, which is in no list of free ones; NULL if all exist, or if out of memory. */
static ofi_copy_t *copy_make(ofi_adapter_t *a)
{
    ofi_copy_t *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    c->context = (ofi_context_t){.use = OFI_USE_COPY, .object = c};
    c->link = NULL;
    if (ofi_memory_register_local(a, c->data, sizeof c->data, FI_SEND, &c->mr)) {
        free(c);
        return NULL;
    }
    madi_lock(&a->io);
    bool has_room = a->n_copies < a->max_copies;
    if (has_room) {
        a->n_copies++;
        c->all = a->all_copies;
        a->all_copies = c;
    } else {
        ofi_memory_forget(a, &c->mr);
    }
    madi_unlock(&a->io);
    if (has_room)
        return c;
    free(c);
    return NULL;
}

/* Return a place for a copied message; NULL if all are in flight, or if out of memory. */
static ofi_copy_t *copy_take(ofi_adapter_t *a)
{
    madi_lock(&a->io);
    ofi_copy_t *c = a->copies;
    if (c)
        a->copies = c->next;
    madi_unlock(&a->io);
    return c ? c : copy_make(a);
}

static bool copies_exist(ofi_adapter_t *a)
{
    madi_lock(&a->io);
    bool exist = a->n_copies > 0;
    madi_unlock(&a->io);
    return exist;
}

/* End the copy's use by a link. */
static void copy_leave(ofi_copy_t *c)
{
    if (!c->link)
        return;
    fabric_copies_count(&c->link->base, -1);
    c->link = NULL;
}

static void copy_free(ofi_adapter_t *a, ofi_copy_t *c)
{
    madi_lock(&a->io);
    c->next = a->copies;
    a->copies = c;
    madi_unlock(&a->io);
}

mad_status_t ofi_copies_open(ofi_adapter_t *a, char *reason)
{
    for (int i = 0; a->memory.local && i < OFI_COPIES_MIN; i++) {
        ofi_copy_t *c = copy_make(a);
        if (c)
            copy_free(a, c);
    }
    if (!a->memory.local || copies_exist(a))
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no memory to send from could be registered");
    return MAD_ERR_NOMEM;
}

static ssize_t message_copy(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, const struct iovec *vec, int n, size_t total,
                            ofi_link_t *l)
{
    ssize_t rc;
    ofi_copy_t *c = copy_take(a);
    if (!c)
        return copies_exist(a) ? -FI_EAGAIN : -FI_ENOMEM; /* EAGAIN if a copy will become free later */
    bytes_gather(c->data, vec, n);
    c->link = l;
    if (l) { /* before the send: another thread may read the completion at once */
        fabric_copies_count(&l->base, 1);
    }
    madi_lock(&a->io);
    rc = a->ep ? fi_senddata(a->ep, c->data, total, ofi_memory_desc(c->mr), tag, to, &c->context) : -FI_ESHUTDOWN;
    madi_unlock(&a->io);
    if (rc) {
        copy_leave(c);
        copy_free(a, c);
    }
    return rc;
}

ssize_t ofi_message_send(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, const struct iovec *vec, int n, size_t total,
                         ofi_link_t *l)
{
    assert(total <= OFI_PACKET_MAX);
    if (total <= a->inject_max)
        return message_inject(a, to, tag, vec, n, total);
    return message_copy(a, to, tag, vec, n, total, l);
}

void ofi_copy_done(ofi_adapter_t *a, ofi_copy_t *copy, int error)
{
    ofi_link_t *l = copy->link;
    copy_leave(copy);
    copy_free(a, copy);
    if (l && error)
        fabric_send_failed(&l->base, error);
}

void ofi_copies_forget(ofi_link_t *l)
{
    ofi_adapter_t *a = ofi_of(l);
    madi_lock(&a->io);
    /* the list of all copies only grows, at its beginning, so it may be walked without a lock */
    ofi_copy_t *all = a->all_copies;
    madi_unlock(&a->io);
    for (ofi_copy_t *c = all; c; c = c->all)
        if (c->link == l)
            copy_leave(c);
}

/* ---- Bodies, which the receiver reads from the program's memory ------------------------------------------------------- */

static ofi_flight_t *flight_take(ofi_adapter_t *a)
{
    madi_lock(&a->io);
    ofi_flight_t *f = a->flights;
    if (f)
        a->flights = f->next;
    madi_unlock(&a->io);
    f = f ? f : malloc(sizeof *f);
    if (f)
        f->parts = 0;
    return f;
}

/* Stop the peer from reading the flight's memory.  Under the lock io. */
static void flight_forget(ofi_adapter_t *a, ofi_flight_t *f)
{
    while (f->parts)
        ofi_memory_forget(a, &f->mr[--f->parts]);
}

/* Stop the peer from reading the flight's memory, and put the flight, which is in no list, into the list of free flights. */
static void flight_free(ofi_adapter_t *a, ofi_flight_t *f)
{
    madi_lock(&a->io);
    flight_forget(a, f);
    f->next = a->flights;
    a->flights = f;
    madi_unlock(&a->io);
}

/* Register one piece of a body, so that the peer can read it.  Under the lock io.  Return 0 or a negative error. */
static int piece_register(ofi_adapter_t *a, const struct iovec *piece, struct fid_mr **mr, ofi_segment_t *s)
{
    int rc = ofi_memory_register(a, piece->iov_base, piece->iov_len, FI_REMOTE_READ, mr);
    if (rc)
        return rc;
    *s = (ofi_segment_t){
        .at = a->memory.by_address ? (uintptr_t)piece->iov_base : 0, .key = fi_mr_key(*mr), .len = (uint32_t)piece->iov_len};
    return 0;
}

/* Register the body behind the header.  Return 0 or a negative error. */
static int flight_register(ofi_adapter_t *a, ofi_flight_t *f, const struct iovec *vec, int n, ofi_segment_t *segments)
{
    int rc = 0;
    madi_lock(&a->io);
    a->ids += a->ids == UINT32_MAX ? 2 : 1; /* 0 is no number */
    f->id = a->ids;
    for (int i = 0; i < n && !rc; i++) {
        size_t skip = i ? 0 : sizeof(madi_wire_hdr_t);
        struct iovec piece = {(char *)vec[i].iov_base + skip, vec[i].iov_len - skip};
        if (!piece.iov_len)
            continue;
        rc = piece_register(a, &piece, &f->mr[f->parts], &segments[f->parts]);
        segments[f->parts].id = f->id;
        f->parts += !rc;
    }
    if (rc)
        flight_forget(a, f);
    madi_unlock(&a->io);
    return rc;
}

/* Add the flight to the list of flights in use.  Called before the send, since another thread may read the answer
 * immediately. */
static void flight_link(ofi_link_t *l, ofi_flight_t *f)
{
    ofi_adapter_t *a = ofi_of(l);
    madi_lock(&a->io);
    f->next = a->used;
    a->used = f;
    madi_unlock(&a->io);
    atomic_fetch_add_explicit(&l->base.flying, 1, memory_order_relaxed);
}

static void flight_unlink(ofi_link_t *l, ofi_flight_t *f)
{
    ofi_adapter_t *a = ofi_of(l);
    madi_lock(&a->io);
    ofi_flight_t **p = &a->used;
    while (*p != f)
        p = &(*p)->next;
    *p = f->next;
    madi_unlock(&a->io);
    atomic_fetch_sub_explicit(&l->base.flying, 1, memory_order_relaxed);
}

/* Send the header alone; the body follows by copies.  error: why it cannot be registered.  Like ofi_message_send. */
static ssize_t flight_copy(ofi_link_t *l, ofi_flight_t *f, uint64_t tag, const struct iovec *vec, int n, int error)
{
    ofi_adapter_t *a = ofi_of(l);
    struct iovec head = {vec->iov_base, sizeof(madi_wire_hdr_t)};
    ssize_t rc = ofi_message_send(a, l->peer->addr, tag, &head, 1, head.iov_len, l);
    if (rc)
        return rc;
    f->id = 0;
    f->n = n;
    f->sent = head.iov_len;
    f->total = 0;
    for (int i = 0; i < n; i++) {
        f->vec[i] = vec[i];
        f->total += vec[i].iov_len;
    }
    flight_link(l, f);
    l->copying = f;
    atomic_fetch_add_explicit(&a->copying, 1, memory_order_relaxed);
    ofi_memory_refused(a, error);
    return 0;
}

/* Send the header, and where the body is.  Like ofi_message_send. */
static ssize_t flight_send(ofi_link_t *l, uint64_t tag, const struct iovec *vec, int n, madi_op_t *op)
{
    ofi_adapter_t *a = ofi_of(l);
    ofi_flight_t *f = flight_take(a);
    ofi_segment_t segments[OFI_GATHER];
    if (!f)
        return -FI_EAGAIN;
    f->link = l;
    f->op = op;
    ssize_t rc = flight_register(a, f, vec, n, segments);
    if (rc && rc != -FI_ESHUTDOWN) {
        rc = flight_copy(l, f, tag, vec, n, (int)rc);
        if (!rc)
            return 0;
    } else if (!rc) {
        flight_link(l, f);
        struct iovec head[2] = {{vec->iov_base, sizeof(madi_wire_hdr_t)}, {segments, (size_t)f->parts * sizeof *segments}};
        rc = ofi_message_send(a, l->peer->addr, tag, head, 2, head[0].iov_len + head[1].iov_len, l);
        if (!rc)
            return 0;
        flight_unlink(l, f);
    }
    flight_free(a, f);
    return rc;
}

/* End a flight that is in no list. */
static void flight_end(ofi_adapter_t *a, ofi_flight_t *f, mad_status_t status)
{
    madi_op_t *op = f->op;
    atomic_fetch_sub_explicit(&f->link->base.flying, 1, memory_order_relaxed);
    flight_free(a, f);
    op->done(op, status);
}

/* Take a flight of the link out of the list: the flight with this number, or any if id is 0.  Return NULL if there is
 * none. */
static ofi_flight_t *flight_find(ofi_link_t *l, uint32_t id)
{
    ofi_adapter_t *a = ofi_of(l);
    ofi_flight_t *f, **p = &a->used;
    madi_lock(&a->io);
    while ((f = *p) && (f->link != l || (id && f->id != id)))
        p = &f->next;
    if (f)
        *p = f->next;
    madi_unlock(&a->io);
    return f;
}

void ofi_flight_done(ofi_link_t *l, uint32_t id)
{
    ofi_flight_t *f = id ? flight_find(l, id) : NULL;
    if (f)
        flight_end(ofi_of(l), f, MAD_OK);
}

void ofi_flights_report(ofi_link_t *l)
{
    if (l->copying)
        atomic_fetch_sub_explicit(&ofi_of(l)->copying, 1, memory_order_relaxed);
    l->copying = NULL;
    for (ofi_flight_t *f; (f = flight_find(l, 0));)
        flight_end(ofi_of(l), f, MAD_ERR_PEER);
}

/* ---- Bodies that are sent by copies -------------------------------------------------------------------------------------- */

/* List the pieces that make up `len` bytes of a packet, from its byte `from` on.  Return their number. */
static int packet_cut(const struct iovec *vec, size_t from, size_t len, struct iovec *piece)
{
    int n = 0;
    for (; len; vec++) {
        size_t room = vec->iov_len > from ? vec->iov_len - from : 0, bytes = room < len ? room : len;
        if (bytes)
            piece[n++] = (struct iovec){(char *)vec->iov_base + from, bytes};
        from -= from < vec->iov_len ? from : vec->iov_len;
        len -= bytes;
    }
    return n;
}

/* Send more of the link's body, while the network takes messages and enough copies are left for other links.  Under the tx
 * lock.  Return true if the whole body has been sent. */
static bool copying_post(ofi_link_t *l)
{
    ofi_flight_t *f = l->copying;
    struct iovec piece[OFI_GATHER];
    while (f->sent < f->total && atomic_load_explicit(&l->base.flying, memory_order_relaxed) <= OFI_COPIES / 2) {
        size_t len = f->total - f->sent < OFI_PACKET_MAX ? f->total - f->sent : OFI_PACKET_MAX;
        int n = packet_cut(f->vec, f->sent, len, piece);
        ssize_t rc = ofi_message_send(ofi_of(l), l->peer->addr, fabric_packet_tag(&l->base), piece, n, len, l);
        if (rc && rc != -FI_EAGAIN)
            fabric_send_failed(&l->base, (int)-rc);
        if (rc)
            return false;
        fabric_packet_left(&l->base);
        f->sent += len;
    }
    return f->sent == f->total;
}

int ofi_copying_post(ofi_adapter_t *a)
{
    int ended = 0;
    for (int i = 0; i < a->base.links.n; i++) {
        ofi_link_t *l = a->base.links.links[i];
        if (!l || l->base.closed || l->base.down || fabric_send_error(&l->base))
            continue;
        madi_link_lock_tx(&l->base.link);
        ofi_flight_t *f = l->copying;
        if (f && copying_post(l)) {
            l->copying = NULL;
            atomic_fetch_sub_explicit(&a->copying, 1, memory_order_relaxed);
        } else {
            f = NULL;
        }
        madi_link_unlock_tx(&l->base.link);
        if (!f)
            continue;
        madi_op_t *op = f->op;
        flight_unlink(l, f);
        flight_free(a, f);
        madi_link_writable(&l->base.link);
        op->done(op, MAD_OK);
        ended++;
    }
    return ended;
}

void ofi_send_fini(ofi_adapter_t *a)
{
    for (ofi_copy_t *c; (c = a->all_copies);) {
        a->all_copies = c->all;
        ofi_memory_forget(a, &c->mr);
        free(c);
    }
    for (ofi_flight_t *f; (f = a->flights);) {
        a->flights = f->next;
        free(f);
    }
    a->copies = NULL;
    a->n_copies = 0;
}

/* ---- Packets -------------------------------------------------------------------------------------------------------------- */

madi_sent_t ofi_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_adapter_t *a = ofi_of(l);
    bool is_long = total > OFI_PACKET_MAX;
    uint64_t tag = fabric_packet_tag(&l->base);
    ssize_t rc;
    assert(n >= 1 && n <= OFI_GATHER && vec->iov_len >= sizeof(madi_wire_hdr_t) && (op || !is_long));
    if (MADI_UNLIKELY(fabric_send_error(&l->base) || l->copying))
        return MADI_AGAIN;
    rc = is_long ? flight_send(l, tag, vec, n, op) : ofi_message_send(a, l->peer->addr, tag, vec, n, total, l);
    fabric_heat(&a->base.heat);
    if (MADI_LIKELY(!rc)) {
        fabric_packet_left(&l->base);
        if (MADI_UNLIKELY(l->copying) && copying_post(l))
            madi_adapter_wake(&a->base.adapter); /* makes a poll end the operation */
        return is_long ? MADI_TAKEN : MADI_SENT;
    }
    if (rc != -FI_EAGAIN)
        fabric_send_failed(&l->base, (int)-rc);
    fabric_refuse(&l->base);
    return MADI_AGAIN;
}

bool ofi_send_short(madi_link_t *link, const void *packet, size_t total)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_adapter_t *a = ofi_of(l);
    ssize_t rc = -FI_EAGAIN;
    if (MADI_LIKELY(total <= a->inject_max && !l->copying && !fabric_send_error(&l->base))) {
        madi_lock(&a->io);
        if (MADI_LIKELY(a->ep != NULL))
            rc = fi_injectdata(a->ep, packet, total, fabric_packet_tag(&l->base), l->peer->addr);
        madi_unlock(&a->io);
    }
    if (MADI_UNLIKELY(rc)) /* try once more: that names the cause, too */
        return ofi_send(link, &(struct iovec){(void *)(uintptr_t)packet, total}, 1, total, NULL) == MADI_SENT;
    fabric_heat(&a->base.heat);
    fabric_packet_left(&l->base);
    return true;
}

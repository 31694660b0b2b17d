/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: outgoing packets. */
#include "drivers/ucx/ucx.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE 0 /* UCX's number for the one kind of active message that is used */

/* ---- Copied messages --------------------------------------------------------------------------------------------- */

/* Free a copy that UCX no longer uses.  Under the lock io. */
static void ucx_copy_free(ucx_adapter_t *a, ucx_copy_t *c)
{
    if (c->link) {
        fabric_copies_count(&c->link->base, -1);
        c->link = NULL;
    }
    c->next = a->copies;
    a->copies = c;
}

/* Called in ucp_worker_progress. */
static void copy_left(void *request, ucs_status_t status, void *arg)
{
    ucx_copy_t *c = arg;
    ucx_adapter_t *a = c->adapter;
    a->n_unsent--;
    if (c->link) {
        a->n_copies--;
        c->link->n_copies--;
        if (status != UCS_OK)
            fabric_send_failed(&c->link->base, status);
    }
    ucx_copy_free(a, c);
    a->lib->request_free(request);
}

/* Return a place for a message; NULL if all are in flight, or if out of memory.  Under the lock io. */
static ucx_copy_t *ucx_copy_take(ucx_adapter_t *a, const ucx_link_t *l, int limit, ucx_sent_t *why)
{
    ucx_copy_t *c = a->copies;
    *why = UCX_SENT_AGAIN;
    if (l && l->n_copies >= limit)
        return NULL;
    if (MADI_LIKELY(c != NULL)) {
        a->copies = c->next;
        return c;
    }
    c = malloc(sizeof *c);
    *why = a->n_copies ? UCX_SENT_AGAIN : UCX_SENT_FAILED;
    if (!c)
        return NULL;
    c->adapter = a;
    c->link = NULL;
    c->param = (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .memory_type = UCS_MEMORY_TYPE_HOST,
        .cb.send = copy_left,
        .user_data = c,
    };
    c->all = a->all_copies;
    a->all_copies = c;
    return c;
}

static void ucx_bytes_gather(char *to, const struct iovec *vec, int n)
{
    for (int i = 0; i < n; i++) {
        madi_copy(to, vec[i].iov_base, vec[i].iov_len);
        to += vec[i].iov_len;
    }
}

static bool may_send(const ucx_adapter_t *a, const ucx_peer_t *peer)
{
    return peer->sends && a->worker && !a->base.broken;
}

/* Hand a copy to UCX.  Under the lock io. */
static ucs_status_ptr_t copy_post(ucx_adapter_t *a, const ucx_peer_t *peer, const ucx_copy_t *c, size_t total)
{
    return a->lib->am_send(peer->ep, MESSAGE, NULL, 0, &c->tag, UCX_TAG_SIZE + total, &c->param);
}

/* Record that UCX sends the copy later.  Under the lock io, so the callback has not come yet. */
static void copy_kept(ucx_adapter_t *a, ucx_copy_t *c, ucx_link_t *l)
{
    c->link = l;
    a->n_unsent++;
    if (!l)
        return;
    a->n_copies++;
    l->n_copies++;
    fabric_copies_count(&l->base, 1);
}

/* Send a copy.  Under the lock io. */
static ucx_sent_t copy_send(ucx_adapter_t *a, ucx_peer_t *peer, ucx_copy_t *c, size_t total, ucx_link_t *l,
                            ucs_status_t *status)
{
    ucs_status_ptr_t request = UCS_STATUS_PTR(peer->error != UCS_OK ? peer->error : UCS_ERR_NOT_CONNECTED);
    if (MADI_LIKELY(may_send(a, peer)))
        request = copy_post(a, peer, c, total);
    if (UCS_PTR_IS_PTR(request)) {
        copy_kept(a, c, l);
        return UCX_SENT_OK;
    }
    ucx_copy_free(a, c);
    *status = UCS_PTR_RAW_STATUS(request);
    return request ? UCX_SENT_FAILED : UCX_SENT_OK;
}

ucx_sent_t ucx_message_send(ucx_adapter_t *a, ucx_peer_t *peer, uint64_t tag, const struct iovec *vec, int n, size_t total,
                            ucx_link_t *l, ucs_status_t *status)
{
    int limit = fabric_tag_kind(tag) == FABRIC_KIND_PACKET ? UCX_COPIES : UCX_CONTROLS;
    ucx_sent_t sent;
    assert(total <= UCX_PACKET_MAX);
    *status = UCS_ERR_NO_MEMORY;
    madi_lock(&a->io);
    ucx_copy_t *c = ucx_copy_take(a, l, limit, &sent);
    if (MADI_LIKELY(c != NULL)) {
        c->tag = tag;
        ucx_bytes_gather(c->data, vec, n);
        sent = copy_send(a, peer, c, total, l, status);
    }
    madi_unlock(&a->io);
    return sent;
}

void ucx_copies_forget(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    madi_lock(&a->io);
    for (ucx_copy_t *c = a->all_copies; c; c = c->all)
        if (c->link == l) {
            fabric_copies_count(&l->base, -1);
            a->n_copies--;
            l->n_copies--;
            c->link = NULL;
        }
    madi_unlock(&a->io);
}

/* ---- Packets with an op ------------------------------------------------------------------------------------------ */

/* Called in ucp_worker_progress. */
static void flight_ended(void *request, ucs_status_t status, void *arg)
{
    ucx_flight_t *f = arg, **p = &f->adapter->flying;
    ucx_adapter_t *a = f->adapter;
    a->lib->request_free(request);
    while (*p && *p != f)
        p = &(*p)->next;
    if (!*p) { /* ucx_flights_drop has taken the flight out of the list */
        free(f);
        return;
    }
    *p = f->next;
    f->status = status;
    f->next = a->landed;
    a->landed = f;
}

static ucx_flight_t *ucx_flight_take(ucx_adapter_t *a)
{
    ucx_flight_t *f = a->flights;
    if (f)
        a->flights = f->next;
    return f ? f : malloc(sizeof *f);
}

/* List the pieces of the body, behind the header.  Return their number. */
static size_t pieces_list(ucx_flight_t *f, const struct iovec *vec, int n)
{
    size_t pieces = 0;
    for (int i = 0; i < n; i++) {
        size_t skip = i ? 0 : sizeof(madi_wire_hdr_t);
        if (vec[i].iov_len > skip)
            f->piece[pieces++] = (ucp_dt_iov_t){(char *)vec[i].iov_base + skip, vec[i].iov_len - skip};
    }
    return pieces;
}

/* Send a flight.  Under the lock io. */
static ucs_status_ptr_t flight_post(ucx_adapter_t *a, ucx_link_t *l, ucx_flight_t *f, size_t pieces)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE,
        .flags = UCP_AM_SEND_FLAG_RNDV,
        .datatype = pieces == 1 ? ucp_dt_make_contig(1) : UCP_DATATYPE_IOV,
        .cb.send = flight_ended,
        .user_data = f,
    };
    const void *from = pieces == 1 ? f->piece->buffer : f->piece;
    if (!may_send(a, l->peer))
        return UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED);
    return a->lib->am_send(l->peer->ep, MESSAGE, &f->head, sizeof f->head, from, pieces == 1 ? f->piece->length : pieces,
                           &param);
}

/* Send a packet from the memory of the op's owner.  Return TAKEN, SENT, or AGAIN with the cause in *status. */
static madi_sent_t ucx_flight_send(ucx_link_t *l, uint64_t tag, const struct iovec *vec, int n, madi_op_t *op,
                                   ucs_status_t *status)
{
    ucx_adapter_t *a = ucx_of(l);
    madi_lock(&a->io);
    ucx_flight_t *f = ucx_flight_take(a);
    if (!f) {
        madi_unlock(&a->io);
        return MADI_AGAIN;
    }
    f->adapter = a;
    f->link = l;
    f->op = op;
    f->head.tag = tag;
    memcpy(&f->head.hdr, vec->iov_base, sizeof f->head.hdr);
    ucs_status_ptr_t request = flight_post(a, l, f, pieces_list(f, vec, n));
    bool taken = UCS_PTR_IS_PTR(request);
    f->next = taken ? a->flying : a->flights;
    *(taken ? &a->flying : &a->flights) = f;
    if (taken)
        atomic_fetch_add_explicit(&l->base.flying, 1, memory_order_relaxed);
    madi_unlock(&a->io);
    *status = UCS_PTR_RAW_STATUS(request);
    return taken ? MADI_TAKEN : request ? MADI_AGAIN : MADI_SENT;
}

/* Report a flight, which is in no list. */
static void flight_report(ucx_adapter_t *a, ucx_flight_t *f, mad_status_t status)
{
    madi_op_t *op = f->op;
    ucx_link_t *l = f->link;
    atomic_fetch_sub_explicit(&l->base.flying, 1, memory_order_relaxed);
    madi_lock(&a->io);
    f->next = a->flights;
    a->flights = f;
    madi_unlock(&a->io);
    op->done(op, status);
}

int ucx_flights_land(ucx_adapter_t *a)
{
    int n = 0;
    for (ucx_flight_t *f; (f = a->landed); n++) {
        a->landed = f->next;
        if (f->status != UCS_OK && !f->link->base.closed)
            fabric_send_failed(&f->link->base, f->status);
        flight_report(a, f, f->status == UCS_OK ? MAD_OK : MAD_ERR_PEER);
    }
    return n;
}

bool ucx_flights_exist(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    madi_lock(&a->io);
    ucx_flight_t *f = a->flying;
    while (f && f->link != l)
        f = f->next;
    madi_unlock(&a->io);
    return f != NULL;
}

void ucx_flights_drop(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    ucx_flight_t **p = &a->flying, *f;
    madi_lock(&a->io);
    while ((f = *p)) {
        if (f->link != l) {
            p = &f->next;
            continue;
        }
        madi_op_t *op = f->op;
        *p = f->next; /* f itself stays UCX's */
        atomic_fetch_sub_explicit(&l->base.flying, 1, memory_order_relaxed);
        madi_unlock(&a->io);
        op->done(op, MAD_ERR_PEER);
        madi_lock(&a->io);
        p = &a->flying;
    }
    madi_unlock(&a->io);
}

void ucx_send_fini(ucx_adapter_t *a)
{
    for (ucx_copy_t *c; (c = a->all_copies);) {
        a->all_copies = c->all;
        free(c);
    }
    for (ucx_flight_t *f; (f = a->flights);) {
        a->flights = f->next;
        free(f);
    }
    a->copies = NULL;
    a->n_copies = 0;
}

/* ---- Packets -------------------------------------------------------------------------------------------------------------- */

madi_sent_t ucx_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_adapter_t *a = ucx_of(l);
    uint64_t tag = fabric_packet_tag(&l->base);
    ucs_status_t status = UCS_OK;
    madi_sent_t sent = MADI_AGAIN;
    assert(n >= 1 && n <= UCX_GATHER && vec->iov_len >= sizeof(madi_wire_hdr_t) && (op || total <= UCX_PACKET_MAX));
    if (MADI_UNLIKELY(fabric_send_error(&l->base)))
        return MADI_AGAIN;
    if (total > UCX_PACKET_MAX)
        sent = ucx_flight_send(l, tag, vec, n, op, &status);
    else if (ucx_message_send(a, l->peer, tag, vec, n, total, l, &status) == UCX_SENT_OK)
        sent = MADI_SENT;
    fabric_heat(&a->base.heat);
    if (MADI_LIKELY(sent != MADI_AGAIN)) {
        fabric_packet_left(&l->base);
        return sent;
    }
    if (status != UCS_OK && status != UCS_ERR_NO_MEMORY) /* if out of memory, the packet is refused for a while */
        fabric_send_failed(&l->base, status);
    fabric_refuse(&l->base);
    return MADI_AGAIN;
}

/* Send a short packet in another way, after ucx_send_short has found an obstacle. */
static MADI_COLD bool short_send_slowly(madi_link_t *link, const void *packet, size_t total)
{
    return ucx_send(link, &(struct iovec){(void *)(uintptr_t)packet, total}, 1, total, NULL) == MADI_SENT;
}

/* Note that UCX keeps the copy of a short packet.  Under the lock io. */
static MADI_COLD void short_kept(ucx_adapter_t *a, ucx_copy_t *c, ucx_link_t *l)
{
    a->copies = c->next;
    copy_kept(a, c, l);
}

/* Send a short packet from a copy that stays in the list, unless UCX keeps it.  Sending fails on each link of an adapter that
 * breaks, so one check serves both.  Under the lock io. */
static inline ucs_status_ptr_t short_message_post(ucx_adapter_t *a, ucx_link_t *l, const void *packet, size_t total)
{
    ucx_copy_t *c = a->copies;
    if (MADI_UNLIKELY(!c || !l->peer->sends || l->n_copies >= UCX_COPIES || fabric_send_error(&l->base)))
        return UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
    c->tag = fabric_packet_tag(&l->base);
    memcpy(c->data, packet, MADI_PACKET_SHORT);
    ucs_status_ptr_t request = copy_post(a, l->peer, c, total);
    if (MADI_UNLIKELY(UCS_PTR_IS_PTR(request)))
        short_kept(a, c, l);
    return request;
}

bool ucx_send_short(madi_link_t *link, const void *packet, size_t total)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_adapter_t *a = ucx_of(l);
    madi_lock(&a->io);
    ucs_status_ptr_t request = short_message_post(a, l, packet, total);
    madi_unlock(&a->io);
    if (MADI_UNLIKELY(UCS_PTR_IS_ERR(request)))
        return short_send_slowly(link, packet, total);
    fabric_heat(&a->base.heat);
    fabric_packet_left(&l->base);
    return true;
}

bool ucx_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number)
{
    fabric_control_t c = {what, number};
    ucs_status_t status;
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_sent_t sent = ucx_message_send(ucx_of(l), l->peer, fabric_control_tag(link), &(struct iovec){&c, sizeof c}, 1,
                                       sizeof c, l, &status);
    if (sent == UCX_SENT_FAILED && !link->closed)
        fabric_send_failed(link, status);
    return sent == UCX_SENT_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: incoming messages.
 *
 *   ucx_message_arrived     short            copied to where ucx_take wants it, or to a packet of the driver
 *                           longer           stays in UCX's memory if UCX permits that, and may be lent; else copied
 *                           by rendezvous    stays with the peer until the core names the destination
 *
 * The callback only lists what has come, since it runs under io.  UCX's memory may be shared with the peer, so everything
 * except the bodies of packets is copied before it is parsed. */
#include "drivers/ucx/ucx.h"

#include <stdlib.h>
#include <string.h>

#define PACKET_MIN (UCX_TAG_SIZE + sizeof(madi_wire_hdr_t)) /* bytes of a message that is a packet without a body */

/* ---- Packets ---------------------------------------------------------------------------------------------------- */

static ucx_packet_t *packet_take(ucx_adapter_t *a)
{
    ucx_packet_t *p = a->packets;
    if (MADI_LIKELY(p != NULL))
        a->packets = p->next;
    else
        p = aligned_alloc(MADI_LINE, sizeof *p);
    return p;
}

static void packet_free(ucx_adapter_t *a, ucx_packet_t *p)
{
    p->next = a->packets;
    a->packets = p;
}

/* Return a message to UCX, without the lock io. */
static void data_release(ucx_adapter_t *a, void *data)
{
    madi_lock(&a->io);
    if (a->worker)
        a->lib->am_data_release(a->worker, data);
    madi_unlock(&a->io);
}

void ucx_packet_put(ucx_adapter_t *a, ucx_packet_t *p)
{
    switch (p->where) {
    case UCX_WHERE_SMALL: break;
    case UCX_WHERE_COPY: free(p->data); break;
    case UCX_WHERE_LENT:
        atomic_fetch_sub_explicit(&a->lent, 1, memory_order_relaxed);
        data_release(a, p->data - UCX_TAG_SIZE);
        break;
    case UCX_WHERE_BODY:
        if (p->data)
            data_release(a, p->data);
        break;
    }
    packet_free(a, p);
}

void ucx_packet_lend(ucx_adapter_t *a, ucx_packet_t *p)
{
    packet_free(a, p);
}

void ucx_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    ucx_adapter_t *a = (ucx_adapter_t *)link->adapter;
    char *body = madi_foreign_pass_on(loan);
    atomic_fetch_sub_explicit(&a->lent, 1, memory_order_relaxed);
    data_release(a, body - sizeof(madi_wire_hdr_t) - UCX_TAG_SIZE);
}

/* ---- The callback, under the session's lock and io --------------------------------------------------------------- */

static void arrived_add(ucx_adapter_t *a, ucx_packet_t *p)
{
    p->next = NULL;
    *a->arrived = p;
    a->arrived = &p->next;
}

ucx_packet_t *ucx_arrived_take(ucx_adapter_t *a)
{
    ucx_packet_t *p = a->first_arrived;
    if (!p)
        return NULL;
    a->first_arrived = p->next;
    if (!a->first_arrived)
        a->arrived = &a->first_arrived;
    return p;
}

/* Place the bytes of an eager message.  Return what the callback returns, or UCS_ERR_NO_MEMORY. */
static ucs_status_t packet_fill(ucx_adapter_t *a, ucx_packet_t *p, char *data, size_t len, bool stays)
{
    p->len = len;
    p->data = p->small;
    p->where = UCX_WHERE_SMALL;
    if (MADI_UNLIKELY(len > UCX_SMALL)) {
        stays = stays && fabric_tag_kind(p->early.tag) == FABRIC_KIND_PACKET &&
                atomic_load_explicit(&a->lent, memory_order_relaxed) < UCX_LENT_MAX;
        p->data = stays ? data : malloc(len);
        p->where = stays ? UCX_WHERE_LENT : UCX_WHERE_COPY;
        if (stays)
            atomic_fetch_add_explicit(&a->lent, 1, memory_order_relaxed);
        if (stays || !p->data)
            return p->data ? UCS_INPROGRESS : UCS_ERR_NO_MEMORY;
    }
    madi_copy(p->data, data, len);
    return UCS_OK;
}

/* Copy an eager packet to where ucx_take wants it.  False: it must be listed instead. */
__attribute__((always_inline)) static inline bool packet_take_now(ucx_adapter_t *a, const char *data, size_t len)
{
    madi_wire_hdr_t hdr;
    uint64_t tag;
    memcpy(&tag, data, UCX_TAG_SIZE);
    ucx_link_t *l = ucx_turn(a, tag);
    if (MADI_UNLIKELY(!l))
        return false;
    len -= UCX_TAG_SIZE;
    madi_copy(a->taking, data + UCX_TAG_SIZE, len);
    memcpy(&hdr, a->taking, sizeof hdr);
    if (MADI_UNLIKELY(!fabric_header_fits(&hdr, len)))
        return false;
    a->taking = NULL;
    a->taken = l;
    return true;
}

/* Place a message that is not short, or list it.  Return what the callback returns. */
static __attribute__((noinline)) ucs_status_t message_place(ucx_adapter_t *a, const void *head, size_t head_len, void *data,
                                                            size_t len, uint64_t attr)
{
    bool body = attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    ucs_status_t status = UCS_INPROGRESS;
    if (head_len != (body ? sizeof(ucx_head_t) : 0) ||
        (!body && (len < UCX_TAG_SIZE || len > UCX_TAG_SIZE + UCX_PACKET_MAX)))
        return UCS_OK; /* dropped, since no correct peer sends this */
    if (a->taking && !body && len >= PACKET_MIN && len <= PACKET_MIN + MADI_TAKE_MAX && packet_take_now(a, data, len))
        return UCS_OK;
    a->taking = NULL; /* this message is listed, so no later one may overtake it */
    ucx_packet_t *p = packet_take(a);
    if (!p) {
        a->lost = true;
        return UCS_OK;
    }
    memcpy(&p->early.tag, body ? head : data, UCX_TAG_SIZE);
    if (MADI_UNLIKELY(body)) {
        memcpy(&p->hdr, (const char *)head + offsetof(ucx_head_t, hdr), sizeof p->hdr);
        p->where = UCX_WHERE_BODY;
        p->data = data;
        p->len = len;
    } else {
        status = packet_fill(a, p, (char *)data + UCX_TAG_SIZE, len - UCX_TAG_SIZE, attr & UCP_AM_RECV_ATTR_FLAG_DATA);
    }
    if (status == UCS_ERR_NO_MEMORY) {
        packet_free(a, p);
        a->lost = true;
        return UCS_OK;
    }
    arrived_add(a, p);
    return status;
}

/* The length of a short message is limited to what madi_copy copies without a call, so this path saves no registers. */
ucs_status_t ucx_message_arrived(void *arg, const void *head, size_t head_len, void *data, size_t len,
                                 const ucp_am_recv_param_t *param)
{
    ucx_adapter_t *a = arg;
    bool is_short = len - PACKET_MIN <= MADI_SHORT_MAX && !head_len && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    if (MADI_LIKELY(is_short && a->taking && packet_take_now(a, data, len)))
        return UCS_OK;
    return message_place(a, head, head_len, data, len, param->recv_attr);
}

void ucx_message_fini(ucx_adapter_t *a)
{
    for (ucx_packet_t *p; (p = ucx_arrived_take(a));)
        ucx_packet_put(a, p);
    for (ucx_packet_t *p; (p = a->packets);) {
        a->packets = p->next;
        free(p);
    }
}

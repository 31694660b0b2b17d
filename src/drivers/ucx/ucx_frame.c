/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: frames of the handshake.  A source is the address of a worker.  Active messages do not report the sender's address, so
 * each frame begins with it:
 *
 *   | length of the address (1 byte) | address | frame |
 *
 * UCX connects to a worker before anything is sent to it, so the endpoint to a source is kept until the core forgets the
 * source.  If the endpoint were closed after each answer, the peer's endpoint would break. */
#include "drivers/ucx/ucx.h"

static ucx_sent_t ucx_frame_post(ucx_adapter_t *a, ucx_peer_t *peer, const void *frame, size_t len, ucs_status_t *status)
{
    unsigned char n = (unsigned char)a->base.adapter.address_len;
    struct iovec vec[3] = {{&n, 1}, {a->base.adapter.address, n}, {(void *)(uintptr_t)frame, len}};
    return ucx_message_send(a, peer, fabric_tag(FABRIC_KIND_FRAME, 0, 0), vec, 3, 1 + n + len, NULL, status);
}

bool ucx_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucs_status_t status;
    ucx_sent_t sent = ucx_frame_post(ucx_of(l), l->peer, frame, len, &status);
    if (sent == UCX_SENT_FAILED)
        fabric_send_failed(&l->base, status);
    return sent == UCX_SENT_OK;
}

bool ucx_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    char reason[MADI_REASON_MAX];
    ucs_status_t status;
    ucx_peer_t *peer = ucx_peer_of_source(a, source, source_len, reason);
    if (!peer)
        return true; /* nothing has this address */
    return ucx_frame_post(a, peer, frame, len, &status) != UCX_SENT_AGAIN;
}

void ucx_frame_arrived(ucx_adapter_t *a, ucx_packet_t *p)
{
    size_t n = p->len ? (unsigned char)p->data[0] : 0;
    if (n && p->len > 1 + n && p->len - 1 - n <= UCX_FRAME_MAX)
        madi_frame_arrived(&a->base.adapter, p->data + 1, n, p->data + 1 + n, p->len - 1 - n);
    ucx_packet_put(a, p);
}

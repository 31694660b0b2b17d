/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: frames of the handshake.  A source is an endpoint's name; reliable datagrams do not report the source, so each
 * frame begins with that name:
 *
 *   | length of the name (1 byte) | name | frame | */
#include "drivers/ofi/ofi.h"

#include <string.h>

static ssize_t frame_post(ofi_adapter_t *a, fi_addr_t to, const void *frame, size_t len)
{
    unsigned char n = (unsigned char)a->name_len;
    struct iovec vec[3] = {{&n, 1}, {a->base.adapter.address, a->name_len}, {(void *)(uintptr_t)frame, len}};
    ssize_t rc = ofi_message_send(a, to, fabric_tag(FABRIC_KIND_FRAME, 0, 0), vec, 3, 1 + a->name_len + len, NULL);
    fabric_heat(&a->base.heat);
    return rc;
}

bool ofi_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ssize_t rc = frame_post(ofi_of(l), l->peer->addr, frame, len);
    if (rc && rc != -FI_EAGAIN)
        fabric_send_failed(&l->base, (int)-rc);
    return !rc;
}

bool ofi_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    char reason[MADI_REASON_MAX];
    ofi_peer_t *peer = ofi_peer_use(a, source, source_len, reason);
    if (!peer)
        return true; /* no endpoint has this name */
    ssize_t rc = frame_post(a, peer->addr, frame, len);
    ofi_peer_drop(a, peer);
    return rc != -FI_EAGAIN;
}

void ofi_frame_arrived(ofi_adapter_t *a, ofi_buffer_t *b)
{
    size_t n = b->len ? (unsigned char)b->data[0] : 0;
    if (n == a->name_len && b->len > 1 + n && b->len - 1 - n <= MADI_FRAME_MAX)
        madi_frame_arrived(&a->base.adapter, b->data + 1, n, b->data + 1 + n, b->len - 1 - n);
    ofi_buffer_put(a, b);
}

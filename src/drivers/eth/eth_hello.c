/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: frames of the handshake.  They may come from strangers, so nothing is kept for a source. */
#include "drivers/eth/eth.h"

#include <string.h>

#define READ_MAX 64 /* maximum number of frames that are read before other work is checked */

static uint32_t address_port(const eth_address_t *address)
{
    const uint8_t *p = address->port;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool hello_post(eth_adapter_t *a, const eth_address_t *to, const void *frame, size_t len)
{
    eth_head_t head = {
        .version = ETH_VERSION, .kind = ETH_HANDSHAKE, .port = address_port(to), .number = a->port, .len = (uint16_t)len};
    struct iovec body = {(void *)(uintptr_t)frame, len};
    head.check = eth_frame_sum(&head, &body, 1);
    return eth_frame_post(a, to->mac, &head, frame);
}

bool eth_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    const eth_link_t *l = (eth_link_t *)link;
    eth_address_t to = {.port = {l->peer_port & 255, l->peer_port >> 8 & 255, l->peer_port >> 16 & 255, l->peer_port >> 24}};
    memcpy(to.mac, l->peer_mac, ETH_MAC);
    return hello_post(eth_of(l), &to, frame, len);
}

bool eth_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    eth_address_t to;
    if (source_len != sizeof to)
        return true; /* not an address */
    memcpy(&to, source, sizeof to);
    return hello_post((eth_adapter_t *)adapter, &to, frame, len);
}

void eth_hellos_read(eth_adapter_t *a)
{
    for (int i = 0; i < READ_MAX; i++) {
        ssize_t n = recv(a->hellos.fd, a->frame, sizeof a->frame, MSG_DONTWAIT);
        eth_head_t head;
        const void *body;
        if (n < 0)
            return;
        if (!eth_frame_read(a->frame, (size_t)n, &head, &body) || head.kind != ETH_HANDSHAKE ||
            !eth_frame_is_intact(&head, body, true) || a->frame[ETH_MAC] & 1) /* a group's address sends nothing */
            continue;
        eth_address_t source = {
            .port = {head.number & 255, head.number >> 8 & 255, head.number >> 16 & 255, head.number >> 24}};
        memcpy(source.mac, a->frame + ETH_MAC, ETH_MAC);
        madi_frame_arrived(&a->base, &source, sizeof source, body, head.len);
    }
}

void eth_hellos_ready(madi_watch_t *watch, uint32_t events)
{
    (void)events;
    eth_hellos_read(MADI_CONTAINER(watch, eth_adapter_t, hellos));
}

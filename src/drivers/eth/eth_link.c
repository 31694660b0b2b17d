/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: links: their life. */
#include "drivers/eth/eth.h"

#include "base/clock.h"
#include "base/knob.h"
#include "base/random.h"
#include <stdio.h>
#include <string.h>

#define ASK_NS INT64_C(2000000) /* ns between two demands for an acknowledgement at the end of a session */
#define BYE_TIMES 3             /* number of times that BYE is sent, because a network may lose some frames */
#define BYE_LOOKS 4             /* number of ticks for which segments are accepted that BYE may have overtaken */
#define SEGMENT_MIN (ETH_MTU_MIN - sizeof(eth_head_t))

void eth_down(eth_link_t *l, mad_status_t status, const char *text)
{
    if (l->down || l->closed)
        return;
    l->down = true;
    madi_link_down(&l->base, status, text);
}

/* ---- The handshake ---------------------------------------------------------------------------------------------- */

/* Store the address of the other end, which a peer wrote, after a check. */
static bool address_take(eth_link_t *l, const void *bytes, size_t len, char *reason)
{
    eth_address_t address;
    if (len != sizeof address) {
        snprintf(reason, MADI_REASON_MAX, "the peer's address is not one of eth");
        return false;
    }
    memcpy(&address, bytes, sizeof address);
    memcpy(l->peer_mac, address.mac, ETH_MAC);
    l->peer_port =
        address.port[0] | (uint32_t)address.port[1] << 8 | (uint32_t)address.port[2] << 16 | (uint32_t)address.port[3] << 24;
    if (address.mac[0] & 1) {
        snprintf(reason, MADI_REASON_MAX, "the peer's address is that of a group of cards");
        return false;
    }
    return true;
}

/* Prepare the link for the handshake: store the address of the other end, and give the link an index and a key. */
static mad_status_t eth_link_open(eth_link_t *l, const void *address, size_t len, char *reason)
{
    uint32_t unused;
    eth_out_init(&l->out, madi_knob_int(MADI_KNOB_PEER_TIMEOUT));
    l->packets_end = &l->packets;
    if (!address_take(l, address, len, reason))
        return MAD_ERR_PROTOCOL;
    if (!madi_random(&l->key, sizeof l->key)) {
        snprintf(reason, MADI_REASON_MAX, "no random numbers");
        return MAD_ERR_SYSTEM;
    }
    l->key |= 1; /* 0 is none */
    l->index = fabric_table_add(&eth_of(l)->links, l, &unused, reason);
    l->numbered = l->index >= 0;
    return l->numbered ? MAD_OK : MAD_ERR_NOMEM;
}

mad_status_t eth_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)fd; /* *fd stays -1: there is no socket, and the handshake uses frames */
    return eth_link_open((eth_link_t *)link, addr, len, reason);
}

mad_status_t eth_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    return eth_link_open((eth_link_t *)link, source, source_len, reason);
}

size_t eth_describe(madi_link_t *link, void *bytes)
{
    const eth_link_t *l = (eth_link_t *)link;
    const eth_adapter_t *a = eth_of(l);
    fabric_description_t own;
    fabric_describe(ETH_MAGIC, ETH_VERSION, l->index, 0, &own);
    eth_description_t d = {.magic = ETH_MAGIC,
                           .version = ETH_VERSION,
                           .key = l->key,
                           .index = (uint16_t)l->index,
                           .window = (uint16_t)eth_ring_window(&a->ring),
                           .sum = a->sum,
                           .address = a->self,
                           .process = own.process};
    memcpy(bytes, &d, sizeof d);
    return sizeof d;
}

/* Read the description of the other end, which has proved the job's key. */
static bool description_read(eth_link_t *l, eth_description_t *d, char *reason)
{
    unsigned mtu = eth_of(l)->mtu, peer_mtu;
    if (l->base.description_len != sizeof *d) {
        snprintf(reason, MADI_REASON_MAX, "the other end's description has %zu bytes", l->base.description_len);
        return false;
    }
    memcpy(d, l->base.description, sizeof *d);
    peer_mtu = d->address.mtu[0] | (unsigned)d->address.mtu[1] << 8;
    if (d->magic != ETH_MAGIC || d->version != ETH_VERSION || !d->key || !d->window || d->window > ETH_WINDOW ||
        peer_mtu < ETH_MTU_MIN) {
        snprintf(reason, MADI_REASON_MAX, "the other end has another version of the driver eth");
        return false;
    }
    l->segment_max = (uint32_t)((mtu < peer_mtu ? mtu : peer_mtu) - sizeof(eth_head_t));
    return address_take(l, &d->address, sizeof d->address, reason);
}

static void eth_process_ready(madi_watch_t *watch, uint32_t events)
{
    eth_link_t *l = MADI_CONTAINER(watch, eth_link_t, process);
    (void)events;
    if (l->closed || l->down)
        return;
    eth_poll(l->base.adapter, ETH_WINDOW); /* handle the frames that the process sent before its end */
    eth_down(l, MAD_ERR_PEER, "the peer's process has ended");
}

mad_status_t eth_start(madi_link_t *link, int fd, bool active, char *reason)
{
    eth_link_t *l = (eth_link_t *)link;
    eth_description_t d;
    (void)fd;
    (void)active;
    if (!description_read(l, &d, reason))
        return MAD_ERR_PROTOCOL;
    l->peer_key = d.key;
    l->peer_index = d.index;
    l->sum = d.sum;
    eth_out_limit(&l->out, d.window);
    l->process.ready = eth_process_ready;
    fabric_process_watch(&d.process, link->adapter->session, &l->process);
    l->started = l->end.arrived = true;
    madi_link_up(link);
    return MAD_OK;
}

/* ---- The end ---------------------------------------------------------------------------------------------------- */

static void bye_post(eth_adapter_t *a, const uint8_t mac[ETH_MAC], eth_head_t head)
{
    head.version = ETH_VERSION;
    head.kind = ETH_BYE;
    head.check = eth_frame_sum(&head, NULL, 0);
    eth_frame_post(a, mac, &head, NULL);
}

/* Send BYE to the peer, and remember the end of the link as long as the peer may not know it. */
static void eth_end_report(eth_link_t *l)
{
    eth_adapter_t *a = eth_of(l);
    unsigned i = a->next_end++ % ETH_ENDS;
    a->ends[i].key = l->key;
    a->ends[i].peer_key = l->peer_key;
    a->ends[i].peer_port = l->peer_port;
    a->ends[i].peer_index = l->peer_index;
    a->ends[i].number = l->out.next;
    memcpy(a->ends[i].mac, l->peer_mac, ETH_MAC);
    for (int n = 0; n < BYE_TIMES; n++)
        bye_post(a, l->peer_mac,
                 (eth_head_t){.port = l->peer_port, .key = l->peer_key, .index = l->peer_index, .number = l->out.next});
}

void eth_end_answer(eth_adapter_t *a, const eth_head_t *head)
{
    if (head->kind == ETH_BYE)
        return;
    for (unsigned i = 0; i < ETH_ENDS; i++)
        if (a->ends[i].key == head->key)
            bye_post(a, a->ends[i].mac,
                     (eth_head_t){.port = a->ends[i].peer_port,
                                  .key = a->ends[i].peer_key,
                                  .index = a->ends[i].peer_index,
                                  .number = a->ends[i].number});
}

void eth_bye_check(eth_link_t *l, bool late)
{
    if (MADI_LIKELY(!l->bye))
        return;
    l->bye_looks += late;
    if ((atomic_load_explicit(&l->in.next, memory_order_relaxed) == l->bye_at && !l->is_deferred) ||
        l->bye_looks > BYE_LOOKS)
        eth_down(l, MAD_ERR_PEER, FABRIC_CLOSED);
}

void eth_too_long(eth_link_t *l)
{
    eth_adapter_t *a = eth_of(l);
    unsigned frame = l->segment_max + (unsigned)sizeof(eth_head_t), mtu = eth_mtu_query(a);
    char text[MADI_REASON_MAX];
    if (mtu >= frame)
        return; /* the frame is sent again */
    if (mtu >= ETH_MTU_MIN && mtu < a->mtu) {
        eth_mtu_set(a, mtu);
        a->base.frame_max = eth_frame_max(a);
    }
    snprintf(text, sizeof text, "the MTU of %.40s was lowered to %u while a connection used frames of %u bytes",
             a->base.name, mtu, frame);
    eth_down(l, MAD_ERR_SYSTEM, text);
}

void eth_stall_check(eth_link_t *l, int64_t now)
{
    int64_t limit = madi_knob_int(MADI_KNOB_PEER_TIMEOUT);
    char text[MADI_REASON_MAX];
    madi_link_lock_tx(&l->base);
    bool stalled = l->out.acked != l->out.next && now - l->out.moved >= limit;
    madi_link_unlock_tx(&l->base);
    if (!stalled)
        return;
    snprintf(
        text, sizeof text,
        "no segment was acknowledged for %lld ms (MAD_PEER_TIMEOUT), though the peer answers: is an MTU on the way less "
        "than %u?",
        (long long)(limit / 1000000), l->segment_max + (unsigned)sizeof(eth_head_t));
    eth_down(l, MAD_ERR_PEER, text);
}

bool eth_drained(madi_link_t *link)
{
    eth_link_t *l = (eth_link_t *)link;
    int64_t now = madi_now();
    madi_link_lock_tx(link);
    bool drained = !l->packets;
    madi_link_unlock_tx(link);
    if (drained || !l->started || l->down)
        return true;
    if (now - l->asked >= ASK_NS) {
        l->asked = now;
        eth_ack_send(l, true);
    }
    eth_attend(eth_of(l));
    return false;
}

void eth_acknowledge(madi_link_t *link)
{
    eth_link_t *l = (eth_link_t *)link;
    if (l->started && !l->closed && eth_in_owed(&l->in))
        eth_ack_send(l, false);
}

void eth_link_close(madi_link_t *link)
{
    eth_link_t *l = (eth_link_t *)link;
    eth_adapter_t *a = eth_of(l);
    if (l->closed)
        return;
    l->closed = true;
    fabric_process_unwatch(link->adapter->session, &l->process);
    if (l->started && eth_in_owed(&l->in))
        eth_ack_send(l, false); /* the peer may wait for this acknowledgement before it ends without loss */
    if (l->started && !l->bye)
        eth_end_report(l);
    if (l->numbered)
        a->links.links[l->index] = NULL;
    eth_receive_forget(l);
    if (l->packets_end)
        eth_packets_fail(l);
}

void eth_link_fini(madi_link_t *link)
{
    eth_link_t *l = (eth_link_t *)link;
    eth_link_close(link);
    eth_packets_fini(l);
}

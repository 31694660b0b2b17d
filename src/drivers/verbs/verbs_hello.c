/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: messages over the socket of a link, after the core's handshake.
 *
 *   both sides, in start            HELLO     what the other queue pair needs
 *   when that has come, and the     READY     this side's pair receives: the other side may send
 *   queue pair is connected
 *   both have come: the link is up
 *   at the end of a session         FLUSH n   of iWARP: report when n messages have arrived;  FLUSHED n is the answer
 *   in link_close                   BYE n     n messages were sent; then the socket ends
 *
 * On iWARP the completion of a message does not show that it has arrived, and the end of a queue pair may lose what is under
 * way.  So the end of a session waits for FLUSHED.  There the passive end is up only when a message has come: it must not be
 * the first that sends.
 *
 * The end of the socket without BYE is the death of the peer. */
#include "drivers/verbs/verbs.h"

#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define HELLO_MAGIC 0x6276646du
#define HELLO_VERSION 2
#define PAIR_MAX ((UINT32_C(1) << 24) - 1) /* numbers of queue pairs and packets have 24 bits */
#define WINDOW_MAX 65535
#define READ_MAX 64 /* messages that are read before other work is checked; the watch reports the rest again */

static bool bytes_send(verbs_link_t *l, const void *bytes, size_t len)
{
    return send(l->watch.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

bool verbs_hello_send(verbs_link_t *l, char *reason)
{
    const verbs_adapter_t *a = verbs_of(l);
    verbs_hello_t hello = {.magic = HELLO_MAGIC,
                           .version = HELLO_VERSION,
                           .index = (uint32_t)l->base.index,
                           .key = l->base.key,
                           .pair = l->pair_number,
                           .psn = l->psn,
                           .window = VERBS_WINDOW,
                           .lid = a->port.lid,
                           .mtu = (uint8_t)a->port.mtu,
                           .reads = (uint8_t)a->reads,
                           .cm_port = a->cm_port};
    memcpy(hello.gid, a->port.gid.raw, sizeof hello.gid);
    if (bytes_send(l, &hello, sizeof hello))
        return true;
    snprintf(reason, MADI_REASON_MAX, "the socket of a connection: %s", strerror(errno));
    return false;
}

void verbs_bye_send(verbs_link_t *l)
{
    verbs_word_t word = {VERBS_BYE, atomic_load_explicit(&l->sent, memory_order_relaxed)};
    if (l->base.is_up)
        bytes_send(l, &word, sizeof word); /* if that fails, the socket's end alone reports it */
}

/* True if the GID or LID in the HELLO can belong to `peer`, the address at the other end of the socket. */
static bool hello_place_is_valid(const verbs_link_t *l, const verbs_hello_t *h, const struct sockaddr_storage *peer)
{
    const verbs_port_t *port = &verbs_of(l)->port;
    if (port->iwarp) /* not checked on iWARP, where rdma_cm connects to the IP address of the socket */
        return h->cm_port != 0;
    return port->ethernet ? verbs_gid_is(h->gid, peer) : h->lid && !memcmp(h->gid, port->gid.raw, 8);
}

/* Connect the queue pair, or begin to connect it.  Return false with the reason. */
static bool hello_connect(verbs_link_t *l, const verbs_hello_t *h, const struct sockaddr_storage *peer, char *reason)
{
    if (!verbs_of(l)->cm)
        return l->paired = verbs_pair_connect(l, h, reason);
    return !l->active || verbs_cm_connect(l, peer, h, reason);
}

void verbs_ready_send(verbs_link_t *l)
{
    verbs_word_t ready = {VERBS_READY, 0};
    if (!l->greeted || !l->paired || l->ready_sent || l->base.closed || l->base.down)
        return;
    l->ready_sent = true;
    if (!bytes_send(l, &ready, sizeof ready))
        fabric_link_down(&l->base, MAD_ERR_PEER, FABRIC_CLOSED);
}

static void hello_handle(verbs_link_t *l)
{
    verbs_hello_t h;
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    char reason[MADI_REASON_MAX];
    memcpy(&h, l->in, sizeof h);
    if (h.magic != HELLO_MAGIC || h.version != HELLO_VERSION) {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "the other end has another version of the driver verbs");
        return;
    }
    if (h.index >= FABRIC_LINKS_MAX || h.key > FABRIC_KEY_MASK || h.pair > PAIR_MAX || h.psn > PAIR_MAX ||
        h.window <= VERBS_KEPT || h.window > WINDOW_MAX || h.mtu < IBV_MTU_256 || h.mtu > IBV_MTU_4096 || !h.reads ||
        h.cm_port > UINT16_MAX || getpeername(l->watch.fd, (struct sockaddr *)&peer, &len) ||
        !hello_place_is_valid(l, &h, &peer)) {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "the other end's queue pair, window or GID is not valid");
        return;
    }
    if (!h.cm_port != !verbs_of(l)->cm) {
        fabric_link_down(&l->base, MAD_ERR_CONFIG,
                         "only one end connects by rdma_cm: set MAD_VERBS_CM to the same value in all processes");
        return;
    }
    l->base.tag = fabric_tag(FABRIC_KIND_PACKET, h.key, (uint16_t)h.index);
    l->window = h.window;
    l->peer_reads = h.reads;
    l->greeted = true;
    if (hello_connect(l, &h, &peer, reason))
        verbs_ready_send(l);
    else
        fabric_link_down(&l->base, MAD_ERR_SYSTEM, reason);
}

void verbs_up_check(verbs_link_t *l)
{
    bool waits = verbs_of(l)->port.iwarp && !l->active && !l->arrived;
    if (!l->ready_came || l->base.is_up || waits || l->base.closed || l->base.down)
        return;
    l->base.is_up = true;
    fabric_heat(&verbs_of(l)->base.heat);
    madi_link_up(&l->base.link);
    if (!l->base.closed)
        verbs_early_run(&l->base);
}

static void word_handle(verbs_link_t *l)
{
    verbs_word_t word;
    memcpy(&word, l->in, sizeof word);
    if (word.kind == VERBS_READY && !l->ready_came) {
        l->ready_came = true;
        if (verbs_of(l)->port.iwarp)
            verbs_drain(fabric_of(&l->base)); /* perhaps the first message is there */
        verbs_up_check(l);
    } else if (word.kind == VERBS_BYE && l->ready_came && !l->bye) {
        l->bye = true;
        l->bye_at = word.number;
    } else if (word.kind == VERBS_FLUSH && l->ready_came) {
        l->flush_wanted = true;
        l->flush_at = word.number;
        verbs_of(l)->flushing = true;
        verbs_drain(fabric_of(&l->base));
    } else if (word.kind == VERBS_FLUSHED && l->flush_asked) {
        l->flushed = word.number == l->flush_sent;
    } else {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "an unknown message came over the socket of a connection");
    }
}

/* Handle the end of the socket, after the messages that have arrived. */
static void socket_ended(verbs_link_t *l, int error)
{
    char text[MADI_REASON_MAX];
    verbs_drain(fabric_of(&l->base));
    verbs_rest_deliver(l);
    if (error == 0 || error == ECONNRESET)
        snprintf(text, sizeof text, FABRIC_CLOSED);
    else
        snprintf(text, sizeof text, "the socket of the connection has failed: %s", strerror(error));
    fabric_link_down(&l->base, MAD_ERR_PEER, text);
}

/* Report to peers that their messages have arrived. */
void verbs_flush_answer(verbs_adapter_t *a)
{
    a->flushing = false;
    for (int i = 0; i < a->base.links.n; i++) {
        verbs_link_t *l = a->base.links.links[i];
        if (!l || !l->flush_wanted || l->base.closed || l->base.down)
            continue;
        verbs_word_t word = {VERBS_FLUSHED, l->flush_at};
        l->flush_wanted = (int32_t)(l->arrived - l->flush_at) < 0;
        if (!l->flush_wanted)
            bytes_send(l, &word, sizeof word); /* if that fails, the socket's end reports it */
        a->flushing |= l->flush_wanted;
    }
}

bool verbs_flush_known(verbs_link_t *l)
{
    verbs_word_t word = {VERBS_FLUSH, atomic_load_explicit(&l->sent, memory_order_relaxed)};
    if (l->flush_asked && l->flush_sent == word.number)
        return l->flushed;
    l->flush_asked = true;
    l->flushed = false;
    l->flush_sent = word.number;
    bytes_send(l, &word, sizeof word); /* if that fails, the socket's end reports it */
    return false;
}

void verbs_bye_check(verbs_link_t *l)
{
    if (MADI_UNLIKELY(l->bye) && l->arrived == l->bye_at && !l->base.early && !l->base.receiving)
        fabric_link_down(&l->base, MAD_ERR_PEER, FABRIC_CLOSED);
}

void verbs_socket_ready(madi_watch_t *watch, uint32_t events)
{
    verbs_link_t *l = MADI_CONTAINER(watch, verbs_link_t, watch);
    (void)events;
    for (int i = 0; i < READ_MAX && !l->base.closed && !l->base.down; i++) {
        size_t wanted = l->greeted ? sizeof(verbs_word_t) : sizeof(verbs_hello_t);
        ssize_t n = recv(watch->fd, l->in + l->in_len, wanted - l->in_len, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            socket_ended(l, n ? errno : 0);
            return;
        }
        l->in_len += (size_t)n;
        if (l->in_len < wanted)
            continue;
        l->in_len = 0;
        if (l->greeted)
            word_handle(l);
        else
            hello_handle(l);
        if (l->bye && !l->base.closed && !l->base.down) {
            verbs_drain(fabric_of(&l->base));
            if (!l->base.closed)
                verbs_bye_check(l);
        }
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: messages over the socket of a link, after the core's handshake.
 *
 *   both sides, in start            HELLO     what the other queue pair needs
 *   when that has come              READY     this side's pair receives: the other side may send
 *   both have come: the link is up
 *   in link_close                   BYE n     n messages were sent; then the socket ends
 *
 * The end of the socket without BYE is the death of the peer. */
#include "drivers/verbs/verbs.h"

#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define HELLO_MAGIC 0x6276646du
#define HELLO_VERSION 1
#define PAIR_MAX ((UINT32_C(1) << 24) - 1) /* numbers of queue pairs and packets have 24 bits */
#define WINDOW_MAX 65535

static bool bytes_send(verbs_link_t *l, const void *bytes, size_t len)
{
    return send(l->watch.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

bool verbs_hello_send(verbs_link_t *l, char *reason)
{
    const verbs_adapter_t *a = verbs_of(l);
    verbs_hello_t hello = {.magic = HELLO_MAGIC,
                           .version = HELLO_VERSION,
                           .index = (uint32_t)l->index,
                           .key = l->key,
                           .pair = l->pair_number,
                           .psn = l->psn,
                           .window = VERBS_WINDOW,
                           .lid = a->port.lid,
                           .mtu = (uint8_t)a->port.mtu,
                           .reads = (uint8_t)a->reads};
    memcpy(hello.gid, a->port.gid.raw, sizeof hello.gid);
    if (bytes_send(l, &hello, sizeof hello))
        return true;
    snprintf(reason, MADI_REASON_MAX, "the socket of a connection: %s", strerror(errno));
    return false;
}

void verbs_bye_send(verbs_link_t *l)
{
    verbs_word_t word = {VERBS_BYE, atomic_load_explicit(&l->sent, memory_order_relaxed)};
    if (l->is_up)
        bytes_send(l, &word, sizeof word); /* if that fails, the socket's end alone reports it */
}

/* True if the other end's GID or LID is one that the socket's other end can have. */
static bool hello_place_is_valid(const verbs_link_t *l, const verbs_hello_t *h)
{
    const verbs_port_t *port = &verbs_of(l)->port;
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    if (!port->ethernet)
        return h->lid && !memcmp(h->gid, port->gid.raw, 8);
    return !getpeername(l->watch.fd, (struct sockaddr *)&peer, &len) && verbs_gid_is(h->gid, &peer);
}

static void hello_handle(verbs_link_t *l)
{
    verbs_hello_t h;
    verbs_word_t ready = {VERBS_READY, 0};
    char reason[MADI_REASON_MAX];
    memcpy(&h, l->in, sizeof h);
    if (h.magic != HELLO_MAGIC || h.version != HELLO_VERSION) {
        verbs_down(l, MAD_ERR_PROTOCOL, "the other end has another version of the driver verbs");
        return;
    }
    if (h.index >= FABRIC_LINKS_MAX || h.key > FABRIC_KEY_MASK || h.pair > PAIR_MAX || h.psn > PAIR_MAX ||
        h.window <= VERBS_KEPT || h.window > WINDOW_MAX || h.mtu < IBV_MTU_256 || h.mtu > IBV_MTU_4096 || !h.reads ||
        !hello_place_is_valid(l, &h)) {
        verbs_down(l, MAD_ERR_PROTOCOL, "the other end's queue pair, window or GID is not valid");
        return;
    }
    if (!verbs_pair_connect(l, &h, reason)) {
        verbs_down(l, MAD_ERR_SYSTEM, reason);
        return;
    }
    l->tag = fabric_tag(FABRIC_KIND_PACKET, h.key, (uint16_t)h.index);
    l->window = h.window;
    l->greeted = true;
    if (!bytes_send(l, &ready, sizeof ready))
        verbs_down(l, MAD_ERR_PEER, "connection closed by peer");
}

static void word_handle(verbs_link_t *l)
{
    verbs_word_t word;
    memcpy(&word, l->in, sizeof word);
    if (word.kind == VERBS_READY && !l->is_up) {
        l->is_up = true;
        fabric_heat(&verbs_of(l)->heat);
        madi_link_up(&l->base);
        if (!l->closed)
            verbs_early_run(l);
    } else if (word.kind == VERBS_BYE && l->is_up && !l->bye) {
        l->bye = true;
        l->bye_at = word.number;
    } else {
        verbs_down(l, MAD_ERR_PROTOCOL, "an unknown message came over the socket of a connection");
    }
}

/* Handle the end of the socket: first what has arrived. */
static void socket_ended(verbs_link_t *l, int error)
{
    char text[MADI_REASON_MAX];
    verbs_drain(verbs_of(l));
    verbs_rest_deliver(l);
    if (error == 0 || error == ECONNRESET)
        snprintf(text, sizeof text, "connection closed by peer");
    else
        snprintf(text, sizeof text, "the socket of the connection has failed: %s", strerror(error));
    verbs_down(l, MAD_ERR_PEER, text);
}

void verbs_bye_check(verbs_link_t *l)
{
    if (MADI_UNLIKELY(l->bye) && l->arrived == l->bye_at && !l->early && !l->receiving)
        verbs_down(l, MAD_ERR_PEER, "connection closed by peer");
}

void verbs_socket_ready(madi_watch_t *watch, uint32_t events)
{
    verbs_link_t *l = MADI_CONTAINER(watch, verbs_link_t, watch);
    (void)events;
    while (!l->closed && !l->down) {
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
        if (l->bye && !l->closed && !l->down) {
            verbs_drain(verbs_of(l));
            if (!l->closed)
                verbs_bye_check(l);
        }
    }
}

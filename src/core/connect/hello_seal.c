/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS below the handshake, on networks whose security is seal.  The active side begins TLS as soon as it is connected,
 * and all frames go through TLS.  Both proofs contain bytes that TLS exports of the connection (binding), so no third
 * process can be between the two ends.
 *
 *
 * The first byte that arrives shows whether the other side seals: a TLS record begins with 0x16, a frame with 'M'.  If
 * only one side seals, the passive side sends REFUSE in the clear, and both log the remedy. */
#include "core/connect/hello.h"
#include "core/connect/hello_inside.h"
#include "core/driver.h"
#include "core/object/session.h"
#include "core/security/seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define TLS_HANDSHAKE 0x16
#define TLS_ALERT 0x15

/* Send the bytes that wait in the seal.  A new socket takes some KiB at once.  Return false if it does not take all of
 * them. */
static bool seal_flush(madi_hello_t *h)
{
    size_t len;
    const void *out = madi_seal_out(h->seal, &len);
    ssize_t n = len ? send(h->watch.fd, out, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    if (n > 0)
        madi_seal_sent(h->seal, (size_t)n);
    return n == (ssize_t)len;
}

/* Make the connection's seal.  On failure end the handshake, and return false. */
static bool seal_make(madi_hello_t *h)
{
    madi_seal_key_set(h->session->seal, h->session->secrets->gateway_key);
    h->seal = madi_seal_new(h->session->seal, h->active);
    if (!h->seal)
        madi_hello_fail(h, MAD_ERR_NOMEM, "no memory for a sealed connection");
    return h->seal != NULL;
}

/* Refuse a connection that does not begin with TLS, on a sealed network. */
static void seal_refuse_plain(madi_hello_t *h, int first)
{
    char rest[4096];
    if (first != 'M') {
        madi_hello_fail(h, MAD_ERR_PROTOCOL, "what came is not TLS: no Madeleine process calls there");
        return;
    }
    /* Unread bytes would make the kernel reset the connection, and the answer would be lost. */
    while (recv(h->watch.fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
    madi_hello_refuse(
        h, MAD_ERR_CONFIG,
        "this network is sealed here, and the caller speaks in the clear: give both the same topology file and "
        "MAD_TCP_SECURITY");
}

/* Look at the first byte of an incoming connection, and make its seal.  Return false if nothing has arrived.  On failure end
 * the handshake, and return false. */
static bool seal_accept(madi_hello_t *h)
{
    unsigned char first;
    ssize_t n = recv(h->watch.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0)
        madi_hello_read_failed(h, n);
    else if (first != TLS_HANDSHAKE)
        seal_refuse_plain(h, first);
    else if (!h->session->secrets)
        madi_hello_fail(h, MAD_ERR_PEER, "this process does not know the job's key yet");
    else
        return seal_make(h);
    return false;
}

static void seal_failed(madi_hello_t *h, mad_status_t status, const char *reason)
{
    seal_flush(h); /* send the TLS alert, if possible */
    madi_hello_fail(h, status, reason);
}

/* Continue TLS.  Return true if frames can be sent, and false if more bytes have to arrive.  On failure end the handshake,
 * and return false. */
static bool seal_shake(madi_hello_t *h)
{
    char reason[MADI_REASON_MAX];
    mad_status_t status = MAD_ERR_PROTOCOL;
    int first = madi_seal_first_byte(h->seal);
    madi_seal_state_t state;
    if (h->active && first == 'M') { /* the other side has sent REFUSE, or another frame, in the clear */
        madi_hello_fail(
            h, MAD_ERR_CONFIG,
            "this network is sealed here, and the peer answers in the clear: give both the same topology file and "
            "MAD_TCP_SECURITY");
        return false;
    }
    state = madi_seal_shake(h->seal, &status, reason);
    if (state == MADI_SEAL_FAILED) {
        seal_failed(h, status, reason);
        return false;
    }
    if (state == MADI_SEAL_READY) {
        h->sealed = true;
        memcpy(h->transcript.binding, madi_seal_binding(h->seal), MADI_SEAL_BINDING);
        if (h->active)
            madi_attempt_greet(h); /* send HELLO, behind the last bytes of TLS */
        return h->watch.fd >= 0;
    }
    if (!seal_flush(h))
        madi_hello_fail(h, MAD_ERR_SYSTEM, "the handshake of TLS could not be sent");
    return false;
}

/* Receive bytes into the seal.  The result is like that of recv. */
static ssize_t seal_receive(madi_hello_t *h)
{
    size_t room;
    void *to = madi_seal_room(h->seal, &room);
    ssize_t n = recv(h->watch.fd, to, room, MSG_DONTWAIT);
    if (n > 0)
        madi_seal_received(h->seal, (size_t)n);
    return n;
}

bool madi_hello_seal_begin(madi_hello_t *h)
{
    if (!seal_make(h))
        return false;
    seal_shake(h);
    return h->watch.fd >= 0;
}

bool madi_hello_seal_go(madi_hello_t *h)
{
    ssize_t n;
    if (!h->seal && !seal_accept(h))
        return false;
    while (!h->sealed) {
        n = seal_receive(h);
        if (n <= 0) {
            madi_hello_read_failed(h, n);
            return false;
        }
        if (!seal_shake(h) && h->watch.fd < 0)
            return false;
    }
    return true;
}

bool madi_hello_seal_write(madi_hello_t *h, const struct iovec *vec, int n, size_t len)
{
    return madi_seal_put(h->seal, vec, n, len) == len && seal_flush(h);
}

/* Open the next record.  The result is like that of recv; EPROTO: the record is not genuine, and madi_seal_why has the
 * cause. */
static ssize_t seal_open(madi_hello_t *h)
{
    size_t len;
    bool broken;
    if (!h->text)
        h->text = malloc(MADI_SEAL_TEXT);
    errno = ENOMEM;
    if (!h->text)
        return -1;
    for (;;) {
        madi_seal_next_t next = MADI_SEAL_NOTHING;
        if (madi_seal_peek(h->seal, &broken))
            next = madi_seal_open(h->seal, h->text, &len);
        if (next == MADI_SEAL_PAYLOAD) {
            h->text_at = 0;
            return (ssize_t)(h->text_n = len);
        }
        if (next == MADI_SEAL_ENDED)
            return 0;
        if (broken || next == MADI_SEAL_BROKEN) {
            errno = EPROTO;
            return -1;
        }
        if (next == MADI_SEAL_NOTHING) {
            ssize_t n = seal_receive(h);
            if (n <= 0)
                return n;
        }
    }
}

ssize_t madi_hello_seal_read(madi_hello_t *h, void *to, size_t len)
{
    if (h->text_at == h->text_n) {
        ssize_t n = seal_open(h);
        if (n <= 0)
            return n;
    }
    len = len < h->text_n - h->text_at ? len : h->text_n - h->text_at;
    memcpy(to, h->text + h->text_at, len);
    h->text_at += len;
    return (ssize_t)len;
}

bool madi_hello_seal_more(const madi_hello_t *h)
{
    return h->text_at < h->text_n || !madi_seal_empty(h->seal);
}

void madi_hello_seal_give(madi_hello_t *h, madi_link_t *link)
{
    link->seal = h->seal;
    h->seal = NULL;
}

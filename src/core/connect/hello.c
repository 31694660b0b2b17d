/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/knob.h"
#include "base/own.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/hello.h"
#include "core/connect/hello_inside.h"
#include "core/driver.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/security/proof.h"
#include "core/security/seal.h"
#include "core/security/secret.h"
#include "core/wire/wire.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* ---- Life ----------------------------------------------------------------------------------------------------- */

/* Set what the proofs of a handshake in frames are bound to: a text that TLS never exports, then the handshake's number. */
static void frames_bind(madi_hello_t *h)
{
    static const char text[] = "madeleine frames";
    memcpy(h->transcript.binding, text, sizeof text);
    memcpy(h->transcript.binding + 24, &h->frames->call, sizeof h->frames->call);
}

madi_hello_t *madi_hello_new(mad_session_t *s, madi_adapter_t *adapter, int fd, madi_frames_t *frames)
{
    madi_hello_t *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->session = s;
    h->adapter = adapter;
    h->frames = frames;
    h->watch.fd = fd;
    h->watch.ready = madi_hello_ready;
    h->transcript.driver = adapter->driver->name;
    h->transcript.mac = &s->connect->mac;
    h->deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
    h->began = madi_now();
    if (!s->connect->hellos_looked)
        s->connect->hellos_looked = h->began;
    h->next = s->connect->hellos;
    s->connect->hellos = h;
    return h;
}

static void hello_unlink(madi_hello_t *h)
{
    for (madi_hello_t **p = &h->session->connect->hellos; *p; p = &(*p)->next)
        if (*p == h) {
            *p = h->next;
            h->session->connect->n_accepted -= !h->active;
            h->session->connect->n_attempts -= h->active;
            if (h->active)
                h->gate->connect->n_attempts--;
            break;
        }
    if (h->gate && h->gate->connect->hello == h)
        h->gate->connect->hello = NULL;
    /* not freed yet: a list of events may still refer to the handshake's watch */
    h->next = h->session->connect->dead_hellos;
    h->session->connect->dead_hellos = h;
}

int madi_hello_release(madi_hello_t *h)
{
    int fd = h->watch.fd;
    if (fd >= 0)
        madi_watch_del(h->session, &h->watch);
    h->watch.fd = -1;
    hello_unlink(h);
    return fd;
}

void madi_hello_close(madi_hello_t *h)
{
    int fd = madi_hello_release(h);
    if (!h->frames) {
        madi_fd_close(fd);
        return;
    }
    if (h->frames->out && !h->frames->last)
        madi_frames_end(h->frames);
    if (!h->active && !h->link) /* only without a link, because otherwise the source belongs to the link */
        madi_source_end(h->adapter, h->frames->source, h->frames->source_len);
}

void madi_hello_abort(madi_hello_t *h)
{
    madi_link_t *link = h->link;
    madi_hello_close(h);
    if (link)
        madi_link_down(link, MAD_ERR_CANCELLED, "replaced");
}

void madi_hellos_abort(mad_session_t *s)
{
    while (s->connect->hellos)
        madi_hello_abort(s->connect->hellos);
}

void madi_hellos_reap(mad_session_t *s)
{
    for (madi_hello_t *h; (h = s->connect->dead_hellos); free(h)) {
        s->connect->dead_hellos = h->next;
        free(h->body);
        free(h->text);
        madi_frames_free(h->frames);
        madi_seal_free(h->seal);
    }
}

void madi_hello_fail(madi_hello_t *h, mad_status_t status, const char *text)
{
    madi_link_t *link = h->link;
    if (!link)
        madi_accept_refused(h, status, text);
    madi_hello_close(h);
    if (link)
        madi_link_down(link, status, text);
}

void madi_hello_start(madi_hello_t *h, madi_link_t *link, int fd)
{
    char reason[MADI_REASON_MAX] = "";
    mad_status_t status;
    if (h->frames) {
        link->description = h->body + h->description;
        link->description_len = h->header.length - h->description;
    }
    status = link->driver->start(link, fd, h->active, reason);
    link->description = NULL;
    if (status)
        madi_link_down(link, status, reason[0] ? reason : mad_status_text(status));
}

/* ---- Frames --------------------------------------------------------------------------------------------------- */

/* Return the header of a frame that this process sends, with a body of len bytes.  HELLO and CHALLENGE are also kept, for
 * the proofs. */
static madi_frame_t frame_header(madi_hello_t *h, madi_hello_kind_t kind, const void *body, size_t len)
{
    madi_frame_t header = {MADI_HELLO_MAGIC, MADI_WIRE_VERSION, (uint16_t)kind, (uint32_t)len};
    if (kind == MADI_HELLO_HELLO) {
        h->transcript.hello.header = header;
        memcpy(&h->transcript.hello.body, body, sizeof h->transcript.hello.body);
    } else if (kind == MADI_HELLO_CHALLENGE) {
        h->transcript.challenge.header = header;
        memcpy(&h->transcript.challenge.body, body, sizeof h->transcript.challenge.body);
    }
    return header;
}

static bool frame_write(madi_hello_t *h, const struct iovec *vec, int n, size_t len)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)vec, .msg_iovlen = (size_t)n};
    if (h->frames)
        return madi_frames_put(h->frames, vec, n, len);
    if (h->sealed)
        return madi_hello_seal_write(h, vec, n, len);
    /* A new socket takes some KiB at once.  If it takes less than the frame, the connection is ended instead of waiting. */
    return sendmsg(h->watch.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

bool madi_hello_send(madi_hello_t *h, madi_hello_kind_t kind, const void *body, size_t len)
{
    madi_frame_t header = frame_header(h, kind, body, len);
    struct iovec vec[] = {{&header, sizeof header}, {(void *)body, len}};
    return frame_write(h, vec, 2, sizeof header + len);
}

madi_role_t madi_hello_peer_role(const madi_hello_t *h)
{
    return (madi_role_t)(h->active ? h->transcript.challenge.body.role : h->transcript.hello.body.role);
}

static const unsigned char *hello_key(const madi_hello_t *h)
{
    /* a key of zeros, which everybody knows: used if both sides have set security `none` for the network */
    static const unsigned char no_key[MADI_SECRET_LEN];
    if (h->adapter->security == MADI_SECURITY_NONE)
        return no_key;
    return madi_secrets_key(h->session->secrets, madi_hello_peer_role(h));
}

bool madi_hello_send_signed(madi_hello_t *h, madi_hello_kind_t kind, const void *body, size_t len)
{
    int side = !h->active;
    madi_frame_t header = frame_header(h, kind, body, MADI_PROOF_LEN + len);
    struct iovec vec[] = {{&header, sizeof header}, {h->transcript.proof[side], MADI_PROOF_LEN}, {(void *)body, len}};
    if (h->frames)
        frames_bind(h);
    return madi_proof_make(&h->transcript, hello_key(h), side, &header, body, len) &&
           frame_write(h, vec, 3, sizeof header + MADI_PROOF_LEN + len);
}

bool madi_hello_check_signed(madi_hello_t *h)
{
    int side = h->active;
    size_t len = h->header.length;
    if (h->frames)
        frames_bind(h);
    return len >= MADI_PROOF_LEN &&
           madi_proof_make(&h->transcript, hello_key(h), side, &h->header, h->body + MADI_PROOF_LEN, len - MADI_PROOF_LEN) &&
           !CRYPTO_memcmp(h->transcript.proof[side], h->body, MADI_PROOF_LEN);
}

bool madi_hello_secret(const madi_hello_t *h, madi_link_t *link)
{
    return madi_proof_secret(&h->transcript, hello_key(h), link->secret);
}

void madi_hello_refuse(madi_hello_t *h, mad_status_t status, const char *text)
{
    uint32_t code = status;
    madi_hello_send(h, MADI_HELLO_REFUSE, &code, sizeof code);
    if (h->frames)
        h->frames->last = true;
    madi_hello_fail(h, status, text);
}

void madi_hello_security_text(const madi_hello_t *h, unsigned security, char *text, size_t len)
{
    snprintf(text, len,
             "the peer's security for this network is %s, and here it is %s: give both the same topology file and knobs",
             madi_security_name(security), madi_security_name(h->adapter->security));
}

/* ---- Frames in ------------------------------------------------------------------------------------------------ */

static void frame_handle(madi_hello_t *h)
{
    char text[160];
    const madi_frame_t *f = &h->header;
    if (f->version != MADI_WIRE_VERSION) {
        snprintf(text, sizeof text, "the peer speaks version %u of the protocol, this process %u: use the same release",
                 f->version, MADI_WIRE_VERSION);
        madi_hello_refuse(h, MAD_ERR_VERSION, text);
    } else if (f->kind == MADI_HELLO_REFUSE && h->active) {
        madi_attempt_refused(h);
    } else if (f->kind == MADI_HELLO_NONE || f->kind != h->expect) {
        madi_hello_fail(h, MAD_ERR_PROTOCOL, "the handshake is out of order");
    } else if (f->kind == MADI_HELLO_HELLO) {
        madi_accept_hello(h);
    } else if (f->kind == MADI_HELLO_CHALLENGE) {
        madi_attempt_challenge(h);
    } else if (f->kind == MADI_HELLO_PROOF) {
        madi_accept_proof(h);
    } else {
        madi_attempt_verdict(h);
    }
}

/* Refuse a connection that begins with TLS, on a network that is not sealed. */
static void tls_refuse(madi_hello_t *h)
{
    char rest[4096];
    /* read the rest, since unread bytes would reset the connection and destroy the answer */
    while (recv(h->watch.fd, rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
    madi_hello_refuse(h, MAD_ERR_CONFIG,
                      "the caller begins TLS, and this network is not sealed here: give both the same topology file and "
                      "MAD_TCP_SECURITY");
}

/* Return true if h->header is the header of a frame, and there is memory for the body.  Otherwise end the handshake, and
 * return false. */
static bool header_ready(madi_hello_t *h)
{
    if (!h->active && (h->header.magic & 0xff) == 0x16 && !h->sealed && !h->frames) { /* a TLS record */
        tls_refuse(h);
        return false;
    }
    if (h->header.magic != MADI_HELLO_MAGIC || h->header.length > MADI_FRAME_BODY_MAX) {
        madi_hello_fail(h, MAD_ERR_PROTOCOL, "what came is not a handshake: no Madeleine process speaks there");
        return false;
    }
    free(h->body);
    h->body = malloc(h->header.length ? h->header.length : 1);
    if (!h->body)
        madi_hello_fail(h, MAD_ERR_NOMEM, "no memory for a frame of the handshake");
    return h->body != NULL;
}

void madi_hello_read_failed(madi_hello_t *h, ssize_t n)
{
    const char *text =
        n ? strerror(errno) : "the connection was closed during the handshake (it ended, or has no descriptors left)";
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 && errno == EPROTO && h->sealed)
        madi_hello_fail(h, MAD_ERR_PROTOCOL, madi_seal_why(h->seal));
    else if (h->active && (!n || errno == ECONNRESET))
        madi_attempt_cut(h, text);
    else
        madi_hello_fail(h, n < 0 && errno != ECONNRESET ? MAD_ERR_SYSTEM : MAD_ERR_PEER, text);
}

/* Read exactly one frame: bytes behind the handshake belong to the driver.  Return false if the frame is incomplete.  On
 * failure end the handshake, and return false. */
static bool frame_read(madi_hello_t *h)
{
    for (;;) {
        size_t header = sizeof h->header, want = h->n_in < header ? header : header + h->header.length;
        unsigned char *to = h->n_in < header ? (unsigned char *)&h->header + h->n_in : h->body + h->n_in - header;
        ssize_t n;
        if (h->n_in == want)
            break;
        n = h->sealed ? madi_hello_seal_read(h, to, want - h->n_in) : recv(h->watch.fd, to, want - h->n_in, MSG_DONTWAIT);
        if (n <= 0) {
            madi_hello_read_failed(h, n);
            return false;
        }
        h->n_in += (size_t)n;
        if (h->n_in == header && !header_ready(h))
            return false;
    }
    h->n_in = 0;
    return true;
}

void madi_hello_take(madi_hello_t *h, const void *frame, size_t len)
{
    memcpy(&h->header, frame, sizeof h->header);
    if (h->header.length != len - sizeof h->header)
        h->header.magic = 0; /* no frame */
    if (!header_ready(h))
        return;
    memcpy(h->body, (const unsigned char *)frame + sizeof h->header, h->header.length);
    frame_handle(h);
}

void madi_hello_ready(madi_watch_t *watch, uint32_t events)
{
    madi_hello_t *h = MADI_CONTAINER(watch, madi_hello_t, watch);

    if (h->active && !h->connected) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            madi_attempt_connected(h);
        return;
    }
    if (h->adapter->security == MADI_SECURITY_SEAL && !h->sealed && !madi_hello_seal_go(h))
        return;
    do {
        if (!frame_read(h))
            return;
        frame_handle(h);
    } while (h->watch.fd >= 0 && h->seal && madi_hello_seal_more(h));
}

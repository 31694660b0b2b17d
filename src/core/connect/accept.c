/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive side of the handshake.
 *
 * Incoming connections that have proved nothing yet are bounded in number.  When the bound is reached, a new one takes the
 * place of another: the oldest one of the source with the most of them.  (A source is an address or, on this host, a user.)
 * So a source that fills the table pushes out its own connections, whatever they have sent, and connections of other sources
 * are safe.  A member whose connection is pushed out connects again (attempt.c). */
#include "base/clock.h"
#include "base/host.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "base/random.h"
#include "core/conn/credit.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/hello_inside.h"
#include "core/connect/peer.h"
#include "core/connect/search.h"
#include "core/connect/stopped.h"
#include "core/driver.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/security/proof.h"
#include "core/security/secret.h"
#include "core/wire/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define ACCEPTED_MAX 256 /* maximum number of incoming connections of a session whose handshakes run at a time */
#define SOURCES 256      /* buckets in which sources are counted */

/* ---- Incoming connections --------------------------------------------------------------------------------------- */

static void source_bytes_text(const unsigned char *source, size_t source_len, char *text, size_t len)
{
    size_t n = source_len < 24 ? source_len : 24;
    int at = snprintf(text, len, "address ");
    for (size_t i = 0; i < n; i++)
        at += snprintf(text + at, len - (size_t)at, "%02x", source[i]);
    if (n < source_len)
        snprintf(text + at, len - (size_t)at, "...");
}

static void source_text(int fd, char *text, size_t len)
{
    struct sockaddr_storage from;
    socklen_t n = sizeof from;
    char host[64], port[16];
    if (!getpeername(fd, (struct sockaddr *)&from, &n) && from.ss_family != AF_UNIX &&
        !getnameinfo((struct sockaddr *)&from, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(text, len, "%s port %s", host, port);
    else
        snprintf(text, len, "this host");
}

/* Return a number for the source of an incoming connection: an IPv4 address, the first 64 bits of an IPv6 address, or a
 * user of this host. */
static uint64_t socket_source(int fd)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } from = {0};
    socklen_t n = sizeof from;
    struct ucred user = {0};
    uint64_t source = 0;
    if (getpeername(fd, (struct sockaddr *)&from, &n))
        return 0;
    if (from.any.ss_family == AF_INET)
        return from.v4.sin_addr.s_addr;
    if (from.any.ss_family == AF_INET6) {
        const unsigned char *bytes = from.v6.sin6_addr.s6_addr;
        memcpy(&source, IN6_IS_ADDR_V4MAPPED(&from.v6.sin6_addr) ? bytes + 8 : bytes, sizeof source);
        return source;
    }
    n = sizeof user;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &n) ? 0 : (uint64_t)user.uid << 1 | 1;
}

/* Like socket_source, but for a network without sockets. */
static uint64_t frames_source(const madi_frames_t *f)
{
    size_t host = f->adapter->driver->frames.source_host;
    return madi_hash(MADI_HASH_START, f->source, host && host < f->source_len ? host : f->source_len);
}

static unsigned source_bucket(uint64_t source)
{
    return (unsigned)(source * UINT64_C(0x9e3779b97f4a7c15) >> 56) % SOURCES;
}

/* Log an incoming connection that was refused.  Only the first one of each status is a warning, since scanners connect
 * again and again. */
static void refusal_log(const madi_adapter_t *a, mad_status_t status, const char *from, const char *text)
{
    mad_session_t *s = a->session;
    bool strange = status == MAD_ERR_AUTH || status == MAD_ERR_VERSION || status == MAD_ERR_PROTOCOL ||
                   status == MAD_ERR_CONFIG || status == MAD_ERR_TIMEOUT; /* or this was one of two crossing attempts */
    bool logged = !strange || (s->connect->refused_logged >> status & 1);
    s->connect->refused_logged |= strange ? UINT32_C(1) << status : 0;
    madi_log(logged ? MADI_LOG_DEBUG : MADI_LOG_WARN, a->driver->name,
             "refused a caller from %s on %s: %s; this session goes on%s", from, a->name, text,
             logged ? "" : " (logged once for each kind; MAD_LOG=debug shows all)");
}

void madi_accept_refused(madi_hello_t *h, mad_status_t status, const char *text)
{
    char from[96];
    if (h->frames)
        source_bytes_text(h->frames->source, h->frames->source_len, from, sizeof from);
    else
        source_text(h->watch.fd, from, sizeof from);
    refusal_log(h->adapter, status, from, text);
}

void madi_accept_garbage(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    char from[96];
    source_bytes_text(source, source_len, from, sizeof from);
    refusal_log(adapter, MAD_ERR_PROTOCOL, from, "what came is not a handshake: no Madeleine process speaks there");
}

bool madi_hello_evict(mad_session_t *s)
{
    uint16_t count[SOURCES] = {0}, most = 0;
    madi_hello_t *oldest = NULL;
    for (madi_hello_t *h = s->connect->hellos; h; h = h->next)
        if (!h->active && ++count[source_bucket(h->source)] > most)
            most = count[source_bucket(h->source)];
    for (madi_hello_t *h = s->connect->hellos; h; h = h->next) /* the newest is first */
        if (!h->active && count[source_bucket(h->source)] == most)
            oldest = h;
    if (oldest)
        madi_hello_fail(oldest, MAD_ERR_TIMEOUT,
                        "it has not proved the job's key, others wait, and its source holds more handshakes than any other");
    return oldest != NULL;
}

madi_hello_t *madi_accept_new(madi_adapter_t *adapter, int fd, madi_frames_t *frames)
{
    mad_session_t *s = adapter->session;
    madi_hello_t *h =
        s->connect->n_accepted < ACCEPTED_MAX || madi_hello_evict(s) ? madi_hello_new(s, adapter, fd, frames) : NULL;
    if (!h)
        return NULL;
    s->connect->n_accepted++;
    h->source = frames ? frames_source(frames) : socket_source(fd);
    h->expect = MADI_HELLO_HELLO;
    return h;
}

void madi_hello_accept(madi_adapter_t *adapter, int fd)
{
    mad_session_t *s = adapter->session;
    madi_hello_t *h = madi_accept_new(adapter, fd, NULL);
    if (!h) {
        madi_fd_close(fd);
        return;
    }
    if (madi_watch_add_rare(s, &h->watch, EPOLLIN) != MAD_OK)
        madi_hello_fail(h, MAD_ERR_SYSTEM, strerror(errno));
}

/* ---- Frames --------------------------------------------------------------------------------------------------- */

/* True if this process accepts the greeting; else it has refused the connection. */
static bool greeting_accept(madi_hello_t *h, const madi_greeting_t *hello)
{
    mad_session_t *s = h->session;
    char text[160];
    if (!s->secrets) {
        madi_hello_refuse(h, MAD_ERR_PEER, "this process does not know the job's key yet");
    } else if (memcmp(hello->wanted, s->uid, MADI_UID_LEN)) {
        madi_hello_refuse(h, MAD_ERR_PEER, "the caller looks for another process");
    } else if (!memcmp(hello->caller, s->uid, MADI_UID_LEN)) {
        madi_hello_refuse(h, MAD_ERR_AUTH, "the caller claims to be this process itself: a call of ours came back to us");
    } else if (hello->role > MADI_ROLE_GATEWAY) {
        madi_hello_refuse(h, MAD_ERR_PROTOCOL, "the caller claims a role that there is not");
    } else if (hello->security != h->adapter->security) {
        madi_hello_security_text(h, hello->security, text, sizeof text);
        madi_hello_refuse(h, MAD_ERR_CONFIG, text);
    } else {
        return true;
    }
    return false;
}

void madi_accept_hello(madi_hello_t *h)
{
    mad_session_t *s = h->session;
    madi_challenge_t challenge = {.security = h->adapter->security};
    if (h->header.length != sizeof h->transcript.hello.body) {
        madi_hello_refuse(h, MAD_ERR_PROTOCOL, "the handshake's greeting has a wrong length");
        return;
    }
    h->transcript.hello.header = h->header;
    memcpy(&h->transcript.hello.body, h->body, sizeof h->transcript.hello.body);
    if (!greeting_accept(h, &h->transcript.hello.body))
        return;
    challenge.role = (uint8_t)s->secrets->role;
    h->expect = MADI_HELLO_PROOF;
    if (!madi_random(challenge.nonce, sizeof challenge.nonce) ||
        !madi_hello_send(h, MADI_HELLO_CHALLENGE, &challenge, sizeof challenge))
        madi_hello_fail(h, MAD_ERR_SYSTEM, "the challenge could not be sent");
}

/* True if the incoming connection is not needed: there is a link, or this process's own attempt prevails.  Of two
 * processes that connect to each other at once, the one with the lower uid prevails.  An incoming connection whose key
 * is not proved supersedes nothing. */
static bool is_superseded(mad_session_t *s, madi_gate_t *gate)
{
    int state = atomic_load_explicit(&gate->state, memory_order_relaxed);
    if (state == MADI_GATE_UP || state == MADI_GATE_DOWN)
        return true;
    if (state == MADI_GATE_IDLE)
        return false;
    if (gate->connect->hello)
        return memcmp(s->uid, madi_address_uid(madi_peer_address(s, gate->peer)), MADI_UID_LEN) < 0;
    return gate->link != NULL; /* superseded by a link, on which both sides have agreed */
}

/* Have the gate use the peer's attempt to connect, from now on. */
static void gate_take(madi_gate_t *gate, madi_link_t *link)
{
    atomic_store_explicit(&gate->state, MADI_GATE_CONNECTING, memory_order_relaxed);
    gate->connect->deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
    gate->link = link;
}

static void peer_accept(madi_hello_t *h, madi_gate_t *gate)
{
    madi_link_t *old = gate->link, *link = madi_link_new(h->adapter, gate);
    int fd;

    gate_take(gate, link);
    gate->connect->process = madi_process_near(h->watch.fd);
    fd = madi_hello_release(h);
    madi_hello_abort_all(gate); /* this process's own attempts end */
    if (old)
        madi_link_down(old, MAD_ERR_CANCELLED, "replaced");
    if (!link || !madi_hello_secret(h, link)) {
        madi_fd_close(fd);
        madi_gate_down(gate, MAD_ERR_NOMEM, "no memory for a link");
        return;
    }
    madi_hello_seal_give(h, link);
    madi_hello_start(h, link, fd);
}

/* ---- Handshakes without a socket: the link is made before the verdict, which describes the link ------------------- */

/* Make a link to the source of the handshake.  NULL if the handshake was refused. */
static madi_link_t *link_accept(madi_hello_t *h, madi_gate_t *gate)
{
    char reason[MADI_REASON_MAX] = "no memory for a link";
    madi_link_t *link = madi_link_new(h->adapter, gate);
    mad_status_t status =
        link ? h->adapter->driver->frames.accept(link, h->frames->source, h->frames->source_len, reason) : MAD_ERR_NOMEM;
    if (!status)
        return link;
    if (link)
        link->driver->link_fini(link);
    free(link);
    madi_hello_refuse(h, status, reason);
    return NULL;
}

void madi_accept_start(madi_hello_t *h)
{
    madi_link_t *link = h->link;
    madi_hello_release(h);
    h->link = NULL;
    if (madi_hello_secret(h, link))
        madi_hello_start(h, link, -1);
    else
        madi_link_down(link, MAD_ERR_NOMEM, "no memory for a link");
}

/* Send the verdict, with a description of this end of the link if the verdict is good.  The link starts when the driver has
 * taken the verdict, so that no packet overtakes it. */
static void verdict_carry(madi_hello_t *h, madi_gate_t *gate, const madi_hello_verdict_t *verdict, uint64_t floor)
{
    unsigned char body[sizeof *verdict + MADI_DESCRIPTION_MAX];
    size_t len = sizeof *verdict;
    madi_link_t *link = NULL, *old = gate->link;
    memcpy(body, verdict, len);
    if (!verdict->status) {
        link = link_accept(h, gate);
        if (!link)
            return;
        len += madi_link_describe(link, body + len);
        gate_take(gate, link);
        gate->connect->process = 0;
        h->link = link;
        madi_hello_abort_all(gate); /* this process's own attempts end */
        if (old)
            madi_link_down(old, MAD_ERR_CANCELLED, "replaced");
    }
    h->expect = MADI_HELLO_NONE;
    if (!madi_hello_send_signed(h, MADI_HELLO_VERDICT, body, len)) {
        madi_hello_fail(h, MAD_ERR_NOMEM, "no memory for the verdict");
        return;
    }
    madi_verdict_keep(h->frames, h->transcript.proof[0], link);
    if (!link) {
        h->frames->last = true;
        madi_hello_close(h);
        return;
    }
    madi_credit_floor(gate, floor);
    if (h->frames->taken)
        madi_accept_start(h);
}

/* True if the connection may be for this lane: lanes are numbered by the topology file, so both processes must have
 * read the same file. */
static bool lane_is_ours(mad_session_t *s, const madi_hello_proof_t *proof, const unsigned char *address)
{
    return !proof->lane || (proof->lane < (uint32_t)madi_lanes(s) && s->forward->agrees(s, address));
}

/* True if the connecting process may have this address: it has the proven identity, and the role whose key was proved. */
static bool address_is_proven(const madi_hello_t *h, const unsigned char *address)
{
    const madi_greeting_t *hello = &h->transcript.hello.body;
    return !memcmp(madi_address_uid(address), hello->caller, MADI_UID_LEN) && madi_address_role(address) == hello->role;
}

/* Return the gate of the connecting process; NULL if the connection was refused. */
static madi_gate_t *proof_gate(madi_hello_t *h, const madi_hello_proof_t *proof, const unsigned char *address, size_t len)
{
    mad_session_t *s = h->session;
    madi_gate_t *gate;
    mad_peer_t peer;
    if (!lane_is_ours(s, proof, address)) {
        madi_hello_refuse(h, MAD_ERR_CONFIG,
                          "the caller calls for a channel of its topology file, and this process has another file");
    } else if (madi_peer_add_anew(s, address, len, (int)proof->lane, &peer)) {
        madi_hello_refuse(h, MAD_ERR_NOMEM, "no memory for the caller");
    } else if (!address_is_proven(h, madi_peer_address(s, peer))) {
        madi_hello_refuse(h, MAD_ERR_AUTH,
                          "the caller is a gateway with the identity of a rank, or a rank with that of a gateway");
    } else if (madi_peer_gate(s, peer, (int)proof->lane, &gate)) {
        madi_hello_refuse(h, MAD_ERR_NOMEM, "no memory for the caller");
    } else {
        return gate;
    }
    return NULL;
}

/* Like proof_gate, but for a further link of a gate that has rails. */
static madi_gate_t *rail_gate(madi_hello_t *h, const madi_hello_proof_t *proof, const unsigned char *address)
{
    mad_session_t *s = h->session;
    mad_peer_t peer = madi_peer_find(s, address);
    madi_gate_t *gate = peer >= 0 && s->rails
                            ? s->rails->accept(madi_peer_gate_find(s, peer, 0), h->adapter, proof->rails & ~MADI_RAILS_JOIN)
                            : NULL;
    if (!gate)
        madi_hello_refuse(h, MAD_ERR_BUSY, "the caller brings a further rail to a link that has none, or has ended");
    return gate;
}

/* Return the number of the agreement on rails if the connecting process has offered one and this process accepts it; else
 * 0. */
static uint32_t rails_agreed(const madi_hello_t *h, madi_gate_t *gate, const madi_hello_proof_t *proof)
{
    const madi_rails_ops_t *rails = h->session->rails;
    return rails && proof->rails && !gate->rail_of ? rails->agree(gate, h->adapter, proof->rails) : 0;
}

void madi_accept_proof(madi_hello_t *h)
{
    madi_hello_verdict_t verdict = {.floor = (uint64_t)madi_knob_int(MADI_KNOB_CREDIT_FLOOR)};
    const unsigned char *address = h->body + MADI_PROOF_LEN + sizeof(madi_hello_proof_t);
    size_t head = MADI_PROOF_LEN + sizeof(madi_hello_proof_t), len;
    madi_hello_proof_t proof;
    madi_gate_t *gate;

    if (!madi_hello_check_signed(h)) {
        madi_hello_refuse(
            h, MAD_ERR_AUTH,
            "the caller does not hold the job's key, or its call was changed on the way: it belongs to another "
            "job, or somebody is in between");
        return;
    }
    if (h->header.length < head || madi_address_check(address, h->header.length - head, &len) ||
        !address_is_proven(h, address)) {
        madi_hello_refuse(h, MAD_ERR_PROTOCOL, "the caller's address is not one, or not its own");
        return;
    }
    memcpy(&proof, h->body + MADI_PROOF_LEN, sizeof proof);
    h->description = head + len;
    if (h->frames && h->header.length - h->description > MADI_DESCRIPTION_MAX) {
        madi_hello_refuse(h, MAD_ERR_PROTOCOL, "the caller's description of its end of the link is too long");
        return;
    }
    gate = proof.rails & MADI_RAILS_JOIN ? rail_gate(h, &proof, address) : proof_gate(h, &proof, address, len);
    if (!gate)
        return;
    if (is_superseded(h->session, gate))
        verdict.status = MAD_ERR_BUSY;
    else
        gate->rails_number = verdict.rails = rails_agreed(h, gate, &proof);
    if (h->frames) {
        verdict_carry(h, gate, &verdict, proof.floor);
        return;
    }
    if (!madi_hello_send_signed(h, MADI_HELLO_VERDICT, &verdict, sizeof verdict)) {
        madi_hello_fail(h, MAD_ERR_SYSTEM, "the verdict could not be sent");
        return;
    }
    if (verdict.status) {
        madi_fd_close(madi_hello_release(h));
        return;
    }
    madi_credit_floor(gate, proof.floor);
    peer_accept(h, gate);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The active side of the handshake: attempts to reach a peer, several in parallel (search.c), of which one is chosen. */
#include "base/clock.h"
#include "base/knob.h"
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
#include "core/object/session.h"
#include "core/security/proof.h"
#include "core/wire/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CALL_AGAIN INT64_C(500000000) /* ns to wait for the peer's own attempt before this process connects again */

/* ---- Attempts of a gate ----------------------------------------------------------------------------------------- */

/* Return the attempt that makes this link; NULL if none. */
static madi_hello_t *attempt_of(const madi_link_t *link)
{
    madi_hello_t *h = link->gate->session->connect->hellos;
    while (h && h->link != link)
        h = h->next;
    return h;
}

void madi_hello_give_up(madi_link_t *link, mad_status_t status, const char *text)
{
    madi_hello_t *h = attempt_of(link);
    if (h)
        madi_hello_fail(h, status, text);
}

bool madi_hello_lost(madi_link_t *link, mad_status_t status, const char *text)
{
    madi_hello_t *h = attempt_of(link);
    if (h && h->active && status == MAD_ERR_PEER)
        madi_attempt_cut(h, text);
    else if (h)
        madi_hello_fail(h, status, text);
    return h != NULL;
}

void madi_hello_unlink(madi_link_t *link)
{
    madi_hello_t *h = attempt_of(link);
    if (h)
        madi_hello_close(h);
    if (link->gate->session->connect->verdicts)
        madi_verdict_forget(link->gate->session, link);
}

void madi_hello_unsure(madi_link_t *link)
{
    madi_hello_t *h = attempt_of(link);
    if (h)
        h->unsure = true;
}

bool madi_hello_tries(const madi_gate_t *gate, const madi_adapter_t *adapter)
{
    const madi_hello_t *h = gate->connect->n_attempts ? gate->session->connect->hellos : NULL;
    while (h && (h->gate != gate || h->adapter != adapter))
        h = h->next;
    return h != NULL;
}

/* Give up all attempts of a gate except `taken` (NULL: all).  The end of these attempts implies nothing about the peer,
 * so their paths may be tried again. */
static void attempts_abort(madi_gate_t *gate, const madi_hello_t *taken)
{
    madi_hello_t *h = gate->connect->n_attempts ? gate->session->connect->hellos : NULL;
    while (h)
        if (h->gate == gate && h != taken) {
            madi_search_untry(gate, h->way);
            madi_hello_abort(h);
            /* start again from the first attempt, since the driver may have ended other attempts */
            h = gate->session->connect->hellos;
        } else {
            h = h->next;
        }
    if (gate->connect->search)
        gate->connect->search->next_at = 0;
}

void madi_hello_abort_all(madi_gate_t *gate)
{
    attempts_abort(gate, NULL);
}

/* End an attempt whose failure implies nothing about the peer: no other path is tried. */
static void attempt_drop(madi_hello_t *h)
{
    if (h->gate->link == h->link)
        h->gate->link = NULL;
    madi_hello_abort(h);
}

void madi_attempt_again(madi_gate_t *gate)
{
    gate->connect->redial_at = 0;
    madi_gate_connect_again(gate);
}

void madi_attempt_cut(madi_hello_t *h, const char *text)
{
    madi_gate_t *gate = h->gate;
    if (!h->unsure) {
        gate->connect->cut_off = true;
        madi_hello_fail(h, MAD_ERR_PEER, text);
        return;
    }
    if (gate->link == h->link)
        gate->link = NULL;
    attempts_abort(gate, NULL);
    madi_attempt_again(gate);
}

void madi_hello_no_deadline(madi_gate_t *gate)
{
    gate->connect->deadline = INT64_MAX;
    for (madi_hello_t *h = gate->connect->n_attempts ? gate->session->connect->hellos : NULL; h; h = h->next)
        if (h->gate == gate)
            h->deadline = INT64_MAX;
}

/* Return an attempt's deadline: the gate's, or half of the remaining time if other paths are left that cannot be tried
 * in parallel. */
static int64_t attempt_deadline(const madi_gate_t *gate, bool alone)
{
    int64_t deadline = gate->connect->deadline;
    if (deadline < INT64_MAX && madi_search_waits(gate, alone))
        deadline -= (deadline - madi_now()) / 2;
    return deadline;
}

/* Fill in HELLO.  Return false if the system has no random numbers. */
static bool greeting_fill(const madi_hello_t *h, madi_greeting_t *hello)
{
    const mad_session_t *s = h->session;
    *hello = (madi_greeting_t){.role = (uint8_t)s->secrets->role, .security = h->adapter->security};
    memcpy(hello->wanted, madi_address_uid(madi_peer_address(s, h->gate->peer)), MADI_UID_LEN);
    memcpy(hello->caller, s->uid, MADI_UID_LEN);
    return madi_random(hello->nonce, sizeof hello->nonce);
}

/* Begin to wait for the socket; without one, send HELLO.  On failure return false, with the reason in errno. */
static bool attempt_begin(madi_hello_t *h)
{
    madi_greeting_t hello;
    if (!h->frames)
        return madi_watch_add_rare(h->session, &h->watch, EPOLLOUT) == MAD_OK;
    h->connected = true;
    errno = ENOMEM;
    return greeting_fill(h, &hello) && madi_hello_send(h, MADI_HELLO_HELLO, &hello, sizeof hello);
}

mad_status_t madi_hello_connect(madi_gate_t *gate, madi_link_t *link, int fd, int way)
{
    madi_frames_t *frames = fd < 0 ? madi_frames_active(link) : NULL;
    madi_hello_t *h = fd < 0 && !frames ? NULL : madi_hello_new(gate->session, link->adapter, fd, frames);
    if (!h) {
        madi_frames_free(frames);
        if (fd >= 0)
            madi_fd_close(fd);
        errno = ENOMEM;
        return MAD_ERR_NOMEM;
    }
    h->active = true;
    h->gate = gate;
    h->link = link;
    h->way = way;
    gate->connect->n_attempts++;
    gate->session->connect->n_attempts++;
    h->deadline = attempt_deadline(gate, false);
    h->expect = MADI_HELLO_CHALLENGE;
    if (attempt_begin(h))
        return MAD_OK;
    madi_hello_close(h);
    return MAD_ERR_NOMEM;
}

/* ---- Frames --------------------------------------------------------------------------------------------------- */

/* Return false if the socket could not be connected: the attempt has ended. */
static bool connect_succeeded(madi_hello_t *h)
{
    int error = 0;
    socklen_t len = sizeof error;
    char text[128];
    getsockopt(h->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (!error)
        return true;
    snprintf(text, sizeof text, "%s (%s)", strerror(error),
             error == ECONNREFUSED ? "the process has ended" : "does this network lead there? see MAD_TCP_INTERFACES");
    madi_hello_fail(h, error == ECONNREFUSED ? MAD_ERR_PEER : MAD_ERR_SYSTEM, text);
    return false;
}

void madi_attempt_connected(madi_hello_t *h)
{
    if (!connect_succeeded(h))
        return;
    h->connected = true;
    h->gate->connect->process = madi_process_near(h->watch.fd);
    madi_watch_change(h->session, &h->watch, EPOLLIN);
    if (h->adapter->security == MADI_SECURITY_SEAL)
        madi_hello_seal_begin(h); /* begin TLS first; HELLO follows when TLS is ready */
    else
        madi_attempt_greet(h);
}

void madi_attempt_greet(madi_hello_t *h)
{
    madi_greeting_t hello;
    if (!greeting_fill(h, &hello))
        madi_hello_fail(h, MAD_ERR_SYSTEM, "no random numbers");
    else if (!madi_hello_send(h, MADI_HELLO_HELLO, &hello, sizeof hello))
        madi_attempt_cut(h, strerror(errno));
}

/* Choose this attempt.  From here on the peer commits itself, so the other attempts end. */
static void attempt_take(madi_hello_t *h)
{
    mad_session_t *s = h->session;
    madi_hello_proof_t head = {.floor = (uint64_t)madi_knob_int(MADI_KNOB_CREDIT_FLOOR), .lane = (uint32_t)h->gate->lane};
    size_t len = sizeof head + s->address_len;
    unsigned char *proof = malloc(len + MADI_DESCRIPTION_MAX);
    bool sent;
    if (s->rails)
        head.rails = s->rails->offer(h->gate, h->adapter);
    h->gate->rails_number = head.rails;
    h->gate->link = h->link;
    h->gate->connect->hello = h;
    attempts_abort(h->gate, h);
    h->deadline = attempt_deadline(h->gate, true);
    h->expect = MADI_HELLO_VERDICT;
    if (!proof) {
        madi_hello_fail(h, MAD_ERR_NOMEM, "no memory for the proof of the key");
        return;
    }
    memcpy(proof, &head, sizeof head);
    memcpy(proof + sizeof head, s->address, s->address_len);
    if (h->frames)
        len += madi_link_describe(h->link, proof + len);
    sent = madi_hello_send_signed(h, MADI_HELLO_PROOF, proof, len);
    free(proof);
    if (!sent)
        madi_attempt_cut(h, "the proof could not be sent: the peer has closed the connection");
}

void madi_hello_decide(madi_gate_t *gate, int64_t now)
{
    madi_hello_t *best = NULL;
    if (gate->link || !gate->connect->n_attempts)
        return;
    for (madi_hello_t *h = gate->session->connect->hellos; h; h = h->next)
        if (h->gate == gate && h->challenged && (!best || h->way < best->way))
            best = h;
    if (!best)
        return;
    for (madi_hello_t *h = gate->connect->n_attempts > 1 && now < best->hold ? gate->session->connect->hellos : NULL; h;
         h = h->next)
        if (h->gate == gate && madi_search_path_better(gate->connect->search, h->way, best->way))
            return;
    attempt_take(best);
}

/* True if the peer at the other end may be the one that is wanted; else the attempt has ended. */
static bool challenge_accept(madi_hello_t *h, const madi_challenge_t *challenge)
{
    char text[160];
    if (challenge->role != madi_address_role(madi_peer_address(h->session, h->gate->peer))) {
        madi_hello_fail(h, MAD_ERR_AUTH,
                        "what answers there has another role (rank, gateway) than the process that is wanted");
        return false;
    }
    if (challenge->security != h->adapter->security) {
        madi_hello_security_text(h, challenge->security, text, sizeof text);
        madi_hello_fail(h, MAD_ERR_CONFIG, text);
        return false;
    }
    return true;
}

void madi_attempt_challenge(madi_hello_t *h)
{
    int64_t now = madi_now();
    if (h->header.length != sizeof h->transcript.challenge.body) {
        madi_hello_fail(h, MAD_ERR_PROTOCOL, "the handshake's challenge has a wrong length");
        return;
    }
    h->transcript.challenge.header = h->header;
    memcpy(&h->transcript.challenge.body, h->body, sizeof h->transcript.challenge.body);
    if (!challenge_accept(h, &h->transcript.challenge.body))
        return;
    h->expect = MADI_HELLO_NONE; /* no frame is expected until the attempt is chosen */
    h->challenged = true;
    h->hold = now + madi_knob_int(MADI_KNOB_CONNECT_DELAY);
    madi_hello_decide(h->gate, now);
}

/* True if the frame has the length of a verdict: without a socket, a description may follow. */
static bool verdict_has_length(const madi_hello_t *h)
{
    size_t len = h->header.length, least = MADI_PROOF_LEN + sizeof(madi_hello_verdict_t);
    return len == least || (h->frames && len > least && len <= least + MADI_DESCRIPTION_MAX);
}

void madi_attempt_verdict(madi_hello_t *h)
{
    madi_link_t *link = h->link;
    madi_hello_verdict_t verdict;

    if (!verdict_has_length(h) || !madi_hello_check_signed(h)) {
        madi_hello_fail(h, MAD_ERR_AUTH,
                        "the peer does not hold the job's key, or its answer was changed on the way: it belongs to another "
                        "job, or somebody is in between");
        return;
    }
    memcpy(&verdict, h->body + MADI_PROOF_LEN, sizeof verdict);
    if (verdict.status == MAD_ERR_BUSY) { /* the peer prefers its own attempt, which is under way */
        h->gate->connect->redial_at = madi_deadline(CALL_AGAIN);
        attempt_drop(h);
        return;
    }
    if (verdict.status || !madi_hello_secret(h, link)) {
        madi_hello_fail(h, verdict.status ? MAD_ERR_PROTOCOL : MAD_ERR_NOMEM, "the peer's verdict is none that there is");
        return;
    }
    h->gate->rails_number = verdict.rails && verdict.rails == h->gate->rails_number ? verdict.rails | MADI_RAILS_JOIN : 0;
    madi_credit_floor(h->gate, verdict.floor);
    madi_peer_proved(h->session, h->gate->peer, !h->session->forward || !h->session->forward->carried(link->adapter));
    h->description = MADI_PROOF_LEN + sizeof verdict;
    madi_hello_seal_give(h, link);
    madi_hello_start(h, link, madi_hello_release(h));
}

void madi_attempt_refused(madi_hello_t *h)
{
    uint32_t code = MAD_ERR_PROTOCOL;
    char text[160];
    if (h->header.length == sizeof code)
        memcpy(&code, h->body, sizeof code);
    if (code == MAD_ERR_AUTH)
        snprintf(text, sizeof text, "it refused this process: start both in one job, or give both the same key");
    else if (code == MAD_ERR_CONFIG)
        snprintf(text, sizeof text,
                 "it refused this process: the peer has another file (MAD_TOPOLOGY), or other security for this network");
    else
        snprintf(text, sizeof text, "the peer refused the connection: %s", mad_status_text((mad_status_t)code));
    madi_hello_fail(h, code == MAD_ERR_AUTH || code == MAD_ERR_VERSION ? (mad_status_t)code : MAD_ERR_PEER, text);
}

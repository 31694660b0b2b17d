/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake on a fresh stream socket: version, who is there, and a proof of the job's key, by challenge and
 * response in both directions.  Whoever has not proved the key learns nothing but our version.
 *
 *   active                                  passive
 *   HELLO     nonce a, uid wanted      ->
 *                                      <-   CHALLENGE nonce b
 *   PROOF     mac("A" a b body) body   ->   body: credit floor, lane (forward.h), address
 *                                      <-   VERDICT mac("P" a b body) body: status, credit floor
 *   either may be answered by REFUSE: a status, and the socket is closed
 */
#include "core/core.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x4844414du /* "MADH" */
#define BODY_MAX 8704
static_assert(BODY_MAX >= MADI_ADDRESS_MAX + 256, "a proof holds an address");
#define MAC 32
#define ACCEPTED_MAX 256 /* handshakes of strangers at a time */
#define CALL_AGAIN INT64_C(500000000) /* ns that the peer's own attempt has before it is called once more */
#define STOPPED_AFTER INT64_C(500000000) /* ns without an answer, until it is looked whether the peer is stopped */
#define STEP INT64_C(250000000) /* ns: deadlines are looked at so often at least while there are any */

enum kind { HELLO = 1, CHALLENGE = 2, PROOF = 3, VERDICT = 4, REFUSE = 5 };

typedef struct frame {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t length;
} frame_t;
static_assert(sizeof(frame_t) == 12, "handshake frame");

/* What a proof begins with, behind its mac; then the address. */
typedef struct proof {
    uint64_t floor;
    uint32_t lane, pad;
} proof_t;
static_assert(sizeof(proof_t) == 16, "handshake proof");

struct madi_hello {
    madi_watch_t watch;
    mad_session_t *session;
    madi_adapter_t *adapter;
    madi_gate_t *gate;  /* active: ours; passive: NULL */
    madi_link_t *link;  /* active */
    int way;            /* active: of the gate's search */
    bool active, connected;
    bool challenged;    /* active: it can be taken */
    int64_t hold;       /* then: until when a better way may come, too */
    bool unsure;        /* what the peer has said may be lost */
    int expect;         /* the kind of the next frame */
    int64_t deadline;
    int64_t began;
    bool looked_behind; /* process is known, or cannot be */
    pid_t process;      /* at the other end, if it is on this host; or 0 */
    unsigned char nonce_a[16], nonce_b[16];
    frame_t head;       /* of the frame that is coming in */
    unsigned char *body; /* its body, when the head is there */
    size_t n_in;        /* bytes of both */
    struct madi_hello *next;
};

typedef struct madi_hello hello_t;

/* ---- Life ----------------------------------------------------------------------------------------------------- */

static void hello_unlink(hello_t *h)
{
    for (hello_t **p = &h->session->hellos; *p; p = &(*p)->next)
        if (*p == h) {
            *p = h->next;
            h->session->n_accepted -= !h->active;
            h->session->n_attempts -= h->active;
            if (h->active)
                h->gate->n_attempts--;
            break;
        }
    if (h->gate && h->gate->hello == h)
        h->gate->hello = NULL;
    h->next = h->session->dead_hellos; /* its watch may still stand in a list of events */
    h->session->dead_hellos = h;
}

/* Stop watching; the socket goes to the caller. */
static int hello_release(hello_t *h)
{
    int fd = h->watch.fd;
    madi_watch_del(h->session, &h->watch);
    h->watch.fd = -1;
    hello_unlink(h);
    return fd;
}

void madi_hello_abort(hello_t *h)
{
    madi_link_t *link = h->link;
    madi_fd_close(hello_release(h));
    if (link)
        madi_link_down(link, MAD_ERR_CANCELLED, "replaced");
}

void madi_hellos_reap(mad_session_t *s)
{
    for (hello_t *h; (h = s->dead_hellos); free(h)) {
        s->dead_hellos = h->next;
        free(h->body);
    }
}

/* Where a caller calls from. */
static void caller_text(int fd, char *text, size_t len)
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

/* A stranger is turned away: told of once for each kind, since scanners come again and again. */
static void refused_tell(hello_t *h, mad_status_t status, const char *text)
{
    mad_session_t *s = h->session;
    bool strange = status == MAD_ERR_AUTH || status == MAD_ERR_VERSION || status == MAD_ERR_PROTOCOL ||
                   status == MAD_ERR_TIMEOUT; /* peers that call each other at once give up one of the calls */
    bool told = !strange || (s->refused_told >> status & 1);
    char from[96];
    caller_text(h->watch.fd, from, sizeof from);
    s->refused_told |= strange ? UINT32_C(1) << status : 0;
    madi_log(told ? MADI_LOG_DEBUG : MADI_LOG_WARN, h->adapter->driver->name,
             "refused a caller from %s on %s: %s; this session goes on%s", from, h->adapter->name, text,
             told ? "" : " (said once of each kind; MAD_LOG=debug shows all)");
}

/* It failed: the active side tries another way or gives up, the passive side says it in the log. */
static void hello_fail(hello_t *h, mad_status_t status, const char *text)
{
    madi_link_t *link = h->link;
    if (!link)
        refused_tell(h, status, text);
    madi_fd_close(hello_release(h));
    if (link)
        madi_link_down(link, status, text);
}

/* The attempt that this link is made by; NULL: none. */
static hello_t *hello_of(const madi_link_t *link)
{
    hello_t *h = link->gate->session->hellos;
    while (h && h->link != link)
        h = h->next;
    return h;
}

void madi_hello_give_up(madi_link_t *link, mad_status_t status, const char *text)
{
    hello_t *h = hello_of(link);
    if (h)
        hello_fail(h, status, text);
}

void madi_hello_unsure(madi_link_t *link)
{
    hello_t *h = hello_of(link);
    if (h)
        h->unsure = true;
}

bool madi_hello_tries(const madi_gate_t *gate, const madi_adapter_t *adapter)
{
    const hello_t *h = gate->n_attempts ? gate->session->hellos : NULL;
    while (h && (h->gate != gate || h->adapter != adapter))
        h = h->next;
    return h != NULL;
}

/* Give up our own attempts but one (or NULL): they say nothing of the peer, and may be made again. */
static void abort_others(madi_gate_t *gate, const hello_t *taken)
{
    hello_t *h = gate->n_attempts ? gate->session->hellos : NULL;
    while (h)
        if (h->gate == gate && h != taken) {
            madi_search_untry(gate, h->way);
            madi_hello_abort(h);
            h = gate->session->hellos; /* a driver may have closed others */
        } else {
            h = h->next;
        }
    if (gate->search)
        gate->search->next_at = 0;
}

void madi_hello_abort_all(madi_gate_t *gate)
{
    abort_others(gate, NULL);
}

/* This attempt of ours is over, and says nothing of the peer: no other way is tried. */
static void hello_drop(hello_t *h)
{
    if (h->gate->link == h->link)
        h->gate->link = NULL;
    madi_hello_abort(h);
}

/* Call once more, within the same time. */
static void call_again(madi_gate_t *gate)
{
    gate->call_at = 0;
    madi_gate_connect_again(gate);
}

void madi_hello_patience(madi_gate_t *gate)
{
    gate->deadline = INT64_MAX;
    for (hello_t *h = gate->n_attempts ? gate->session->hellos : NULL; h; h = h->next)
        if (h->gate == gate)
            h->deadline = INT64_MAX;
}

bool madi_hello_evict(mad_session_t *s)
{
    hello_t *oldest = NULL;
    for (hello_t *h = s->hellos; h; h = h->next)
        if (!h->active && h->expect == HELLO)
            oldest = h;
    if (oldest)
        hello_fail(oldest, MAD_ERR_TIMEOUT, "it said nothing, and others wait");
    return oldest != NULL;
}

static hello_t *hello_new(mad_session_t *s, madi_adapter_t *adapter, int fd)
{
    hello_t *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->session = s;
    h->adapter = adapter;
    h->watch.fd = fd;
    h->deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
    h->began = madi_now();
    if (!s->hellos_looked)
        s->hellos_looked = h->began;
    h->next = s->hellos;
    s->hellos = h;
    return h;
}

/* ---- Frames --------------------------------------------------------------------------------------------------- */

static bool send_frame_of(hello_t *h, enum kind kind, const void *mac, const void *body, size_t len)
{
    frame_t f = {MAGIC, MADI_WIRE_VERSION, (uint16_t)kind, (uint32_t)((mac ? MAC : 0) + len)};
    struct iovec vec[3] = {{&f, sizeof f}, {(void *)mac, mac ? MAC : 0}, {(void *)body, len}};
    struct msghdr msg = {.msg_iov = vec, .msg_iovlen = 3};
    /* A fresh socket takes some KiB at once; one that does not is not worth waiting for. */
    return sendmsg(h->watch.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)(sizeof f + f.length);
}

static bool send_frame(hello_t *h, enum kind kind, const void *body, size_t len)
{
    return send_frame_of(h, kind, NULL, body, len);
}

static void refuse(hello_t *h, mad_status_t status, const char *text)
{
    uint32_t code = status;
    send_frame(h, REFUSE, &code, sizeof code);
    hello_fail(h, status, text);
}

static bool mac(const hello_t *h, char who, const void *body, size_t len, unsigned char out[MAC])
{
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, h->session->key, h->session->key_len);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = MAC;
    bool good = key && ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestSignUpdate(ctx, &who, 1) == 1 && EVP_DigestSignUpdate(ctx, h->nonce_a, 16) == 1 &&
                EVP_DigestSignUpdate(ctx, h->nonce_b, 16) == 1 && EVP_DigestSignUpdate(ctx, body, len) == 1 &&
                EVP_DigestSignFinal(ctx, out, &n) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    return good;
}

/* Send a body with its mac before it. */
static bool send_signed(hello_t *h, enum kind kind, char who, const void *body, size_t len)
{
    unsigned char proof[MAC];
    return mac(h, who, body, len, proof) && send_frame_of(h, kind, proof, body, len);
}

static bool check_signed(hello_t *h, char who, const unsigned char *body, size_t len)
{
    unsigned char want[MAC];
    return len >= MAC && mac(h, who, body + MAC, len - MAC, want) && !CRYPTO_memcmp(want, body, MAC);
}

/* ---- Passive -------------------------------------------------------------------------------------------------- */

static void on_hello(hello_t *h, const unsigned char *body, size_t len)
{
    if (len != 32 || memcmp(body + 16, h->session->uid, 16)) {
        refuse(h, MAD_ERR_PEER, "the caller looks for another process");
        return;
    }
    memcpy(h->nonce_a, body, 16);
    h->expect = PROOF;
    if (RAND_bytes(h->nonce_b, 16) != 1 || !send_frame(h, CHALLENGE, h->nonce_b, 16))
        hello_fail(h, MAD_ERR_SYSTEM, "the challenge could not be sent");
}

/* Both sides may call each other at the same time: the attempt of the lower uid counts.  One that has not proved the key is
 * nothing yet. */
static bool superseded(mad_session_t *s, madi_gate_t *gate)
{
    int state = atomic_load_explicit(&gate->state, memory_order_relaxed);
    if (state == MADI_GATE_UP || state == MADI_GATE_DOWN)
        return true;
    if (state == MADI_GATE_IDLE)
        return false;
    if (gate->hello)
        return memcmp(s->uid, madi_address_uid(madi_peer_address(s, gate->peer)), 16) < 0;
    return gate->link != NULL; /* agreed on already */
}

static void accept_peer(hello_t *h, madi_gate_t *gate)
{
    char reason[MADI_REASON_MAX] = "";
    madi_link_t *link, *old = gate->link;
    mad_status_t status;
    int fd;

    atomic_store_explicit(&gate->state, MADI_GATE_CONNECTING, memory_order_relaxed);
    gate->deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
    gate->link = link = madi_link_new(h->adapter, gate);
    gate->process = madi_process_near(h->watch.fd);
    fd = hello_release(h);
    abort_others(gate, NULL); /* our own attempts give way */
    if (old)
        madi_link_down(old, MAD_ERR_CANCELLED, "replaced");
    if (!link) {
        madi_fd_close(fd);
        madi_gate_down(gate, MAD_ERR_NOMEM, "no memory for a link");
        return;
    }
    status = link->driver->start(link, fd, false, reason);
    if (status)
        madi_link_down(link, status, reason[0] ? reason : mad_status_text(status));
}

/* Lanes are numbers of things in a file, which both must have. */
static bool lane_is_ours(mad_session_t *s, const proof_t *proof, const unsigned char *address)
{
    return !proof->lane || (proof->lane < (uint32_t)madi_lanes(s) && s->forward->agrees(s, address));
}

static void on_proof(hello_t *h, const unsigned char *body, size_t len)
{
    mad_session_t *s = h->session;
    struct {
        uint32_t status, pad;
        uint64_t floor;
    } verdict = {MAD_OK, 0, (uint64_t)madi_knob_int(MADI_KNOB_CREDIT_FLOOR)};
    proof_t proof;
    size_t address_len;
    mad_peer_t peer;
    madi_gate_t *gate;

    if (!check_signed(h, 'A', body, len)) {
        refuse(h, MAD_ERR_AUTH, "the caller does not hold the job's key: it belongs to another job");
        return;
    }
    body += MAC;
    len -= MAC;
    if (len < sizeof proof || madi_address_check(body + sizeof proof, len - sizeof proof, &address_len)) {
        refuse(h, MAD_ERR_PROTOCOL, "the caller's address is not one");
        return;
    }
    memcpy(&proof, body, sizeof proof);
    if (!lane_is_ours(s, &proof, body + sizeof proof)) {
        refuse(h, MAD_ERR_CONFIG, "the caller calls for a channel of its topology file, and this process has another file");
        return;
    }
    if (madi_peer_add_anew(s, body + sizeof proof, address_len, (int)proof.lane, &peer) ||
        madi_peer_gate(s, peer, (int)proof.lane, &gate)) {
        refuse(h, MAD_ERR_NOMEM, "no memory for the caller");
        return;
    }
    if (superseded(s, gate))
        verdict.status = MAD_ERR_BUSY;
    if (!send_signed(h, VERDICT, 'P', &verdict, sizeof verdict)) {
        hello_fail(h, MAD_ERR_SYSTEM, "the verdict could not be sent");
        return;
    }
    if (verdict.status) {
        madi_fd_close(hello_release(h));
        return;
    }
    madi_gate_floor(gate, proof.floor);
    accept_peer(h, gate);
}

/* ---- Active --------------------------------------------------------------------------------------------------- */

static void on_connected(hello_t *h)
{
    unsigned char body[32];
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(h->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error) {
        char text[128];
        snprintf(text, sizeof text, "%s (%s)", strerror(error),
                 error == ECONNREFUSED ? "the process has ended" : "does this network lead there? see MAD_TCP_INTERFACES");
        hello_fail(h, error == ECONNREFUSED ? MAD_ERR_PEER : MAD_ERR_SYSTEM, text);
        return;
    }
    h->connected = true;
    h->gate->process = madi_process_near(h->watch.fd);
    if (RAND_bytes(h->nonce_a, 16) != 1) {
        hello_fail(h, MAD_ERR_SYSTEM, "no random numbers");
        return;
    }
    memcpy(body, h->nonce_a, 16);
    memcpy(body + 16, madi_address_uid(madi_peer_address(h->session, h->gate->peer)), 16);
    madi_watch_change(h->session, &h->watch, EPOLLIN);
    if (!send_frame(h, HELLO, body, sizeof body))
        hello_fail(h, MAD_ERR_PEER, strerror(errno));
}

/* The time of an attempt: the gate's, or a part of it where ways are left that cannot be tried beside it. */
static int64_t attempt_deadline(const madi_gate_t *gate, bool alone)
{
    int64_t deadline = gate->deadline;
    if (deadline < INT64_MAX && madi_search_waits(gate, alone))
        deadline -= (deadline - madi_now()) / 2;
    return deadline;
}

/* This attempt is the one.  From here on the peer commits itself, so the others end. */
static void attempt_take(hello_t *h)
{
    mad_session_t *s = h->session;
    proof_t head = {.floor = (uint64_t)madi_knob_int(MADI_KNOB_CREDIT_FLOOR), .lane = (uint32_t)h->gate->lane};
    unsigned char *proof = malloc(sizeof head + s->address_len);
    bool sent;
    h->gate->link = h->link;
    h->gate->hello = h;
    abort_others(h->gate, h);
    h->deadline = attempt_deadline(h->gate, true);
    h->expect = VERDICT;
    if (!proof) {
        hello_fail(h, MAD_ERR_NOMEM, "no memory for the proof of the key");
        return;
    }
    memcpy(proof, &head, sizeof head);
    memcpy(proof + sizeof head, s->address, s->address_len);
    sent = send_signed(h, PROOF, 'A', proof, sizeof head + s->address_len);
    free(proof);
    if (!sent)
        hello_fail(h, MAD_ERR_SYSTEM, "the proof could not be sent");
}

void madi_hello_decide(madi_gate_t *gate, int64_t now)
{
    hello_t *best = NULL;
    if (gate->link || !gate->n_attempts)
        return;
    for (hello_t *h = gate->session->hellos; h; h = h->next)
        if (h->gate == gate && h->challenged && (!best || h->way < best->way))
            best = h;
    if (!best)
        return;
    for (hello_t *h = gate->n_attempts > 1 && now < best->hold ? gate->session->hellos : NULL; h; h = h->next)
        if (h->gate == gate && madi_way_better(gate->search, h->way, best->way))
            return;
    attempt_take(best);
}

static void on_challenge(hello_t *h, const unsigned char *body, size_t len)
{
    int64_t now = madi_now();
    if (len != 16) {
        hello_fail(h, MAD_ERR_PROTOCOL, "the handshake's challenge has a wrong length");
        return;
    }
    memcpy(h->nonce_b, body, 16);
    h->expect = -1; /* nothing, until it is taken */
    h->challenged = true;
    h->hold = now + madi_knob_int(MADI_KNOB_CONNECT_DELAY);
    madi_hello_decide(h->gate, now);
}

static void on_verdict(hello_t *h, const unsigned char *body, size_t len)
{
    char reason[MADI_REASON_MAX] = "";
    madi_link_t *link = h->link;
    mad_status_t status;
    uint32_t code;
    uint64_t floor;

    if (!check_signed(h, 'P', body, len) || len != MAC + 16) {
        hello_fail(h, MAD_ERR_AUTH, "the peer does not hold the job's key: it belongs to another job");
        return;
    }
    memcpy(&code, body + MAC, 4);
    memcpy(&floor, body + MAC + 8, 8);
    if (code == MAD_ERR_BUSY) { /* the peer's own attempt counts; it is on its way */
        h->gate->call_at = madi_deadline(CALL_AGAIN);
        hello_drop(h);
        return;
    }
    madi_gate_floor(h->gate, floor);
    status = link->driver->start(link, hello_release(h), true, reason);
    if (status)
        madi_link_down(link, status, reason[0] ? reason : mad_status_text(status));
}

static void on_refuse(hello_t *h, const unsigned char *body, size_t len)
{
    uint32_t code = MAD_ERR_PROTOCOL;
    char text[160];
    if (len == sizeof code)
        memcpy(&code, body, sizeof code);
    if (code == MAD_ERR_AUTH)
        snprintf(text, sizeof text, "it refused this process: start both in one job, or give both the same key");
    else if (code == MAD_ERR_CONFIG)
        snprintf(text, sizeof text, "this channel is named by this process's topology file, and the peer has another file");
    else
        snprintf(text, sizeof text, "the peer refused the connection: %s", mad_status_text((mad_status_t)code));
    hello_fail(h, code == MAD_ERR_AUTH || code == MAD_ERR_VERSION ? (mad_status_t)code : MAD_ERR_PEER, text);
}

/* ---- Dispatch ------------------------------------------------------------------------------------------------- */

static void on_frame(hello_t *h, const frame_t *f, const unsigned char *body)
{
    char text[160];
    if (f->version != MADI_WIRE_VERSION) {
        snprintf(text, sizeof text, "the peer speaks version %u of the protocol, this process %u: use the same release",
                 f->version, MADI_WIRE_VERSION);
        refuse(h, MAD_ERR_VERSION, text);
    } else if (f->kind == REFUSE && h->active) {
        on_refuse(h, body, f->length);
    } else if (f->kind != h->expect) {
        hello_fail(h, MAD_ERR_PROTOCOL, "the handshake is out of order");
    } else if (f->kind == HELLO) {
        on_hello(h, body, f->length);
    } else if (f->kind == CHALLENGE) {
        on_challenge(h, body, f->length);
    } else if (f->kind == PROOF) {
        on_proof(h, body, f->length);
    } else {
        on_verdict(h, body, f->length);
    }
}

/* Whether h->head is that of a frame, and there is room for its body. */
static bool head_ready(hello_t *h)
{
    if (h->head.magic != MAGIC || h->head.length > BODY_MAX) {
        hello_fail(h, MAD_ERR_PROTOCOL, "what came is not a handshake: no Madeleine process speaks there");
        return false;
    }
    free(h->body);
    h->body = malloc(h->head.length ? h->head.length : 1);
    if (!h->body)
        hello_fail(h, MAD_ERR_NOMEM, "no memory for a frame of the handshake");
    return h->body != NULL;
}

/* Nothing comes now, or nothing more. */
static void read_failed(hello_t *h, ssize_t n)
{
    madi_gate_t *gate = h->gate;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!n && h->unsure) {
        if (gate->link == h->link)
            gate->link = NULL;
        abort_others(gate, NULL);
        call_again(gate);
        return;
    }
    hello_fail(h, n < 0 && errno != ECONNRESET ? MAD_ERR_SYSTEM : MAD_ERR_PEER,
               n ? strerror(errno)
                 : "the connection was closed during the handshake (it ended, or has no descriptors left)");
}

/* Read exactly one frame: what follows the handshake belongs to the driver. */
static void hello_ready(madi_watch_t *watch, uint32_t events)
{
    hello_t *h = MADI_CONTAINER(watch, hello_t, watch);

    if (h->active && !h->connected) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            on_connected(h);
        return;
    }
    for (;;) {
        size_t head = sizeof h->head, want = h->n_in < head ? head : head + h->head.length;
        unsigned char *to = h->n_in < head ? (unsigned char *)&h->head + h->n_in : h->body + h->n_in - head;
        ssize_t n;
        if (h->n_in == want)
            break;
        n = recv(h->watch.fd, to, want - h->n_in, MSG_DONTWAIT);
        if (n <= 0) {
            read_failed(h, n);
            return;
        }
        h->n_in += (size_t)n;
        if (h->n_in == head && !head_ready(h))
            return;
    }
    h->n_in = 0;
    on_frame(h, &h->head, h->body);
}

mad_status_t madi_hello_connect(madi_gate_t *gate, madi_link_t *link, int fd, int way)
{
    hello_t *h = hello_new(gate->session, link->adapter, fd);
    if (!h) {
        madi_fd_close(fd);
        errno = ENOMEM;
        return MAD_ERR_NOMEM;
    }
    h->active = true;
    h->gate = gate;
    h->link = link;
    h->way = way;
    gate->n_attempts++;
    gate->session->n_attempts++;
    h->deadline = attempt_deadline(gate, false);
    h->expect = CHALLENGE;
    h->watch.ready = hello_ready;
    if (madi_watch_add_rare(gate->session, &h->watch, EPOLLOUT) == MAD_OK)
        return MAD_OK;
    madi_fd_close(hello_release(h));
    return MAD_ERR_NOMEM;
}

void madi_hello_accept(madi_adapter_t *adapter, int fd)
{
    mad_session_t *s = adapter->session;
    hello_t *h = s->n_accepted < ACCEPTED_MAX || madi_hello_evict(s) ? hello_new(s, adapter, fd) : NULL;
    if (!h) {
        madi_fd_close(fd);
        return;
    }
    s->n_accepted++;
    h->expect = HELLO;
    h->watch.ready = hello_ready;
    if (madi_watch_add_rare(s, &h->watch, EPOLLIN) != MAD_OK)
        hello_fail(h, MAD_ERR_SYSTEM, strerror(errno));
}

/* ---- Deadlines ------------------------------------------------------------------------------------------------ */

/* When a connecting gate is to be looked at, but for its deadline: it calls once more where it waits for the peer's own
 * attempt, since that may have failed, or the peer has seen later than we that a connection was lost; or its search goes on. */
static int64_t gate_due(const madi_gate_t *g)
{
    if (g->link)
        return INT64_MAX;
    if (g->call_at)
        return g->call_at;
    return g->search && g->search->next_at ? g->search->next_at : INT64_MAX;
}

/* When an attempt is to be looked at: its time is over, or it was held back long enough for a better one. */
static int64_t hello_due(const hello_t *h)
{
    return h->challenged && h->gate->hello != h && h->hold < h->deadline ? h->hold : h->deadline;
}

/* When the next look is due: no later than a step after the last one, by which time that stood still is seen. */
int64_t madi_hello_deadline(const mad_session_t *s)
{
    int64_t first = INT64_MAX;
    for (const hello_t *h = s->hellos; h; h = h->next)
        if (hello_due(h) < first)
            first = hello_due(h);
    for (const madi_gate_t *g = s->gates; g; g = g->next)
        if (atomic_load_explicit(&g->state, memory_order_relaxed) == MADI_GATE_CONNECTING) {
            first = g->deadline < first ? g->deadline : first;
            first = gate_due(g) < first ? gate_due(g) : first;
        }
    return first < INT64_MAX && s->hellos_looked + STEP < first ? s->hellos_looked + STEP : first;
}

/* This process stood still for so long, or its machine, or it had no time: nobody has been silent, for what came meanwhile is
 * not read yet. */
static void forgive(mad_session_t *s, int64_t ns)
{
    for (hello_t *h = s->hellos; h; h = h->next)
        h->deadline += h->deadline < INT64_MAX ? ns : 0;
    for (madi_gate_t *g = s->gates; g; g = g->next)
        if (atomic_load_explicit(&g->state, memory_order_relaxed) == MADI_GATE_CONNECTING && g->deadline < INT64_MAX)
            g->deadline += ns;
}

/* Is the other end stopped?  Then its time does not count. */
static void stopped_ask(hello_t *h)
{
    if (h->active && !h->connected)
        return;
    if (!h->looked_behind)
        h->process = madi_process_behind(h->watch.fd);
    h->looked_behind = true;
    if (h->gate)
        h->gate->process = h->process;
    madi_stopped_spare(h->process, h->gate, &h->deadline);
}

/* So that it is said before the time is over. */
static void stopped_look(mad_session_t *s, int64_t now)
{
    s->stopped_looked = now;
    for (hello_t *h = s->hellos; h; h = h->next)
        if (now - h->began >= STOPPED_AFTER)
            stopped_ask(h);
}

/* True if it was not put off. */
static bool hello_is_late(hello_t *h, int64_t now)
{
    if (now >= h->deadline)
        stopped_ask(h);
    return now >= h->deadline;
}

static bool gate_is_late(madi_gate_t *g, int64_t now)
{
    if (now >= g->deadline && g->process)
        madi_stopped_spare(g->process, g, &g->deadline);
    return now >= g->deadline;
}

static void hello_late(hello_t *h)
{
    char text[96];
    snprintf(text, sizeof text, "the handshake was not over within %sMAD_CONNECT_TIMEOUT (%lld ms)",
             h->active && h->deadline < h->gate->deadline ? "its part of " : "",
             (long long)(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT) / 1000000));
    hello_fail(h, MAD_ERR_TIMEOUT, text);
}

static void gate_look(madi_gate_t *g, int64_t now)
{
    if (gate_is_late(g, now))
        madi_gate_late(g);
    else if (gate_due(g) <= now && g->call_at)
        call_again(g);
    else if (gate_due(g) <= now)
        madi_search_wave(g);
    else
        madi_hello_decide(g, now);
}

void madi_hello_expire(mad_session_t *s, int64_t now)
{
    hello_t *h;
    int64_t late = s->hellos_looked ? now - s->hellos_looked - STEP : 0;
    bool any = false;
    if (late > STEP)
        forgive(s, late);
    if (s->hellos_looked && now - s->stopped_looked >= STEP)
        stopped_look(s, now);
    h = s->hellos;
    while (h) {
        hello_t *next = h->next;
        any |= hello_due(h) < INT64_MAX;
        if (hello_is_late(h, now)) {
            hello_late(h);
            next = s->hellos; /* it may have begun others */
        }
        h = next;
    }
    for (madi_gate_t *g = s->gates; g; g = g->next) {
        if (atomic_load_explicit(&g->state, memory_order_relaxed) != MADI_GATE_CONNECTING)
            continue;
        gate_look(g, now);
        any |= g->deadline < INT64_MAX || gate_due(g) < INT64_MAX || g->n_attempts;
    }
    s->hellos_looked = any ? now : 0;
    madi_hellos_reap(s);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "drivers/shm/shm.h"
#include "drivers/tcp/tcp.h"

#include <madeleine/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Drivers -------------------------------------------------------------------------------------------------- */

extern const madi_driver_t madi_driver_tcp, madi_driver_shm, madi_driver_virtual;
static madi_driver_t fake, frames, tcp, shm; /* filled by world_driver */
const madi_driver_t *const madi_drivers[] = {&fake, &frames, &tcp, &shm, &madi_driver_virtual,
                                             NULL}; /* in place of the registry's drivers */

static world_t *current;
bool fake_full;

static mad_status_t probe(const madi_driver_t *driver, struct mad_session *session)
{
    return madi_adapter_found(session, driver, "fuzz") ? MAD_OK : MAD_ERR_NOMEM;
}

static mad_status_t open_any(madi_adapter_t *a, char *reason)
{
    (void)reason;
    snprintf(a->network, sizeof a->network, "net");
    a->caps = (madi_caps_t){.packet_max = 16 * 1024,
                            .chunk_max = 64 * 1024,
                            .rdv_min = 8 * 1024,
                            .rdv_eager = 1024,
                            .gather_max = 16,
                            .rank = 10};
    return MAD_OK;
}

static void event_ready(madi_watch_t *watch, uint32_t events)
{
    (void)watch;
    (void)events;
}

static mad_status_t open_shm(madi_adapter_t *adapter, char *reason)
{
    shm_adapter_t *a = (shm_adapter_t *)adapter;
    a->put = madi_put_of_host();
    a->event_fd = shm_event_make(reason);
    a->event_watch = (madi_watch_t){.fd = a->event_fd, .ready = event_ready};
    if (!shm_bell_make(a, reason))
        return MAD_ERR_SYSTEM;
    atomic_store(&a->bell->fence, 1);
    if (a->event_fd < 0 || madi_watch_add(adapter->session, &a->event_watch, SHM_EVENT_EDGES) != MAD_OK)
        return MAD_ERR_SYSTEM;
    return open_any(adapter, reason);
}

static mad_status_t connect_pair(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    int pair[2];
    (void)link;
    (void)addr;
    (void)len;
    (void)reason;
    if (current->fd >= 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return MAD_ERR_PEER;
    current->fd = pair[0];
    *fd = pair[1];
    return MAD_OK;
}

static mad_status_t fake_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)addr;
    (void)len;
    (void)reason;
    *fd = -1;
    link->direct = true;
    madi_link_up(link);
    return MAD_OK;
}

/* Links of the driver frames: the handshake is in frames. */
static mad_status_t frames_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)link;
    (void)addr;
    (void)len;
    (void)fd;
    (void)reason;
    return MAD_OK;
}

static mad_status_t frames_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    (void)link;
    (void)reason;
    FUZZ_CHECK(source_len == 1);
    return *(const unsigned char *)source & 64 ? MAD_ERR_NOMEM : MAD_OK;
}

static size_t frames_describe(madi_link_t *link, void *bytes)
{
    (void)link;
    memset(bytes, 'd', MADI_DESCRIPTION_MAX);
    return MADI_DESCRIPTION_MAX;
}

static mad_status_t frames_start(madi_link_t *link, int fd, bool active, char *reason)
{
    volatile unsigned char sum = 0;
    (void)active;
    (void)reason;
    FUZZ_CHECK(fd < 0 && link->description_len <= MADI_DESCRIPTION_MAX);
    for (size_t i = 0; i < link->description_len; i++)
        sum = (unsigned char)(sum + link->description[i]);
    madi_link_up(link);
    return MAD_OK;
}

static madi_sent_t fake_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    volatile unsigned char sum = 0;
    (void)link;
    (void)op;
    FUZZ_CHECK(n > 0 && vec[0].iov_len >= sizeof(madi_wire_hdr_t) && total <= 64 * 1024 + sizeof(madi_wire_hdr_t));
    if (fake_full)
        return MADI_AGAIN;
    for (int i = 0; i < n; i++) /* the whole packet is there */
        for (size_t k = 0; k < vec[i].iov_len; k++)
            sum = (unsigned char)(sum + ((unsigned char *)vec[i].iov_base)[k]);
    return MADI_SENT;
}

/* Lent bodies.  Bodies that were not returned are freed with the link. */
#define LOANS 4096
static void *loans[LOANS];

static void *loan_new(size_t len)
{
    for (int i = 0; i < LOANS; i++)
        if (!loans[i])
            return loans[i] = malloc(len ? len : 1);
    return NULL;
}

static void loan_free(void *loan)
{
    for (int i = 0; i < LOANS && loan; i++)
        if (loans[i] == loan) {
            free(loan);
            loans[i] = NULL;
            return;
        }
    FUZZ_CHECK(!loan); /* the body was returned twice, or never lent */
}

static void fake_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    (void)link;
    loan_free(madi_foreign_pass_on(loan));
}

/* Read the peer's memory; odd addresses cannot be read.  Check that memory of this process that a request names exists. */
static bool fake_get(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len)
{
    size_t sum = 0;
    (void)link;
    for (int i = 0; i < n; sum += to[i++].iov_len)
        if (to[i].iov_len)
            memset((char *)to[i].iov_base + to[i].iov_len - 1, ((char *)to[i].iov_base)[0] = 1, 1);
    FUZZ_CHECK(sum == len);
    return !(from & 1);
}

static bool fake_put(madi_link_t *link, uint64_t to, const void *from, size_t len)
{
    const unsigned char *p = from;
    volatile unsigned char sum = 0;
    (void)link;
    for (size_t i = 0; i < len; i++)
        sum = (unsigned char)(sum + p[i]);
    return !(to & 1);
}

static int fake_offer(madi_link_t *link, const madi_offer_t *offer)
{
    (void)link;
    (void)offer;
    return -1;
}

static bool fake_claim(madi_link_t *link, madi_offer_t *wanted)
{
    (void)link;
    (void)wanted;
    return false;
}

static void fake_link_fini(madi_link_t *link)
{
    (void)link;
    for (int i = 0; i < LOANS; i++)
        loan_free(loans[i]);
}

static void nothing_adapter(madi_adapter_t *a)
{
    (void)a;
}

static int nothing_polled(madi_adapter_t *adapter, int budget)
{
    (void)adapter;
    (void)budget;
    return 0;
}

static void nothing_link(madi_link_t *link)
{
    (void)link;
}

void world_driver(const char *name)
{
    fake = (madi_driver_t){
        .abi = MADI_DRIVER_ABI,
        .name = "fake",
        .adapter_size = sizeof(madi_adapter_t),
        .link_size = sizeof(madi_link_t),
        .probe = probe,
        .open = open_any,
        .close = nothing_adapter,
        .fini = nothing_adapter,
        .connect = fake_connect,
        .send = fake_send,
        .poll = nothing_polled,
        .link_close = nothing_link,
        .link_fini = fake_link_fini,
        .fast.slot_put = fake_slot_put,
        .direct = {.get = fake_get, .put = fake_put, .sever = nothing_link, .offer = fake_offer, .claim = fake_claim}};
    frames = fake;
    frames.name = "frames";
    frames.connect = frames_connect;
    frames.start = frames_start;
    frames.fast = (madi_driver_fast_t){0};
    frames.direct = (madi_driver_direct_t){0};
    frames.frames = (madi_driver_frames_t){.frame_send = fuzz_frame_send,
                                           .frame_answer = fuzz_frame_answer,
                                           .accept = frames_accept,
                                           .describe = frames_describe};
    tcp = madi_driver_tcp;
    shm = madi_driver_shm;
    tcp.probe = shm.probe = probe;
    tcp.connect = shm.connect = connect_pair;
    tcp.reach.reachable = NULL;
    tcp.open = open_any;
    shm.open = open_shm;
    setenv("MAD_DRIVERS", name, 1);
    setenv("MAD_EXIT_TIMEOUT", "0", 1);
    setenv("MAD_CREDIT_BUDGET", "64K", 1);
    setenv("MAD_SPIN", "0", 1);
    setenv("MAD_PROGRESS_THREAD", "no", 1);
    setenv("MAD_LOG", "error", 1);
}

/* ---- Life ----------------------------------------------------------------------------------------------------- */

size_t world_address(unsigned char *a, const char *driver, unsigned char uid)
{
    size_t at = 32, n = strlen(driver);
    memset(a, 0, 100);
    a[0] = 2;
    memset(a + 4, uid, 16);
    memset(a + 28, 0xff, 4); /* the address has no rank */
    a[at++] = (unsigned char)n;
    memcpy(a + at, driver, n);
    at += n;
    memcpy(a + at, "\3net\0", 5);
    at += 5;
    a[2] = (unsigned char)at;
    return at;
}

bool world_open(world_t *w)
{
    return world_open_as(w, getenv("MAD_DRIVERS"));
}

bool world_open_as(world_t *w, const char *driver)
{
    mad_session_t *session;
    madi_log_set_level((madi_log_level_t)-1);
    if (mad_open(WORLD_KEY, strlen(WORLD_KEY), &session) != MAD_OK || !world_around(w, session, driver))
        return false;
    mad_channel_open(w->session, "a", &w->channel[0]);
    mad_channel_open(w->session, "b", &w->channel[1]);
    return w->channel[0] && w->channel[1];
}

bool world_around(world_t *w, mad_session_t *session, const char *driver)
{
    unsigned char address[100];
    size_t len = world_address(address, driver, 0x77);
    mad_peer_t peer;
    memset(w, 0, sizeof *w);
    w->fd = -1;
    w->session = session;
    for (int i = 0; i < session->n_adapters; i++)
        if (!strcmp(session->adapters[i]->driver->name, driver))
            w->adapter = session->adapters[i];
    current = w;
    fake_full = false;
    /* Close the entry, so that only the world's own rounds accept connections. */
    marceli_accept_entry_close(&w->session->accept_entry);
    madi_log_set_level((madi_log_level_t)-1);
    if (mad_peer_add(w->session, address, len, &peer) != MAD_OK)
        return false;
    madi_lock(&w->session->lock);
    madi_peer_gate(w->session, peer, 0, &w->gate);
    madi_unlock(&w->session->lock);
    return w->gate && w->adapter;
}

int world_link(world_t *w, bool active)
{
    madi_adapter_t *a = w->adapter;
    char reason[MADI_REASON_MAX] = "";
    int pair[2] = {-1, -1};
    madi_lock(&w->session->lock);
    if (!a->driver->start) {
        madi_gate_connect(w->gate);
        w->link = w->gate->link;
    } else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0) {
        atomic_store(&w->gate->state, MADI_GATE_CONNECTING);
        w->gate->connect->deadline = INT64_MAX;
        w->gate->connect->search = calloc(1, sizeof *w->gate->connect->search);
        w->gate->connect->search->none_left = true; /* no other path exists */
        w->fd = pair[0];
        w->gate->link = w->link = madi_link_new(a, w->gate);
        if (a->driver->start(w->link, pair[1], active, reason) != MAD_OK)
            madi_link_down(w->link, MAD_ERR_SYSTEM, reason);
    }
    madi_unlock(&w->session->lock);
    return atomic_load(&w->gate->state);
}

bool world_up(const world_t *w)
{
    return atomic_load(&w->gate->state) == MADI_GATE_UP;
}

static void completed(void *arg, mad_status_t status)
{
    world_t *w = arg;
    w->completed++;
    FUZZ_CHECK((unsigned)status <= MAD_ERR_BUSY);
}

static void give_up(world_t *w, mad_request_t *request)
{
    w->requests++;
    mad_request_detach(request, completed, w);
}

static void end_open(world_t *w)
{
    mad_request_t *request;
    mad_message_t *message = w->open;
    w->open = NULL;
    if (message && mad_end_unpacking_request(message, &request) == MAD_OK)
        give_up(w, request);
}

void world_down(world_t *w)
{
    if (w->fd >= 0)
        close(w->fd);
    madi_lock(&w->session->lock);
    madi_gate_down(w->gate, MAD_ERR_PEER, "the fuzzer ends");
    madi_unlock(&w->session->lock);
}

/* End the peer: all waiting operations end, each of them once. */
void world_close(world_t *w)
{
    world_down(w);
    do {
        end_open(w);
        world_progress(w); /* a handler may park a further message */
    } while (w->open);
    mad_exit(w->session);
    FUZZ_CHECK(w->completed == w->requests);
    for (int i = 0; i < w->n_blocks; i++)
        free(w->blocks[i]);
}

void world_progress(world_t *w)
{
    struct epoll_event e;
    for (int i = 0; i < 64; i++) {
        int n = mad_progress(w->session);
        if (epoll_wait(w->session->epfd, &e, 1, 0) > 0) { /* wait for an event, as a waiting thread does */
            madi_watch_t *watch = e.data.ptr;
            madi_lock(&w->session->lock);
            if (watch->fd >= 0 && watch->ready) /* the event that wakes sleeping threads has no function here */
                watch->ready(watch, e.events);
            madi_hellos_reap(w->session);
            madi_unlock(&w->session->lock);
            n++;
        }
        if (!n && i > 1)
            return;
    }
}

/* ---- The user ------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {0, 1, 4, 8, 40, 64, 70000, 1000, 5000, 9000, 20000, 300};

static void *block(world_t *w, size_t len)
{
    void *p = w->n_blocks < USER_BLOCKS ? malloc(len ? len : 1) : NULL; /* exactly len bytes: shows writes past them */
    if (p) {
        memset(p, 0x5a, len);
        w->blocks[w->n_blocks++] = p;
    }
    return p;
}

static mad_handled_t handler(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    world_t *w = arg;
    char bytes[40];
    (void)channel;
    mad_unpack_try(message, bytes, sizeof bytes, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    if (w->open)
        return MAD_CONSUMED;
    w->open = message;
    return MAD_PARKED;
}

static void send_some(world_t *w, mad_channel_t *channel, size_t len, bool cancel)
{
    void *p = block(w, len);
    mad_block_t b[2] = {{p, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}, {p, len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS}};
    mad_request_t *request;
    if (!p || mad_message_send(channel, w->gate->peer, b, 2, &request) != MAD_OK)
        return;
    if (cancel)
        mad_request_cancel(request);
    give_up(w, request);
}

static void post_some(world_t *w, mad_channel_t *channel, size_t len, bool cancel)
{
    void *p = block(w, len), *q = block(w, len);
    mad_block_t b[2] = {{p, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS}, {q, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    mad_request_t *request;
    if (!q || mad_message_receive(channel, w->gate->peer, b, 2, &request) != MAD_OK)
        return;
    if (cancel)
        mad_request_cancel(request);
    give_up(w, request);
}

static void unpack_some(world_t *w, size_t len, int how)
{
    unsigned char *p = w->open ? block(w, len) : NULL;
    if (!p)
        return;
    if (how == 0) {
        mad_unpack_try(w->open, p, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    } else if (how == 1) {
        mad_unpack(w->open, p, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    } else {
        struct iovec pieces[3] = {{p, len / 3}, {p + len / 3, len / 3}, {p + len / 3 * 2, len - len / 3 * 2}};
        mad_unpack_scatter(w->open, pieces, 3, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    }
}

/* Borrow a block, and read every byte of it. */
static void borrow_some(world_t *w)
{
    const void *base;
    size_t len;
    unsigned sum = 0;
    if (!w->open || mad_unpack_borrow(w->open, &base, &len) != MAD_OK)
        return;
    for (size_t i = 0; i < len; i++)
        sum += ((const volatile unsigned char *)base)[i];
    (void)sum;
}

static void pack_some(world_t *w, mad_channel_t *channel, size_t len)
{
    mad_message_t *message = mad_begin_packing(channel, w->gate->peer);
    mad_request_t *request;
    void *p = block(w, len);
    if (p) {
        mad_pack(message, p, len, MAD_SEND_LATER, MAD_RECEIVE_CHEAPER);
        mad_pack(message, p, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
        mad_message_flush(message);
    }
    if (mad_end_packing_request(message, &request) == MAD_OK)
        give_up(w, request);
}

void world_step(world_t *w, uint8_t what)
{
    mad_channel_t *channel = w->channel[what >> 4 & 1];
    size_t len = lengths[(what >> 4) % MADI_COUNT(lengths)];
    mad_event_t event;
    switch (what & 15) {
    case 0: world_progress(w); break;
    case 1:
        if (!w->open && mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 0, &w->open) != MAD_OK)
            w->open = NULL;
        break;
    case 2:
    case 3:
    case 4: unpack_some(w, len, (what & 15) - 2); break;
    case 5: end_open(w); break;
    case 6:
    case 7: post_some(w, w->channel[what & 1], len, what & 128); break;
    case 8:
    case 9: send_some(w, w->channel[what & 1], len, what & 128); break;
    case 10: mad_channel_handler_set(channel, handler, w); break;
    case 11: mad_channel_handler_set(channel, NULL, NULL); break;
    case 12: pack_some(w, w->channel[1], len); break;
    case 13: mad_event_next(w->session, &event); break;
    case 14: fake_full = !fake_full; break;
    default: borrow_some(w); break;
    }
}

/* ---- Packets of the fake driver ------------------------------------------------------------------------------- */

void fake_packet(world_t *w, const madi_wire_hdr_t *hdr, const void *body, int how, uint8_t step)
{
    madi_rx_t rx = {0};
    unsigned char *loan = how == 1 ? loan_new(hdr->length) : NULL;
    unsigned char whole[MADI_SHORT_MAX] = {0};
    madi_place_t place;

    if (loan && hdr->length)
        memcpy(loan, body, hdr->length);
    madi_lock(&w->session->lock);
    if (how == 0 && hdr->length <= MADI_SHORT_MAX) {
        memcpy(whole, body, hdr->length);
        madi_rx_short(w->link, hdr, madi_foreign_of(whole));
        madi_unlock(&w->session->lock);
        return;
    }
    rx.loan = madi_foreign_of(loan);
    place = madi_rx_begin(w->link, hdr, &rx);
    if (place == MADI_PLACE_COPY) {
        if (how == 2) { /* the body arrives later, as on a stream */
            if (hdr->length > 1)
                memcpy(rx.base, body, hdr->length / 2);
            madi_unlock(&w->session->lock);
            world_step(w, step);
            madi_lock(&w->session->lock);
            if (atomic_load(&w->link->state) != MADI_LINK_UP)
                goto out;
        }
        if (hdr->length)
            memcpy(rx.base, body, hdr->length);
        madi_rx_done(w->link, hdr, &rx);
    }
out:
    madi_unlock(&w->session->lock);
    if (place != MADI_PLACE_KEEP)
        loan_free(loan);
}

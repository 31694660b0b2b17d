/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of small messages, which leave at once if nothing is queued before them: each way to end a request, and callbacks
 * that do not nest.  If a message has to wait, its request must behave in the same way. */
#include "conform.h"

typedef enum form { BY_REQUEST, BY_CALL, FORMS } form_t;

static mad_request_t *number_send(env_t *e, form_t form, uint32_t number, size_t len, mad_send_mode_t mode)
{
    mad_request_t *request = NULL;
    unsigned char body[256];
    mad_block_t blocks[2] = {{&number, sizeof number, SAFER, EXPRESS}, {body, len, mode, LAZY}};
    fill(body, len, number);
    if (form == BY_CALL) {
        CHECK_OK(mad_message_send(e->ch[0], e->peer, blocks, 2, &request));
    } else {
        mad_message_t *message = mad_begin_packing(e->ch[0], e->peer);
        mad_pack(message, &number, sizeof number, SAFER, EXPRESS);
        mad_pack(message, body, len, mode, LAZY);
        CHECK_OK(mad_end_packing_request(message, &request));
    }
    CHECK_MSG(request != NULL, "message %u has no request", number);
    if (mode != SAFER && request) { /* the body is borrowed until the end */
        CHECK_OK(mad_request_wait(&request, MAD_FOREVER));
        CHECK_MSG(!request, "message %u still has its request", number);
    }
    return request;
}

/* ---- Each way to end a request --------------------------------------------------------------------------------- */

static void by_test(env_t *e, mad_request_t *request, uint32_t number, size_t len)
{
    mad_status_t status;
    (void)e, (void)number, (void)len;
    while ((status = mad_request_test(&request)) == MAD_ERR_AGAIN)
        continue;
    CHECK_OK(status);
    CHECK_MSG(!request, "a complete request is left");
    CHECK_STATUS(mad_request_test(&request), MAD_ERR_INVAL);
}

static void by_wait(env_t *e, mad_request_t *request, uint32_t number, size_t len)
{
    mad_status_t status;
    (void)e, (void)number, (void)len;
    while ((status = mad_request_wait(&request, 0)) == MAD_ERR_TIMEOUT)
        continue;
    CHECK_OK(status);
    CHECK_STATUS(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_INVAL);
}

static void by_wait_any(env_t *e, mad_request_t *request, uint32_t number, size_t len)
{
    mad_request_t *pending = NULL, *all[3] = {NULL};
    int index = -1;
    char nothing;
    mad_block_t block = {&nothing, 1, CHEAPER, LAZY};
    (void)number, (void)len;
    CHECK_OK(mad_message_receive(e->ch[1], e->peer, &block, 1, &pending)); /* no message arrives on this channel */
    all[0] = pending;
    all[2] = request;
    CHECK_OK(mad_request_wait_any(all, 3, MAD_FOREVER, &index));
    CHECK_EQ(index, 2);
    CHECK_MSG(!all[2] && all[0] == pending, "another request was freed");
    CHECK_STATUS(mad_request_wait_any(all, 3, 0, &index), MAD_ERR_TIMEOUT);
    CHECK_OK(mad_request_cancel(pending));
    CHECK_STATUS(mad_request_wait_any(all, 3, MAD_FOREVER, &index), MAD_ERR_CANCELLED);
    CHECK_EQ(index, 0);
}

/* A message that has left is too late to cancel; any other one is sent once more. */
static void by_cancel(env_t *e, mad_request_t *request, uint32_t number, size_t len)
{
    mad_status_t status = mad_request_cancel(request);
    CHECK_MSG(status == MAD_OK || status == MAD_ERR_TOO_LATE, "%s", mad_status_text(status));
    CHECK_STATUS(mad_request_wait(&request, MAD_FOREVER), status ? MAD_OK : MAD_ERR_CANCELLED);
    CHECK_STATUS(mad_request_cancel(request), MAD_ERR_INVAL);
    if (!status)
        send_numbered(e, e->ch[0], number, len);
}

typedef struct called {
    _Atomic(int) times;
    mad_status_t status;
} called_t;

static void note(void *arg, mad_status_t status)
{
    called_t *called = arg;
    called->status = status;
    atomic_fetch_add(&called->times, 1);
}

static void by_callback(env_t *e, mad_request_t *request, uint32_t number, size_t len)
{
    called_t called = {.status = MAD_ERR_INVAL};
    (void)number, (void)len;
    mad_request_detach(request, note, &called);
    while (!atomic_load(&called.times))
        mad_progress(e->session);
    CHECK_OK(called.status);
    CHECK_EQ(atomic_load(&called.times), 1);
}

static void by_nothing(env_t *e, mad_request_t *request, uint32_t number, size_t len)
{
    (void)e, (void)number, (void)len;
    mad_request_detach(request, NULL, NULL);
}

static void (*const ends[])(env_t *e, mad_request_t *request, uint32_t number,
                            size_t len) = {by_test, by_wait, by_wait_any, by_cancel, by_callback, by_nothing};
static const size_t lens[] = {0, 8, 24, 40, 64, 200};
#define ROUNDS (FORMS * COUNT(ends) * COUNT(lens))

static void ends_send(env_t *e)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        size_t end = i / FORMS % COUNT(ends);
        mad_request_t *request = number_send(e, i % FORMS, 3 * i, lens[i / FORMS / COUNT(ends)], SAFER);
        if (request)
            ends[end](e, request, 3 * i, lens[i / FORMS / COUNT(ends)]);
        request = number_send(e, (i + 1) % FORMS, 3 * i + 1, lens[i % COUNT(lens)], LATER);
        if (request)
            by_wait(e, request, 0, 0);
        send_numbered(e, e->ch[0], 3 * i + 2, 8); /* the blocking send keeps its order with the others */
    }
    await_peer(e);
}

static void ends_receive(env_t *e)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        receive_numbered(e, e->ch[0], 3 * i, lens[i / FORMS / COUNT(ends)]);
        receive_numbered(e, e->ch[0], 3 * i + 1, lens[i % COUNT(lens)]);
        receive_numbered(e, e->ch[0], 3 * i + 2, 8);
    }
    signal_peer(e);
}

/* ---- Windows -------------------------------------------------------------------------------------------------- */

#define WINDOW 300 /* more than a ring holds: the first ones leave at once, the others are queued behind them */

static void window_send(env_t *e)
{
    mad_request_t *requests[WINDOW];
    await_peer(e); /* the receiver receives no message before this point */
    for (uint32_t i = 0; i < WINDOW; i++)
        requests[i] = number_send(e, i % FORMS, i, i % 60, SAFER);
    signal_peer(e);
    for (uint32_t i = 0; i < WINDOW; i++)
        CHECK_OK(mad_request_wait(&requests[WINDOW - 1 - i], MAD_FOREVER));
}

static void window_receive(env_t *e)
{
    signal_peer(e);
    await_peer(e);
    for (uint32_t i = 0; i < WINDOW; i++)
        receive_numbered(e, e->ch[0], i, i % 60);
}

/* ---- Posted receives ------------------------------------------------------------------------------------------ */

static size_t posted_len(uint32_t number)
{
    return number % 7 ? number % 50 : 0;
}

/* Messages that arrive before their receives are posted, and messages that arrive after that. */
static void posted_send(env_t *e)
{
    await_peer(e);
    for (uint32_t i = 0; i < WINDOW; i++) {
        unsigned char body[50];
        mad_block_t block = {body, posted_len(i), SAFER, i % 2 ? EXPRESS : LAZY};
        mad_request_t *request;
        fill(body, block.len, i);
        CHECK_OK(mad_message_send(e->ch[0], e->peer, &block, 1, &request));
        CHECK_OK(mad_request_wait(&request, MAD_FOREVER));
    }
    signal_peer(e);
    await_peer(e);
}

static void posted_receive(env_t *e)
{
    static unsigned char bodies[WINDOW][50];
    mad_request_t *requests[WINDOW];
    signal_peer(e);
    for (uint32_t i = 0; i < WINDOW; i++) {
        size_t len = posted_len(i);
        mad_block_t block = {bodies[i], len, SAFER, i % 2 ? EXPRESS : LAZY};
        CHECK_OK(mad_message_receive(e->ch[0], e->peer, &block, 1, &requests[i]));
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        CHECK_OK(mad_request_wait(&requests[i % 2 ? i : WINDOW - 2 - i], MAD_FOREVER));
    for (uint32_t i = 0; i < WINDOW; i++)
        HOLDS(bodies[i], posted_len(i), i);
    await_peer(e);
    signal_peer(e);
}

#define SHORT_POSTED 20

/* The sides disagree about every fourth message of 8 bytes, in turn about its length and its mode. */
static void differ_send(env_t *e)
{
    int reported = 0;
    mad_event_t event;
    await_peer(e);
    for (uint32_t i = 0; i < SHORT_POSTED; i++) {
        unsigned char body[16];
        bool wrong = i % 4 == 3;
        mad_block_t block = {body, wrong && i % 8 == 3 ? 9 : 8, SAFER, wrong && i % 8 == 7 ? EXPRESS : LAZY};
        mad_status_t status;
        fill(body, sizeof body, i);
        status = mad_message_send(e->ch[0], e->peer, &block, 1, NULL);
        CHECK_MSG(!status || (wrong && status == MAD_ERR_MISMATCH), "message %u: %s", i, mad_status_text(status));
        reported += status == MAD_ERR_MISMATCH;
    }
    while (reported < SHORT_POSTED / 4) /* there is an event for each message that had left */
        reported += mad_event_next(e->session, &event) == MAD_OK;
    await_peer(e);
}

static void differ_receive(env_t *e)
{
    unsigned char bodies[SHORT_POSTED][16];
    mad_request_t *requests[SHORT_POSTED];
    memset(bodies, 0x55, sizeof bodies);
    for (uint32_t i = 0; i < SHORT_POSTED; i++) {
        mad_block_t block = {bodies[i], 8, SAFER, LAZY};
        CHECK_OK(mad_message_receive(e->ch[0], e->peer, &block, 1, &requests[i]));
    }
    signal_peer(e);
    for (uint32_t i = 0; i < SHORT_POSTED; i++) {
        CHECK_STATUS(mad_request_wait(&requests[i], MAD_FOREVER), i % 4 == 3 ? MAD_ERR_MISMATCH : MAD_OK);
        CHECK_EQ(bodies[i][8], 0x55);
        if (i % 4 != 3)
            HOLDS(bodies[i], 8, i);
    }
    signal_peer(e);
}

/* ---- Callbacks ------------------------------------------------------------------------------------------------ */

#define CHAIN 5000

typedef struct chain {
    env_t *e;
    _Atomic(uint32_t) next;
    int inside;
} chain_t;

/* Send the next message; its callback sends the one after it.  No callback runs inside another. */
static void chain_step(void *arg, mad_status_t status)
{
    chain_t *chain = arg;
    uint32_t number = atomic_load(&chain->next);
    CHECK_OK(status);
    CHECK_EQ(chain->inside++, 0);
    if (number < CHAIN) {
        mad_request_t *request = number_send(chain->e, number % FORMS, number, 8, SAFER);
        atomic_store(&chain->next, number + 1);
        mad_request_detach(request, chain_step, chain);
    }
    chain->inside--;
    if (number == CHAIN)
        atomic_store(&chain->next, number + 1); /* the last access to chain, which may be gone now */
}

static void chain_send(env_t *e)
{
    chain_t chain = {.e = e};
    mad_request_detach(number_send(e, BY_CALL, UINT32_MAX, 8, SAFER), chain_step, &chain);
    while (atomic_load(&chain.next) <= CHAIN)
        mad_progress(e->session);
    await_peer(e);
}

static void chain_receive(env_t *e)
{
    receive_numbered(e, e->ch[0], UINT32_MAX, 8);
    for (uint32_t i = 0; i < CHAIN; i++)
        receive_numbered(e, e->ch[0], i, 8);
    signal_peer(e);
}

#define EARLIER 40

typedef struct nest {
    mad_request_t *requests[EARLIER];
    _Atomic(int) next;
    int inside;
} nest_t;

/* Callback: detach requests that are complete already, so that their callbacks are called from a callback. */
static void nest_step(void *arg, mad_status_t status)
{
    nest_t *nest = arg;
    int number = atomic_load(&nest->next);
    CHECK_OK(status);
    CHECK_EQ(nest->inside++, 0);
    if (number < EARLIER)
        mad_request_detach(nest->requests[number], nest_step, nest);
    nest->inside--;
    atomic_store(&nest->next, number + 1); /* the last access to nest, which may be gone now */
}

static void nest_send(env_t *e)
{
    nest_t nest = {.next = 1};
    for (uint32_t i = 0; i < EARLIER; i++)
        nest.requests[i] = number_send(e, i % FORMS, i, 8, SAFER);
    mad_request_detach(nest.requests[0], nest_step, &nest);
    while (atomic_load(&nest.next) <= EARLIER)
        mad_progress(e->session);
    await_peer(e);
}

static void nest_receive(env_t *e)
{
    for (uint32_t i = 0; i < EARLIER; i++)
        receive_numbered(e, e->ch[0], i, 8);
    signal_peer(e);
}

const test_t instant_tests[] = {{.name = "instant_ends", .procs = 2, .send = ends_send, .receive = ends_receive},
                                {.name = "instant_window", .procs = 2, .send = window_send, .receive = window_receive},
                                {.name = "instant_posted", .procs = 2, .send = posted_send, .receive = posted_receive},
                                {.name = "instant_differ", .procs = 2, .send = differ_send, .receive = differ_receive},
                                {.name = "instant_chain", .procs = 2, .send = chain_send, .receive = chain_receive},
                                {.name = "instant_nest", .procs = 2, .send = nest_send, .receive = nest_receive},
                                {.name = NULL}};

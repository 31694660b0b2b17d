/* SPDX-License-Identifier: BSD-3-Clause */
/* Out of memory: a complete exchange between two sessions in which the n-th allocation of the library fails, for every n:
 *
 *   no_memory [DRIVER...]      tcp, shm, skeleton, pipes and self if none is named; over self a session sends to itself
 *
 * Every failure is reported by a status, no call hangs, and no memory is lost (which the leak checker reports).  The
 * program is linked with the library's objects, and wraps their allocations. */
#define TEST_MAIN
#include "core/core.h"
#include "harness/allocations.h"
#include "harness/test.h"

#include <errno.h>
#include <madeleine.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define SECOND INT64_C(1000000000)
#define WAIT (10 * SECOND)
#define SLICE (SECOND / 50)
#define KEY "0123456789abcdef"
#define MANY 2000 /* an exchange has fewer allocations than this */

/* ---- The exchange --------------------------------------------------------------------------------------------- */

enum { SMALL = 40, MIDDLE = 5000, BIG = 300000, PIECES = 5 };

static unsigned char out[BIG], in[BIG], scattered[BIG];

typedef struct side {
    mad_session_t *session;
    mad_channel_t *channel;
    mad_peer_t peer; /* peer number of the other session */
} side_t;

/* True for a status that lack of memory explains, here or on the other side. */
static bool explained(mad_status_t status)
{
    return status == MAD_OK || status == MAD_ERR_NOMEM || status == MAD_ERR_PEER || status == MAD_ERR_UNREACHABLE ||
           status == MAD_ERR_SYSTEM || status == MAD_ERR_CLOSED;
}

static mad_status_t side_open(side_t *side)
{
    mad_status_t status = mad_open(KEY, sizeof KEY - 1, &side->session);
    return status ? status : mad_channel_open(side->session, "memory", &side->channel);
}

static mad_status_t meet(side_t *side, const side_t *other)
{
    const void *address;
    size_t len;
    mad_status_t status = mad_address(other->session, &address, &len);
    return status ? status : mad_peer_add(side->session, address, len, &side->peer);
}

static mad_status_t pack(side_t *side, mad_request_t **request)
{
    struct iovec pieces[PIECES];
    mad_message_t *message = mad_begin_packing(side->channel, side->peer);
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){out + i * 100, 100};
    mad_pack(message, out, SMALL, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    mad_pack(message, out, MIDDLE, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    mad_pack_gather(message, pieces, PIECES, MAD_SEND_LATER, MAD_RECEIVE_CHEAPER);
    mad_pack_strided(message, out, 8, 16, 1000, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    mad_pack(message, out, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing_request(message, request);
}

/* Open the next message, unless the sender or the other session reports that this message will not arrive. */
static mad_status_t open_next(side_t *side, const side_t *from, mad_request_t **sent, mad_message_t **message)
{
    mad_status_t status = MAD_ERR_TIMEOUT;
    for (int64_t i = 0; i < WAIT / SLICE && status == MAD_ERR_TIMEOUT; i++) {
        mad_event_t event;
        status = mad_begin_unpacking_within(side->channel, MAD_ANY_SOURCE, SLICE, message);
        if (status == MAD_ERR_TIMEOUT && *sent) {
            mad_status_t left_with = mad_request_test(sent);
            if (left_with != MAD_ERR_AGAIN && left_with)
                status = left_with;
        }
        if (status == MAD_ERR_TIMEOUT && (!mad_event_next(side->session, &event) || !mad_event_next(from->session, &event)))
            status = event.status;
    }
    CHECK_MSG(status != MAD_ERR_TIMEOUT, "a message does not come");
    return status;
}

static mad_status_t unpack(side_t *side, const side_t *from, mad_request_t **sent, mad_request_t **request)
{
    mad_message_t *message;
    mad_status_t status = open_next(side, from, sent, &message);
    struct iovec pieces[2] = {{scattered, 200}, {scattered + 200, 300}};
    if (status)
        return status;
    mad_unpack(message, in, SMALL, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    mad_unpack(message, in, MIDDLE, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    mad_unpack_scatter(message, pieces, 2, MAD_SEND_LATER, MAD_RECEIVE_CHEAPER);
    mad_unpack_strided(message, scattered + 500, 8, 16, 1000, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    mad_unpack(message, in, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking_request(message, request);
}

/* Wait for both ends of a message, that is, for all requests that were begun.  Return the first failure. */
static mad_status_t both(mad_status_t status, mad_request_t **requests, int n)
{
    for (int i = 0; i < n; i++) {
        mad_status_t one = requests[i] ? mad_request_wait(&requests[i], WAIT) : MAD_OK;
        CHECK_MSG(one != MAD_ERR_TIMEOUT, "request %d hangs", i);
        if (!status)
            status = one;
    }
    return status;
}

static mad_status_t packed(side_t *from, side_t *to)
{
    mad_request_t *requests[2] = {NULL, NULL};
    mad_status_t status = pack(from, &requests[0]);
    if (!status)
        status = unpack(to, from, &requests[0], &requests[1]);
    if (status && requests[0]) { /* the receive failed, and the sender would wait for it */
        if (to == from)
            mad_request_detach(requests[0], NULL, NULL), requests[0] = NULL;
        else
            mad_exit(to->session), to->session = NULL;
    }
    return both(status, requests, 2);
}

static mad_status_t posted(side_t *from, side_t *to)
{
    mad_block_t sent[2] = {{out, SMALL, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                           {out, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    mad_block_t got[2] = {{scattered, SMALL, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                          {in, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    mad_request_t *requests[2] = {NULL, NULL};
    mad_status_t status = mad_message_receive(to->channel, to->peer, got, 2, &requests[1]);
    if (!status)
        status = mad_message_send(from->channel, from->peer, sent, 2, &requests[0]);
    if (status && requests[1])
        CHECK_OK(mad_request_cancel(requests[1]));
    return both(status, requests, 2);
}

static _Atomic(int) handled;

static mad_handled_t handle(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    (void)channel;
    (void)arg;
    mad_unpack_try(message, in, SMALL, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    atomic_store(&handled, 1);
    return MAD_CONSUMED;
}

static mad_status_t active(side_t *from, side_t *to)
{
    mad_block_t block = {out, SMALL, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_event_t event;
    mad_status_t status;
    struct timespec end, now;
    atomic_store(&handled, 0);
    mad_channel_handler_set(to->channel, handle, NULL);
    status = mad_message_send(from->channel, from->peer, &block, 1, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    while (!status && !atomic_load(&handled)) {
        mad_progress(from->session);
        mad_progress(to->session);
        if (mad_event_next(to->session, &event) == MAD_OK || mad_event_next(from->session, &event) == MAD_OK)
            status = event.status;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!CHECK_MSG(now.tv_sec < end.tv_sec + 10, "a message does not come"))
            break;
    }
    return status;
}

static mad_status_t exchange(side_t *a, side_t *b)
{
    mad_status_t status = side_open(a);
    if (!status && b != a)
        status = side_open(b);
    if (!status)
        status = meet(a, b);
    if (!status)
        status = meet(b, a);
    if (!status)
        status = packed(a, b);
    if (!status)
        status = packed(b, a);
    if (!status)
        status = posted(a, b);
    if (!status)
        status = active(a, b);
    return status;
}

/* Run an exchange in which the n-th allocation fails.  False if the exchange has fewer allocations. */
static bool sweep(int n, bool to_itself)
{
    side_t a = {NULL, NULL, 0}, b = {NULL, NULL, 0};
    mad_status_t status;
    atomic_store(&failed, 0);
    atomic_store(&left, n);
    status = exchange(&a, to_itself ? &a : &b);
    CHECK_MSG(explained(status), "allocation %d fails: %s", n, mad_status_name(status));
    if (!atomic_load(&failed) && status)
        CHECK_MSG(false, "no allocation failed: %s", mad_status_name(status));
    mad_exit(a.session);
    mad_exit(b.session);
    atomic_store(&left, -1);
    return atomic_load(&failed);
}

/* Begin to pack, and fail for lack of memory: a thread that waits to pack on the connection must go on. */
static void *begin_denied(void *arg)
{
    side_t *side = arg;
    denied = sizeof(madi_tx_t); /* only this size: the waiting thread may receive for all threads, and allocate */
    mad_message_t *message = mad_begin_packing(side->channel, side->peer);
    mad_pack(message, out, SMALL, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_EQ(mad_end_packing(message), MAD_ERR_NOMEM);
    denied = 0;
    return NULL;
}

/* While all other threads wait, this thread ends its message, whose structure is in use until the message is received.  So
 * no waiting thread finds a spare structure. */
static void test_packers(void)
{
    side_t a = {NULL, NULL, 0};
    enum { N = 8, ROUNDS = 5 };
    pthread_t threads[N];
    atomic_store(&left, -1);
    if (!CHECK_OK(side_open(&a)) || !CHECK_OK(meet(&a, &a)))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        mad_block_t block = {out, 100000, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        mad_request_t *request;
        mad_message_t *message = mad_begin_packing(a.channel, a.peer), *come;
        madi_conn_t *conn = madi_conn_peek(a.channel, a.peer);
        for (int i = 0; i < N; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, begin_denied, &a), 0);
        while (atomic_load(&conn->waiting) < N)
            sched_yield();
        mad_pack(message, block.base, block.len, block.send_mode, block.receive_mode);
        if (CHECK_OK(mad_end_packing_request(message, &request)))
            mad_request_detach(request, NULL, NULL);
        for (int i = 0; i < N; i++)
            pthread_join(threads[i], NULL);
        if (CHECK_OK(mad_begin_unpacking_within(a.channel, MAD_ANY_SOURCE, WAIT, &come)))
            mad_end_unpacking(come);
    }
    mad_exit(a.session);
}

static void *send_long(void *arg)
{
    side_t *side = arg;
    mad_message_t *message = mad_begin_packing(side->channel, side->peer);
    mad_pack(message, out, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_OK(mad_end_packing(message));
    return NULL;
}

/* Send long messages, each from a blocking call.  Return the number of allocations of the last one. */
static int long_allocations(side_t *a, side_t *b, int n)
{
    int before = 0;
    for (int i = 0; i < n; i++) {
        pthread_t sender;
        mad_message_t *message;
        before = atomic_load(&left);
        CHECK_EQ(pthread_create(&sender, NULL, send_long, a), 0);
        if (CHECK_OK(mad_begin_unpacking_within(b->channel, MAD_ANY_SOURCE, WAIT, &message))) {
            mad_unpack(message, in, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
            CHECK_OK(mad_end_unpacking(message));
        }
        pthread_join(sender, NULL);
    }
    return before - atomic_load(&left);
}

/* The structures of a long message are reused: once a few messages have been sent, no more memory is allocated. */
static void test_long(void)
{
    side_t a = {NULL, NULL, 0}, b = {NULL, NULL, 0};
    atomic_store(&left, -1);
    if (CHECK_OK(side_open(&a)) && CHECK_OK(side_open(&b)) && CHECK_OK(meet(&a, &b)) && CHECK_OK(meet(&b, &a))) {
        atomic_store(&left, INT32_MAX);
        CHECK_EQ(long_allocations(&a, &b, 30), 0);
        atomic_store(&left, -1);
    }
    mad_exit(a.session);
    mad_exit(b.session);
}

static void report(const char *name, void (*test)(void))
{
    int before = test_failures;
    test_begin(name, 60);
    test();
    test_end();
    printf("%s %s\n", test_failures == before ? "ok" : "not ok", name);
}

int main(int argc, char **argv)
{
    static char *all[] = {"tcp", "shm", "skeleton", "pipes", "self"};
    char **drivers = argc > 1 ? argv + 1 : all;
    int n_drivers = argc > 1 ? argc - 1 : (int)(sizeof all / sizeof *all);
    setenv("MAD_CONNECT_TIMEOUT", "2000", 1);
    setenv("MAD_EXIT_TIMEOUT", "2000", 1);
    setenv("MAD_LOG", "error", 0);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (unsigned char)(i * 7 + i / 251);
    for (int i = 0; i < n_drivers; i++) {
        int before = test_failures, n = 0;
        setenv("MAD_DRIVERS", drivers[i], 1);
        for (bool more = true; more && n < MANY && test_failures < 20; n++) {
            char name[64];
            snprintf(name, sizeof name, "%s, allocation %d", drivers[i], n);
            test_begin(name, 60);
            more = sweep(n, !strcmp(drivers[i], "self"));
            test_end();
        }
        CHECK_MSG(n > 20 && n < MANY, "%d allocations", n);
        printf("%s no memory over %s (%d allocations)\n", test_failures == before ? "ok" : "not ok", drivers[i], n - 1);
        fflush(stdout);
    }
    setenv("MAD_DRIVERS", "self", 1);
    report("no memory for one of many packers", test_packers);
    setenv("MAD_DRIVERS", "shm", 1);
    report("long messages reuse their memory", test_long);
    return test_failures ? 1 : 0;
}

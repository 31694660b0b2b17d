/* SPDX-License-Identifier: BSD-3-Clause */
/* Statements of the manual pages about arguments, errors and ownership, in a session that talks to itself. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <sched.h>
#include <sys/resource.h>

#define SENT MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER

static const unsigned char key[64] = "not very secret";
static mad_session_t *session;
static mad_channel_t *channel;
static char text[64], big[4000];
static mad_block_t block = {text, sizeof text, SENT}, big_block = {big, sizeof big, SENT};

static void send_one(mad_block_t *b)
{
    mad_request_t *r;
    if (CHECK_OK(mad_message_send(channel, 0, b, 1, &r)))
        CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
}

static void starting(void)
{
    CHECK_STATUS(mad_open(NULL, 16, &session), MAD_ERR_INVAL);
    CHECK_STATUS(mad_open(key, 15, &session), MAD_ERR_INVAL);
    CHECK_STATUS(mad_open(key, 65, &session), MAD_ERR_INVAL);
    CHECK_STATUS(mad_open((unsigned char[64]){0}, 64, &session), MAD_ERR_INVAL);
    CHECK_STATUS(mad_open("aaaaaaaaaaaaaaaa", 16, &session), MAD_ERR_INVAL);
    setenv("MAD_CREDIT_FLOOR", "1", 1);
    CHECK_STATUS(mad_open(key, 16, &session), MAD_ERR_CONFIG);
    unsetenv("MAD_CREDIT_FLOOR");
    if (!CHECK_OK(mad_open(key, sizeof key, &session)))
        exit(1);
    CHECK_EQ(mad_rank(session), 0);
    CHECK_EQ(mad_size(session), 1);
    CHECK_OK(mad_barrier(session));
    CHECK(!strcmp(mad_status_text((mad_status_t)99), "unknown status"));
}

static void channels(void)
{
    mad_channel_t *other;
    char name[80];
    memset(name, 'n', sizeof name);
    name[MAD_CHANNEL_NAME_MAX] = 0;
    CHECK_STATUS(mad_channel_open(session, NULL, &channel), MAD_ERR_INVAL);
    CHECK_STATUS(mad_channel_open(session, "", &channel), MAD_ERR_INVAL);
    CHECK_STATUS(mad_channel_open(session, name, &channel), MAD_ERR_INVAL);
    name[MAD_CHANNEL_NAME_MAX - 1] = 0;
    CHECK_OK(mad_channel_open(session, name, &channel));
    CHECK(!strcmp(mad_channel_name(channel), name));
    CHECK_STATUS(mad_channel_open(session, name, &other), MAD_ERR_BUSY);
    mad_channel_close(channel);
    mad_channel_close(NULL);
    CHECK_OK(mad_channel_open(session, name, &channel));
}

static void peers(void)
{
    unsigned char other[4096];
    mad_adapter_info_t info;
    int index = -1;
    mad_peer_t a = -1, b = -1;
    const void *mine;
    size_t len;
    CHECK_OK(mad_address(session, &mine, &len));
    if (!CHECK(len <= sizeof other))
        return;
    CHECK_OK(mad_peer_add(session, mine, len, &a));
    CHECK_EQ(a, 0);
    memcpy(other, mine, len);
    other[4] ^= 1; /* changes the identity */
    CHECK_OK(mad_peer_add(session, other, len, &a));
    CHECK_OK(mad_peer_add(session, other, len, &b));
    CHECK_EQ(a, 1);
    CHECK_EQ(b, 1);
    CHECK_STATUS(mad_peer_add(session, other, len - 1, &a), MAD_ERR_INVAL);
    CHECK_STATUS(mad_peer_add(session, "x", 1, &a), MAD_ERR_INVAL);
    other[0] = 99;
    CHECK_STATUS(mad_peer_add(session, other, len, &a), MAD_ERR_VERSION);
    CHECK_STATUS(mad_peer_explain(session, 7, text, sizeof text), MAD_ERR_INVAL);
    CHECK_OK(mad_peer_explain(session, 0, text, 4));
    CHECK(strlen(text) == 3);
    CHECK_STATUS(mad_adapter_get(session, -1, &info), MAD_ERR_INVAL);
    CHECK_STATUS(mad_adapter_get(session, mad_adapter_count(session), &info), MAD_ERR_INVAL);
    CHECK_OK(mad_adapter_get(session, 0, &info));
    CHECK_STATUS(mad_peer_adapter(session, -1, &index), MAD_ERR_INVAL);
    CHECK_STATUS(mad_peer_adapter(session, 7, &index), MAD_ERR_INVAL);
    CHECK_STATUS(mad_peer_adapter(session, 1, &index), MAD_ERR_AGAIN);
    CHECK_STATUS(mad_peer_route(session, 7, text, sizeof text), MAD_ERR_INVAL);
    CHECK_STATUS(mad_peer_route(session, 1, text, sizeof text), MAD_ERR_AGAIN);
    CHECK_STATUS(mad_channel_route(channel, 7, text, sizeof text), MAD_ERR_INVAL);
    CHECK_STATUS(mad_channel_route(channel, 1, text, sizeof text), MAD_ERR_AGAIN);
}

/* Connect to a peer when this process has no descriptor left. */
static void no_descriptors(void)
{
    struct rlimit limit, none;
    mad_event_t event;
    mad_request_t *r;
    if (!CHECK(!getrlimit(RLIMIT_NOFILE, &limit)))
        return;
    none = limit;
    none.rlim_cur = 3;
    CHECK(!setrlimit(RLIMIT_NOFILE, &none));
    if (CHECK_OK(mad_message_send(channel, 1, &block, 1, &r)))
        CHECK_STATUS(mad_request_wait(&r, MAD_FOREVER), MAD_ERR_NOMEM);
    CHECK_OK(mad_event_next(session, &event));
    CHECK_EQ(event.status, MAD_ERR_NOMEM);
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void packing(void)
{
    struct iovec bad = {NULL, 1};
    mad_request_t *r;
    mad_message_t *message = mad_begin_packing(channel, 99);
    CHECK_EQ(mad_message_peer(message), MAD_ANY_SOURCE);
    CHECK_STATUS(mad_message_status(message), MAD_ERR_INVAL);
    CHECK_STATUS(mad_pack(message, text, 1, SENT), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
    CHECK_OK(mad_end_packing_request(mad_begin_packing(channel, 99), &r));
    CHECK_STATUS(mad_request_wait(&r, MAD_FOREVER), MAD_ERR_INVAL);

    message = mad_begin_packing(channel, 0);
    CHECK_STATUS(mad_pack_strided(message, text, 1, SIZE_MAX / 2, 8, SENT), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
    message = mad_begin_packing(channel, 0);
    CHECK_STATUS(mad_pack(message, NULL, 1, SENT), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
    message = mad_begin_packing(channel, 0);
    CHECK_STATUS(mad_pack(message, text, 1, (mad_send_mode_t)3, MAD_RECEIVE_CHEAPER), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
    message = mad_begin_packing(channel, 0);
    CHECK_STATUS(mad_pack_gather(message, &bad, 1, SENT), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);
    message = mad_begin_packing(channel, 0);
    CHECK_STATUS(mad_pack_gather(message, &bad, -1, SENT), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_packing(message), MAD_ERR_INVAL);

    CHECK_STATUS(mad_message_send(channel, 0, &block, -1, &r), MAD_ERR_INVAL);
    CHECK_STATUS(mad_message_send(channel, 99, &block, 1, &r), MAD_ERR_INVAL);
}

static void unpacking(void)
{
    mad_message_t *message;
    mad_request_t *r;
    mad_event_t event;
    CHECK_STATUS(mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 0, &message), MAD_ERR_AGAIN);
    CHECK_STATUS(mad_begin_unpacking_within(channel, 0, 1000000, &message), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_begin_unpacking_within(channel, 99, 0, &message), MAD_ERR_INVAL);

    send_one(&block);
    message = mad_begin_unpacking(channel);
    CHECK_EQ(mad_message_peer(message), 0);
    CHECK_STATUS(mad_unpack(message, NULL, 5, SENT), MAD_ERR_INVAL);
    CHECK_STATUS(mad_end_unpacking(message), MAD_ERR_INVAL);
    send_one(&block);
    CHECK_STATUS(mad_end_unpacking(mad_begin_unpacking(channel)), MAD_ERR_MISMATCH); /* a block was not unpacked */
    send_one(&block);
    message = mad_begin_unpacking_from(channel, 0);
    CHECK_STATUS(mad_unpack(message, text, 32, SENT), MAD_ERR_MISMATCH);
    CHECK_OK(mad_end_unpacking_request(message, &r));
    CHECK_STATUS(mad_request_wait(&r, MAD_FOREVER), MAD_ERR_MISMATCH);
    CHECK_OK(mad_event_next(session, &event)); /* both messages were complete at the sender */
    CHECK_STATUS(event.status, MAD_ERR_MISMATCH);
    while (mad_event_next(session, &event) == MAD_OK)
        continue;
}

static void requests(void)
{
    mad_request_t *r, *rs[2] = {NULL, NULL};
    int which = -1;
    CHECK_STATUS(mad_message_receive(channel, MAD_ANY_SOURCE, &block, 1, &r), MAD_ERR_INVAL);
    CHECK_STATUS(mad_message_receive(channel, 0, &block, -1, &r), MAD_ERR_INVAL);
    CHECK_OK(mad_message_receive(channel, 0, &block, 1, &r));
    CHECK_STATUS(mad_request_wait(&r, 0), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_request_test(&r), MAD_ERR_AGAIN);
    rs[1] = r;
    CHECK_STATUS(mad_request_wait_any(rs, 2, 1000, &which), MAD_ERR_TIMEOUT);
    CHECK_OK(mad_request_cancel(r));
    CHECK_STATUS(mad_request_wait_any(rs, 2, MAD_FOREVER, &which), MAD_ERR_CANCELLED);
    CHECK_EQ(which, 1);
    CHECK(!rs[1]);
    CHECK_STATUS(mad_request_wait_any(rs, 2, 0, &which), MAD_ERR_INVAL);
    CHECK_STATUS(mad_request_test(rs), MAD_ERR_INVAL);
    CHECK_STATUS(mad_request_wait(rs, 0), MAD_ERR_INVAL);

    CHECK_OK(mad_message_receive(channel, 0, &block, 1, &r));
    send_one(&block);
    while (mad_progress(session))
        continue;
    CHECK_STATUS(mad_request_cancel(r), MAD_ERR_TOO_LATE);
    CHECK_OK(mad_request_wait(&r, MAD_FOREVER));
}

static _Atomic(int) handled, called;
static char got[sizeof big];

static mad_handled_t on_message(mad_channel_t *c, mad_message_t *message, void *arg)
{
    CHECK(c == channel && arg == &handled);
    CHECK_OK(mad_unpack_try(message, got, sizeof got, SENT));
    handled++;
    return MAD_CONSUMED;
}

static void on_complete(void *arg, mad_status_t status)
{
    CHECK(arg == &called);
    CHECK_STATUS(status, MAD_OK);
    called++;
}

/* Wait until the count is reached, by progress in this thread or in the progress thread, which may lack a processor;
 * the limit of test_begin ends the wait. */
static bool progressed(_Atomic(int) *count, int want)
{
    while (*count < want) {
        mad_progress(session);
        sched_yield();
    }
    return *count == want;
}

static void handlers(void)
{
    mad_message_t *message;
    mad_request_t *r;
    memset(big, 'b', sizeof big);
    send_one(&big_block);
    CHECK_OK(mad_channel_handler_set(channel, on_message, &handled));
    CHECK(progressed(&handled, 1)); /* the message that arrived before the handler was set */
    CHECK(got[0] == 'b' && got[sizeof got - 1] == 'b');
    CHECK_OK(mad_message_send(channel, 0, &big_block, 1, &r));
    mad_request_detach(r, on_complete, &called);
    CHECK(progressed(&handled, 2));
    CHECK(progressed(&called, 1));
    CHECK_OK(mad_message_send(channel, 0, &big_block, 1, &r));
    mad_request_detach(r, NULL, NULL);
    CHECK(progressed(&handled, 3));
    CHECK_OK(mad_channel_handler_set(channel, NULL, NULL));
    CHECK_STATUS(mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 0, &message), MAD_ERR_AGAIN);
}

static void ending(void)
{
    mad_message_t *message;
    mad_request_t *r;
    CHECK_OK(mad_message_receive(channel, 0, &block, 1, &r));
    CHECK_STATUS(mad_request_wait(&r, -77), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_begin_unpacking_within(channel, 0, -77, &message), MAD_ERR_TIMEOUT);
    mad_channel_close(channel);
    CHECK_STATUS(mad_request_wait(&r, MAD_FOREVER), MAD_ERR_CLOSED);
    CHECK_STATUS(mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, MAD_FOREVER, &message), MAD_ERR_CLOSED);
    CHECK_STATUS(mad_end_unpacking(mad_begin_unpacking(channel)), MAD_ERR_CLOSED);
    CHECK_STATUS(mad_message_receive(channel, 0, &block, 1, &r), MAD_ERR_CLOSED);
    CHECK_STATUS(mad_message_send(channel, 0, &block, 1, &r), MAD_ERR_CLOSED);
    CHECK_OK(mad_channel_open(session, "other", &channel));
    CHECK_OK(mad_message_receive(channel, 0, &block, 1, &r));
    mad_exit(session);
    CHECK_STATUS(mad_request_wait(&r, 0), MAD_ERR_CLOSED);
    mad_exit(NULL);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"start", starting},  {"channels", channels},   {"peers", peers},       {"no descriptors", no_descriptors},
                 {"packing", packing}, {"unpacking", unpacking}, {"requests", requests}, {"handlers", handlers},
                 {"end", ending}};
    int all = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int before = test_failures;
        test_begin(parts[i].name, 20);
        parts[i].run();
        test_end();
        printf("%s statements of %s\n", test_failures == before ? "ok" : "not ok", parts[i].name);
        all += test_failures - before;
    }
    return all != 0;
}

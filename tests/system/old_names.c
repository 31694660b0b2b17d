/* SPDX-License-Identifier: BSD-3-Clause */
/* A program written for 0.1: all names of 0.1 that have changed, and none of the new ones.  A process sends to itself. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <marcel.h>

#include <errno.h>
#include <poll.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

/* Structures that programs allocate keep their size and layout (doc/api-abi-policy.md): no figure here changes within a
 * soname. */
#ifdef __LP64__
#define PIN(type, size, alignment) \
    _Static_assert(sizeof(type) == (size) && _Alignof(type) == (alignment), #type " is part of the ABI")
PIN(mad_block_t, 24, 8);
PIN(mad_event_t, 240, 4);
PIN(mad_adapter_info_t, 56, 8);
PIN(mad_arrival_t, 88, 8);
PIN(marcel_attr_t, 96, 8);
PIN(marcel_mutexattr_t, 4, 4);
PIN(marcel_mutex_t, 48, 8);
PIN(marcel_cond_t, 48, 8);
PIN(marcel_sem_t, 32, 8);
PIN(marcel_rwlock_t, 40, 8);
PIN(marcel_barrier_t, 40, 8);
PIN(marcel_completion_t, 32, 8);
PIN(marcel_once_t, 4, 4);
PIN(marcel_cleanup_t, 32, 8);
_Static_assert(offsetof(mad_block_t, len) == 8 && offsetof(mad_block_t, send_mode) == 16 &&
                   offsetof(mad_block_t, receive_mode) == 20,
               "fields of a block");
_Static_assert(offsetof(mad_arrival_t, peer) == 8 && offsetof(mad_arrival_t, base) == 16 &&
                   offsetof(mad_arrival_t, len) == 24 && offsetof(mad_arrival_t, inside) == 32,
               "fields of an arrival");
#endif

static mad_session_t *session;
static mad_channel_t *channel;
static int called; /* number of calls of on_message and on_completion */

static struct mad_connection *text_begin(const char *text)
{
    mad_connection_t *cnx = mad_begin_packing(channel, 0);
    CHECK_OK(mad_pack(cnx, text, strlen(text) + 1, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS));
    return cnx;
}

static void text_send(const char *text)
{
    CHECK_OK(mad_end_packing(text_begin(text)));
}

/* Receive a text in place, and end its message. */
static void text_check(mad_connection_t *cnx, const char *text)
{
    const void *base = NULL;
    size_t len = 0;
    CHECK_OK(mad_borrow(cnx, &base, &len));
    CHECK(base && len == strlen(text) + 1 && !memcmp(base, text, len));
    CHECK_OK(mad_end_unpacking(cnx));
}

static void messages_open_within_a_time(void)
{
    mad_connection_t *cnx = NULL;
    mad_status_t status;
    CHECK_STATUS(mad_begin_unpacking_timed(channel, MAD_ANY_SOURCE, MAD_GLANCE, &cnx), MAD_ERR_AGAIN);
    CHECK_STATUS(mad_begin_unpacking_timed(channel, MAD_ANY_SOURCE, 1000000, &cnx), MAD_ERR_TIMEOUT);
    text_send("glance");
    while ((status = mad_begin_unpacking_timed(channel, MAD_ANY_SOURCE, MAD_GLANCE, &cnx)) == MAD_ERR_AGAIN)
        mad_progress(session);
    if (CHECK_OK(status))
        text_check(cnx, "glance");
}

static void messages_flush_and_drop(void)
{
    mad_connection_t *cnx = text_begin("flushed"), *in = NULL;
    char text[8] = "";
    CHECK_OK(mad_flush_packing(cnx));
    if (CHECK_OK(mad_begin_unpacking_timed(channel, 0, 20 * SECOND, &in))) {
        mad_status_t status;
        while ((status = mad_try_unpack(in, text, sizeof text, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS)) == MAD_ERR_AGAIN)
            mad_progress(session);
        CHECK_OK(status);
        CHECK(!strcmp(text, "flushed"));
    }
    CHECK_OK(mad_end_packing(cnx));
    if (in)
        mad_drop_unpacking(in);
}

static void messages_go_in_one_call(void)
{
    char out[] = "one call", in[sizeof out] = "";
    mad_block_t from = {out, sizeof out, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_block_t to = {in, sizeof in, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request = NULL;
    CHECK_OK(mad_post_unpacking(channel, 0, &to, 1, &request));
    CHECK_OK(mad_send_blocks(channel, 0, &from, 1, NULL));
    CHECK_OK(mad_request_wait(&request, 20 * SECOND));
    CHECK(!strcmp(in, out));
}

static void arrivals_are_glanced_at(void)
{
    char text[] = "arrival";
    struct iovec piece = {text, sizeof text};
    mad_arrival_t arrival;
    if (mad_send_now(channel, 0, &piece, 1) != MAD_OK)
        text_send(text);
    while (!mad_glance(channel, &arrival, 1))
        mad_progress(session);
    CHECK_EQ(arrival.peer, 0);
    if (arrival.base)
        CHECK(arrival.len == sizeof text && !memcmp(arrival.base, text, sizeof text));
    if (arrival.cnx)
        mad_drop_unpacking(arrival.cnx);
}

static mad_handled_t on_message(mad_channel_t *from, mad_connection_t *cnx, void *arg)
{
    CHECK(from == channel && cnx && arg == &called);
    called++;
    return MAD_CONSUMED;
}

static void on_completion(void *arg, mad_status_t status)
{
    CHECK_OK(status);
    CHECK(arg == &called);
    called++;
}

static void handlers_and_callbacks_run(void)
{
    mad_block_t block = {&called, sizeof called, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request = NULL;
    CHECK_OK(mad_channel_set_handler(channel, on_message, &called));
    if (CHECK_OK(mad_send_blocks(channel, 0, &block, 1, &request)))
        mad_request_callback(request, on_completion, &called);
    mad_hand_over();
    while (called < 2)
        mad_progress(session);
    CHECK_OK(mad_channel_set_handler(channel, NULL, NULL));
}

static void *blocking_run(void *arg)
{
    struct timespec past = {0, 0};
    CHECK(marcel_worker() >= 0);
    CHECK_EQ(marcel_poll_fd(*(int *)arg, POLLIN, CLOCK_MONOTONIC, &past), -ETIMEDOUT);
    CHECK_EQ(marcel_enter_blocking(), 0);
    CHECK_EQ(marcel_leave_blocking(), 0);
    return NULL;
}

static void threads_block(void)
{
    int ends[2];
    marcel_t thread;
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(marcel_worker(), -1);
    CHECK_EQ(marcel_create(&thread, NULL, blocking_run, &ends[0]), 0);
    CHECK(marcel_workers() > 0);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(marcel_fini(), 0);
}

int main(void)
{
    test_begin("names of 0.1", 120);
    mad_progress_thread(0);
    if (CHECK_OK(mad_open("0123456789abcdef", 16, &session)) && CHECK_OK(mad_channel_open(session, "old", &channel))) {
        messages_open_within_a_time();
        messages_flush_and_drop();
        messages_go_in_one_call();
        arrivals_are_glanced_at();
        handlers_and_callbacks_run();
    }
    mad_exit(session);
    threads_block();
    test_end();
    return test_failures != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/wire/handle.c, core/api/callbacks.c, the deadlines of core/connect/hello_deadline.c, and the sizes on
 * which the fast path and the memory per peer depend. */
#include "unit.h"

#include "base/clock.h"
#include "core/connect/connect_gate.h"
#include "core/core.h"
#include "core/send/rdv_send.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int seen;

static void see(void *object, void *arg)
{
    (void)object;
    (void)arg;
    seen++;
}

START_TEST(handle_added_is_found_until_deleted)
{
    struct madi_handles *h = madi_handles_new();
    int objects[100];
    uint32_t handle[100];
    ck_assert_ptr_nonnull(h);
    ck_assert_ptr_null(madi_handle_get(h, 0));
    ck_assert_ptr_null(madi_handle_get(h, UINT32_MAX));
    for (int i = 0; i < 100; i++) {
        handle[i] = madi_handle_add(h, &objects[i]);
        ck_assert_uint_ne(handle[i], 0);
    }
    for (int i = 0; i < 100; i++)
        ck_assert_ptr_eq(madi_handle_get(h, handle[i]), &objects[i]);
    madi_handles_each(h, see, NULL);
    ck_assert_int_eq(seen, 100);
    for (int i = 0; i < 100; i += 2)
        madi_handle_del(h, handle[i]);
    for (int i = 0; i < 100; i++)
        ck_assert_ptr_eq(madi_handle_get(h, handle[i]), i % 2 ? &objects[i] : NULL);
    madi_handle_del(h, handle[0]); /* a second deletion has no effect */
    seen = 0;
    madi_handles_each(h, see, NULL);
    ck_assert_int_eq(seen, 50);
    madi_handles_free(h);
    madi_handles_free(NULL);
}
END_TEST

/* A deleted handle stays invalid when its entry is used again. */
START_TEST(handle_deleted_stays_invalid)
{
    struct madi_handles *h = madi_handles_new();
    int object;
    uint32_t first = madi_handle_add(h, &object), handle = first;
    for (int i = 0; i < 4094; i++) {
        madi_handle_del(h, handle);
        handle = madi_handle_add(h, &object);
        ck_assert_uint_ne(handle, 0);
        ck_assert_uint_ne(handle, first);
        ck_assert_ptr_null(madi_handle_get(h, first));
    }
    madi_handles_free(h);
}
END_TEST

/* The table has a limit, and reports an error when it is full. */
START_TEST(handle_table_reports_its_limit)
{
    struct madi_handles *h = madi_handles_new();
    int object;
    uint32_t n = 0, last = 0, handle;
    while ((handle = madi_handle_add(h, &object))) {
        last = handle;
        n++;
        if (n > 1u << 21)
            break;
    }
    ck_assert_uint_ge(n, 1u << 16);
    ck_assert_uint_lt(n, 1u << 21);
    ck_assert_ptr_eq(madi_handle_get(h, last), &object);
    madi_handle_del(h, last);
    ck_assert_uint_ne(madi_handle_add(h, &object), 0);
    madi_handles_free(h);
}
END_TEST

/* A peer without a connection costs little memory: this entry, an index slot (4 bytes, half of them empty), and its
 * address. */
START_TEST(peer_costs_little_memory)
{
    ck_assert_uint_le(sizeof(madi_peer_t), 32);
    ck_assert_uint_eq(offsetof(struct mad_message, kind), 0);
    ck_assert_uint_eq(offsetof(madi_tx_t, base), 0);
    ck_assert_uint_eq(offsetof(madi_rx_msg_t, base), 0);
    ck_assert_uint_eq(offsetof(madi_rdv_send_t, op), 0);
    ck_assert_uint_eq(offsetof(madi_rx_msg_t, data) % 16, 0);
}
END_TEST

/* Send messages of small blocks to this process itself.  The sums of the blocks' lengths range around the size of the
 * memory in which blocks are staged. */
START_TEST(message_around_stage_size_arrives)
{
    enum { STEP = 40 };
    unsigned char sent[MADI_STAGE + 200], got[MADI_STAGE + 200];
    mad_session_t *session;
    mad_channel_t *channel;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(session, "stage", &channel), MAD_OK);
    for (size_t sum = MADI_STAGE - 150; sum < sizeof sent; sum++) {
        mad_message_t *message = mad_begin_packing(channel, 0);
        for (size_t i = 0; i < sum; i++)
            sent[i] = (unsigned char)(i * 7 + sum);
        for (size_t at = 0; at < sum; at += STEP)
            mad_pack(message, sent + at, sum - at < STEP ? sum - at : STEP, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        ck_assert_int_eq(mad_end_packing(message), MAD_OK);
        message = mad_begin_unpacking(channel);
        for (size_t at = 0; at < sum; at += STEP)
            mad_unpack(message, got + at, sum - at < STEP ? sum - at : STEP, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        ck_assert_int_eq(mad_end_unpacking(message), MAD_OK);
        ck_assert_mem_eq(got, sent, sum);
    }
    mad_exit(session);
}
END_TEST

/* ---- Failed requests are reported after the messages that arrived before ---------------------------------------- */

static char order[16];
static mad_session_t *handling;
static mad_channel_t *messages;
static mad_request_t *failing;

/* Each message causes another one, so that messages never end. */
static mad_handled_t note_message(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    (void)message;
    (void)arg;
    order[strlen(order)] = 'm';
    if (strlen(order) < 12)
        ck_assert_int_eq(mad_end_packing(mad_begin_packing(channel, 0)), MAD_OK);
    mad_progress(handling);
    return MAD_CONSUMED;
}

static void note_failure(void *arg, mad_status_t status)
{
    (void)arg;
    ck_assert_int_eq(status, MAD_ERR_CANCELLED);
    order[strlen(order)] = 'f';
}

/* While this handler runs no other one is called, so messages and a failed request wait at the same time. */
static mad_handled_t both_at_once(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    (void)channel;
    (void)message;
    (void)arg;
    ck_assert_int_eq(mad_channel_handler_set(messages, note_message, NULL), MAD_OK);
    mad_request_detach(failing, note_failure, NULL);
    return MAD_CONSUMED;
}

START_TEST(failure_follows_received_messages)
{
    mad_channel_t *trigger;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &handling), MAD_OK);
    ck_assert_int_eq(mad_channel_open(handling, "messages", &messages), MAD_OK);
    ck_assert_int_eq(mad_channel_open(handling, "trigger", &trigger), MAD_OK);
    ck_assert_int_eq(mad_channel_handler_set(trigger, both_at_once, NULL), MAD_OK);
    ck_assert_int_eq(mad_message_receive(trigger, 0, NULL, 0, &failing), MAD_OK);
    ck_assert_int_eq(mad_request_cancel(failing), MAD_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(mad_end_packing(mad_begin_packing(messages, 0)), MAD_OK);
    ck_assert_int_eq(mad_end_packing(mad_begin_packing(trigger, 0)), MAD_OK);
    while (strlen(order) < 12)
        mad_progress(handling);
    ck_assert_ptr_nonnull(strchr(order, 'f'));
    ck_assert_int_ge(strchr(order, 'f') - order, 3); /* the failure is reported after the messages that arrived before */
    ck_assert_int_le(strchr(order, 'f') - order, 5); /* but before most of the later messages */
    mad_exit(handling);
}
END_TEST

/* The time in which the process did not run, such as a minute of suspension, does not count against a handshake's
 * deadline.  The time between regular checks does. */
START_TEST(standstill_does_not_count_for_deadlines)
{
    const int64_t second = INT64_C(1000000000);
    mad_session_t *s;
    struct madi_connect_gate connect = {0};
    madi_gate_t gate = {.state = MADI_GATE_CONNECTING, .connect = &connect}, *others;
    int64_t now, until;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &s), MAD_OK);
    madi_lock(&s->lock);
    now = madi_now();
    gate.session = s;
    connect.deadline = now + 10 * second;
    gate.next = others = s->gates;
    s->gates = &gate;
    madi_hello_expire(s, now);
    ck_assert_int_le(madi_hello_deadline(s), now + second); /* a lack of checks is noticed soon */
    now += 60 * second;
    madi_hello_expire(s, now);
    ck_assert_int_eq(atomic_load(&gate.state), MADI_GATE_CONNECTING);
    ck_assert_int_gt(connect.deadline, now + 9 * second);
    until = connect.deadline;
    for (; now < until - second; now += second / 4)
        madi_hello_expire(s, now);
    ck_assert_int_eq(connect.deadline, until);
    s->gates = others;
    madi_unlock(&s->lock);
    mad_exit(s);
}
END_TEST

/* This side has lost a tie of simultaneous connects, but the peer's connection never arrives, so this side connects
 * again. */
START_TEST(connection_that_never_comes_is_tried_again)
{
    mad_session_t *s;
    madi_gate_t *gate;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &s), MAD_OK);
    madi_lock(&s->lock);
    ck_assert_int_eq(madi_peer_gate(s, 0, 0, &gate), MAD_OK);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_IDLE);
    madi_hello_no_deadline(gate);
    atomic_store(&gate->state, MADI_GATE_CONNECTING); /* the state after losing the tie */
    gate->connect->redial_at = madi_now() + 1000000000;
    madi_hello_expire(s, madi_now());
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_CONNECTING);
    ck_assert(madi_hello_deadline(s) <= gate->connect->redial_at);
    gate->connect->redial_at = madi_now() - 1;
    madi_hello_expire(s, madi_now());
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_UP);
    madi_unlock(&s->lock);
    mad_exit(s);
}
END_TEST

static void knocked(madi_watch_t *watch, uint32_t events)
{
    eventfd_t n;
    (void)events;
    eventfd_read(watch->fd, &n);
}

/* Like the test above, but no handshake is open, and the program computes: the accept thread connects. */
START_TEST(connection_is_tried_again_while_computing)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    mad_session_t *s;
    madi_gate_t *gate;
    madi_watch_t knock = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = knocked};
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &s), MAD_OK);
    madi_lock(&s->lock);
    ck_assert_int_eq(madi_peer_gate(s, 0, 0, &gate), MAD_OK);
    madi_hello_no_deadline(gate);
    atomic_store(&gate->state, MADI_GATE_CONNECTING);
    gate->connect->redial_at = madi_now() + 50000000;
    ck_assert_int_eq(madi_watch_add_rare(s, &knock, EPOLLIN), MAD_OK);
    madi_unlock(&s->lock);
    ck_assert_int_eq(eventfd_write(knock.fd, 1), 0); /* stands for the peer's message that the peer's own connection wins */
    for (int i = 0; i < 20000 && atomic_load(&gate->state) != MADI_GATE_UP; i++)
        nanosleep(&moment, NULL);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_UP);
    madi_lock(&s->lock);
    madi_watch_del(s, &knock);
    madi_unlock(&s->lock);
    close(knock.fd);
    mad_exit(s);
}
END_TEST

Suite *core_suite(void)
{
    const TTest *tests[] = {
        handle_added_is_found_until_deleted,
        handle_deleted_stays_invalid,
        handle_table_reports_its_limit,
        peer_costs_little_memory,
        message_around_stage_size_arrives,
        failure_follows_received_messages,
        standstill_does_not_count_for_deadlines,
        connection_that_never_comes_is_tried_again,
        connection_is_tried_again_while_computing,
    };
    return SUITE_OF("core", tests);
}

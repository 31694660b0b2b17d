/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/api/cond.c, and of the progress thread for a program that sleeps outside the library.  The tests count how
 * often the thread slept, polled at its clock tick, and led.  No test measures time. */
#include "unit.h"

#include "core/core.h"
#include "marcel/sanitizer.h"

#include <madeleine/runtime.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static mad_session_t *session;
static mad_channel_t *channel;
static mad_cond_t *cond;
static _Atomic(int) come;

static mad_handled_t counts(mad_channel_t *c, mad_message_t *message, void *arg)
{
    (void)c, (void)message, (void)arg;
    atomic_fetch_add(&come, 1);
    mad_cond_wake(cond);
    return MAD_CONSUMED;
}

static int enough(void *arg)
{
    return atomic_load(&come) >= *(int *)arg;
}

static void send_one(void)
{
    ck_assert_int_eq(mad_end_packing(mad_begin_packing(channel, 0)), MAD_OK);
}

static marceli_state_t state_now(void)
{
    marceli_state_t state;
    marceli_state_get(&state);
    return state;
}

/* Open a session of one process that sends to itself and handles each message. */
static void begin(void)
{
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    cond = mad_cond_new();
    ck_assert_ptr_nonnull(cond);
    ck_assert_int_eq(mad_channel_open(session, "cond", &channel), MAD_OK);
    ck_assert_int_eq(mad_channel_handler_set(channel, counts, NULL), MAD_OK);
}

static void end(void)
{
    mad_exit(session);
    mad_cond_free(cond);
}

/* ---- In the library --------------------------------------------------------------------------------------------- */

/* A waiting thread itself makes progress and runs the handler, without the progress thread. */
START_TEST(waiting_thread_runs_the_handler)
{
    int n = 1;
    mad_progress_thread_set(0);
    begin();
    ck_assert_int_eq(mad_cond_wait(cond, enough, &n, 0), MAD_ERR_TIMEOUT);
    ck_assert_int_eq(mad_cond_wait(cond, enough, &n, 1000000), MAD_ERR_TIMEOUT);
    for (; n <= 100; n++) {
        send_one();
        ck_assert_int_eq(mad_cond_wait(cond, enough, &n, MAD_FOREVER), MAD_OK);
        ck_assert_int_eq(mad_cond_wait(cond, enough, &n, 0), MAD_OK);
    }
    end();
}
END_TEST

static void *waits(void *arg)
{
    return mad_cond_wait(cond, enough, arg, MAD_FOREVER) ? NULL : arg;
}

/* Several threads wait, each for its own condition: one leads, and the others sleep behind it. */
START_TEST(many_threads_wait_for_one_condition)
{
    enum { N = 5 };
    pthread_t threads[N];
    int wanted[N];
    void *good;
    begin();
    for (int i = 0; i < N; i++) {
        wanted[i] = 3 * i + 1;
        pthread_create(&threads[i], NULL, waits, &wanted[i]);
    }
    while (state_now().inside < N)
        sched_yield();
    for (int i = 0; i < N; i++) {
        while (atomic_load(&come) < wanted[i])
            if (i % 2) {
                int before = atomic_load(&come);
                send_one();
                while (atomic_load(&come) == before)
                    sched_yield();
            } else { /* another thread makes the condition true without a message */
                atomic_fetch_add(&come, 1);
                mad_cond_wake(cond);
            }
        ck_assert_int_eq(pthread_join(threads[i], &good), 0);
        ck_assert_ptr_nonnull(good);
    }
    end();
}
END_TEST

/* Like enough, but counts its calls: a wait that found its condition true at once has made one call. */
static int calls;

static int enough_counted(void *arg)
{
    calls++;
    return enough(arg);
}

/* A thread that waits repeatedly leads each time, and the progress thread does not take over in between.  The progress
 * thread may lead for a thread that does not wait, because the kernel ran that thread too late. */
START_TEST(waiting_thread_leads_each_time)
{
    enum { N = 20000 };
    uint64_t before = 0;
    int late = 0;
    begin();
    for (int n = 1; n < N; n++) {
        if (n == 100)
            before = state_now().thread_terms;
        calls = 0;
        send_one();
        ck_assert_int_eq(mad_cond_wait(cond, enough_counted, &n, MAD_FOREVER), MAD_OK);
        late += n >= 100 && calls == 1;
    }
    ck_assert_uint_lt(state_now().thread_terms - before, N / 20 + late);
    end();
}
END_TEST

/* ---- Outside the library ---------------------------------------------------------------------------------------- */

/* A program polls, and then calls mad_progress_hand_over: the progress thread leads at once, not only after its next clock
 * ticks. */
START_TEST(hand_over_makes_the_thread_lead_at_once)
{
    enum { N = 200 };
    uint64_t ticks = 0; /* those between a hand-over and the thread's lead, in the second half of the hand-overs */
    marceli_state_t before;
    begin();
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 200; k++)
            mad_progress(session);
        before = state_now();
        mad_progress_hand_over();
        while (state_now().thread_terms == before.thread_terms)
            sched_yield();
        if (i >= N / 2)
            ticks += state_now().ticks - before.ticks;
    }
    ck_assert_uint_lt(ticks, N / 4);
    end();
}
END_TEST

#define LONG ((size_t)16 << 20) /* bytes: 64 strides */

static sem_t over;

static void is_over(void *arg, mad_status_t status)
{
    *(mad_status_t *)arg = status;
    sem_post(&over);
}

typedef struct side {
    mad_session_t *session;
    mad_channel_t *channel;
    mad_peer_t peer;
    mad_block_t block; /* block that is sent or received */
    int fd;            /* a socket to the other process */
} side_t;

static void side_open(side_t *s)
{
    unsigned char theirs[4096];
    const void *mine;
    size_t len;
    ssize_t n;
    ck_assert_int_eq(mad_open("a key for the cond test", 23, &s->session), MAD_OK);
    ck_assert_int_eq(mad_channel_open(s->session, "long", &s->channel), MAD_OK);
    ck_assert_int_eq(mad_address(s->session, &mine, &len), MAD_OK);
    ck_assert_int_eq(write(s->fd, mine, len), len);
    n = read(s->fd, theirs, sizeof theirs);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(mad_peer_add(s->session, theirs, (size_t)n, &s->peer), MAD_OK);
    s->block = (mad_block_t){calloc(1, LONG), LONG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    ck_assert_ptr_nonnull(s->block.base);
}

static void side_close(side_t *s)
{
    mad_exit(s->session);
    free(s->block.base);
    close(s->fd);
}

/* The other process: send n messages, each after a byte from the socket, and wait in the library meanwhile. */
static int sends(side_t *s, int n)
{
    char byte;
    side_open(s);
    for (; n > 0 && read(s->fd, &byte, 1) == 1; n--) {
        mad_request_t *request;
        ck_assert_int_eq(mad_message_send(s->channel, s->peer, &s->block, 1, &request), MAD_OK);
        ck_assert_int_eq(mad_request_wait(&request, MAD_FOREVER), MAD_OK);
    }
    side_close(s);
    return n;
}

/* Sleep outside the library until the message has arrived, so that the progress thread does all the work. */
static void receive_outside(side_t *s)
{
    mad_status_t received = MAD_ERR_AGAIN;
    mad_request_t *request;
    ck_assert_int_eq(mad_message_receive(s->channel, s->peer, &s->block, 1, &request), MAD_OK);
    mad_request_detach(request, is_over, &received);
    ck_assert_int_eq(write(s->fd, "", 1), 1);
    mad_progress_hand_over();
    sem_wait(&over);
    ck_assert_int_eq(received, MAD_OK);
}

/* A large block is read in strides from the sender's memory.  No message arrives between two strides, so the progress
 * thread must not sleep there. */
START_TEST(thread_does_not_sleep_between_strides)
{
    enum { N = 5 };
    side_t s = {0};
    int fds[2], status;
    uint64_t before = 0, read_by_strides = 0;
    pid_t child;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    sem_init(&over, 0, 0);
    setenv("MAD_DRIVERS", "shm", 1);
    child = fork();
    ck_assert_int_ge(child, 0);
    s.fd = fds[!child];
    close(fds[child != 0]);
    if (!child)
        _exit(sends(&s, N));
    side_open(&s);
    for (int i = 0; i < N; i++) {
        receive_outside(&s);
        if (!i) /* the connection is up */
            before = state_now().sleeps;
    }
    before = state_now().sleeps - before;
    for (const madi_gate_t *g = s.session->gates; g; g = g->next)
        read_by_strides += madi_recv_counts(g)->pulled_bytes;
    side_close(&s);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    if (read_by_strides == N * LONG) /* otherwise the kernel forbids reading the peer's memory */
        ck_assert_uint_lt(before, 16 * (N - 1));
    sem_destroy(&over);
}
END_TEST

Suite *cond_suite(void)
{
    const TTest *const tests[] = {
        waiting_thread_runs_the_handler,         many_threads_wait_for_one_condition,   waiting_thread_leads_each_time,
        hand_over_makes_the_thread_lead_at_once, thread_does_not_sleep_between_strides,
    };
    return SUITE_OF("cond", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests make progress while the program does not call the library: it computes, or all its threads sleep. */
#include "conform.h"

#define AWAY (4 << 20)

static void came(void *arg, mad_status_t status)
{
    *(_Atomic(int) *)arg = status == MAD_OK ? 1 : -1;
}

/* Wait for the flag for about 5 s without calling the library, as a computing program would. */
static void away_until(_Atomic(int) *flag)
{
    for (int i = 0; i < 5000 && !*flag; i++)
        marcel_nanosleep(&(struct timespec){0, MS}, NULL);
    CHECK_EQ(*flag, 1);
}

static const size_t away_lens[] = {AWAY, 8};

static void away_send(env_t *e)
{
    static _Atomic(int) flag;
    static unsigned char buf[AWAY];
    mad_block_t block = {buf, AWAY, CHEAPER, LAZY};
    mad_request_t *r = NULL;
    flag = 0;
    fill(buf, AWAY, 3);
    CHECK_OK(mad_message_send(e->ch[0], e->peer, &block, 1, &r));
    mad_request_detach(r, came, &flag);
    away_until(&flag); /* the receiver calls the library, and this side does not */
    for (size_t i = 0; i < COUNT(away_lens); i++) {
        await_peer(e);
        block.len = away_lens[i];
        CHECK_OK(mad_message_send(e->ch[0], e->peer, &block, 1, NULL)); /* this side calls the library, and the receiver
                                                                        * does not */
        await_peer(e);
    }
}

static void away_receive(env_t *e)
{
    static _Atomic(int) flag;
    static unsigned char buf[AWAY];
    mad_block_t block = {buf, AWAY, CHEAPER, LAZY};
    mad_request_t *r = NULL;
    mad_message_t *message = mad_begin_unpacking(e->ch[0]);
    CHECK_OK(mad_unpack(message, buf, AWAY, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    HOLDS(buf, AWAY, 3);
    for (size_t i = 0; i < COUNT(away_lens); i++) {
        memset(buf, 0, AWAY);
        flag = 0;
        block.len = away_lens[i];
        CHECK_OK(mad_message_receive(e->ch[0], e->peer, &block, 1, &r));
        mad_request_detach(r, came, &flag);
        signal_peer(e);
        away_until(&flag);
        HOLDS(buf, away_lens[i], 3);
        signal_peer(e);
    }
}

/* Callback: post the semaphore for which all threads wait, 20 s at most.  No thread computes or calls the library. */
static void post(void *arg, mad_status_t status)
{
    CHECK_OK(status);
    marcel_sem_post(arg);
}

static void posted_within(marcel_sem_t *sem)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 20;
    CHECK_EQ(marcel_sem_clockwait(sem, CLOCK_MONOTONIC, &until), 0);
}

static void asleep(env_t *e, bool sends)
{
    static unsigned char buf[AWAY];
    mad_block_t block = {buf, AWAY, CHEAPER, LAZY};
    mad_request_t *r = NULL;
    marcel_sem_t sem;
    marcel_sem_init(&sem, 0, 0);
    if (sends)
        fill(buf, AWAY, 4);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(sends ? mad_message_send(e->ch[0], e->peer, &block, 1, &r)
                       : mad_message_receive(e->ch[0], e->peer, &block, 1, &r));
        mad_request_detach(r, post, &sem);
        posted_within(&sem);
    }
    if (!sends)
        HOLDS(buf, AWAY, 4);
    marcel_sem_destroy(&sem);
}

static void asleep_send(env_t *e)
{
    asleep(e, true);
}

static void asleep_receive(env_t *e)
{
    asleep(e, false);
}

const test_t away_tests[] = {{.name = "requests_progress", .procs = 2, .send = away_send, .receive = away_receive},
                             {.name = "requests_asleep", .procs = 2, .send = asleep_send, .receive = asleep_receive},
                             {.name = NULL}};

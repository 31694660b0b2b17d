/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions without a launcher, in one process: mad_open, mad_peer_add, and keys. */
#include "conform.h"

typedef struct pair {
    mad_session_t *s[2];
    mad_channel_t *ch[2];
    mad_peer_t peer[2];
    _Atomic(int) stop;
} pair_t;

static bool pair_open(pair_t *p, const char *key_a, const char *key_b)
{
    for (int i = 0; i < 2; i++) {
        const char *key = i ? key_b : key_a;
        if (!CHECK_OK(mad_open(key, strlen(key), &p->s[i])))
            return false;
        CHECK_EQ(mad_rank(p->s[i]), 0);
        CHECK_EQ(mad_size(p->s[i]), 1);
        if (!CHECK_OK(mad_channel_open(p->s[i], "pair", &p->ch[i])))
            return false;
    }
    return true;
}

static bool pair_add(pair_t *p, int from, int to)
{
    const void *address = NULL;
    size_t len = 0;
    mad_peer_t again = -1;
    CHECK_OK(mad_address(p->s[to], &address, &len));
    if (!CHECK_OK(mad_peer_add(p->s[from], address, len, &p->peer[from])))
        return false;
    CHECK_OK(mad_peer_add(p->s[from], address, len, &again));
    CHECK_EQ(again, p->peer[from]);
    return true;
}

static env_t side(pair_t *p, int i)
{
    return (env_t){.session = p->s[i], .peer = p->peer[i], .me = i, .size = 1, .ch = {p->ch[i]}};
}

static void *echo(void *arg)
{
    pair_t *p = arg;
    env_t e = side(p, 1);
    mad_message_t *message = mad_begin_unpacking(p->ch[1]); /* from a peer that this session has not added */
    CHECK_OK(mad_end_unpacking(message));
    for (uint32_t i = 0; i < 50; i++) {
        receive_numbered(&e, p->ch[1], i, i * i * 100);
        send_numbered(&e, p->ch[1], i, i * i * 100);
    }
    return NULL;
}

static void two_talk(env_t *unused)
{
    pair_t p = {.stop = 0};
    thread_t thread;
    env_t e;
    (void)unused;
    if (pair_open(&p, "a secret of 16 and more", "a secret of 16 and more") && pair_add(&p, 0, 1) && pair_add(&p, 1, 0)) {
        e = side(&p, 0);
        thread_start(&thread, echo, &p);
        CHECK_OK(mad_message_send(p.ch[0], p.peer[0], NULL, 0, NULL));
        for (uint32_t i = 0; i < 50; i++) {
            send_numbered(&e, p.ch[0], i, i * i * 100);
            receive_numbered(&e, p.ch[0], i, i * i * 100);
        }
        thread_join(&thread);
        check_driver(p.s[0], p.peer[0], getenv("MAD_PREFER"));
    }
    mad_exit(p.s[0]);
    mad_exit(p.s[1]);
}

static void *turn(void *arg)
{
    pair_t *p = arg;
    while (!p->stop)
        mad_progress(p->s[1]);
    return NULL;
}

static void wrong_key(env_t *unused)
{
    pair_t p = {.stop = 0};
    thread_t thread;
    int value = 5;
    mad_request_t *r = NULL;
    mad_message_t *message = NULL;
    int64_t start;
    (void)unused;
    if (pair_open(&p, "a secret of 16 and more", "another secret of 16 and") && pair_add(&p, 0, 1)) {
        start = now_ns();
        thread_start(&thread, turn, &p);
        CHECK_OK(mad_message_send(p.ch[0], p.peer[0], &(mad_block_t){&value, sizeof value, SAFER, LAZY}, 1, &r));
        CHECK_STATUS(mad_request_wait(&r, 15 * SECOND), MAD_ERR_AUTH);
        CHECK_MSG(now_ns() - start < 15 * SECOND, "it took %lld ms", (long long)((now_ns() - start) / MS));
        CHECK_STATUS(mad_begin_unpacking_within(p.ch[1], MAD_ANY_SOURCE, 0, &message), MAD_ERR_AGAIN);
        message = mad_begin_packing(p.ch[0], p.peer[0]); /* later messages fail immediately */
        mad_pack(message, &value, sizeof value, SAFER, LAZY);
        CHECK_STATUS(mad_end_packing(message), MAD_ERR_AUTH);
        p.stop = 1;
        thread_join(&thread);
    }
    mad_exit(p.s[0]);
    mad_exit(p.s[1]);
}

enum { LAST = 1 << 20 };

static void *receive_last(void *arg)
{
    env_t e = side(arg, 1);
    receive_numbered(&e, e.ch[0], 7, LAST);
    return NULL;
}

/* A request is pending when its session is closed, and the receiver has not given a buffer yet: the message is
 * delivered. */
static void last_request(env_t *unused)
{
    pair_t p = {.stop = 0};
    uint32_t number = 7;
    void *body = get(LAST);
    mad_block_t blocks[] = {{&number, sizeof number, CHEAPER, EXPRESS}, {body, LAST, CHEAPER, LAZY}};
    mad_request_t *request;
    thread_t thread;
    (void)unused;
    fill(body, LAST, number);
    if (pair_open(&p, "a secret of 16 and more", "a secret of 16 and more") && pair_add(&p, 0, 1) && pair_add(&p, 1, 0) &&
        CHECK_OK(mad_message_send(p.ch[0], p.peer[0], blocks, 2, &request))) {
        thread_start(&thread, receive_last, &p);
        mad_exit(p.s[0]);
        thread_join(&thread);
        p.s[0] = NULL;
    }
    mad_exit(p.s[0]);
    mad_exit(p.s[1]);
    free(body);
}

static void *talk_again(void *arg)
{
    for (int i = 0; i < 5; i++)
        two_talk(arg);
    return NULL;
}

/* Sessions are opened and closed while other sessions of the process exchange messages. */
static void beside(env_t *e)
{
    thread_t thread;
    thread_start(&thread, talk_again, e);
    talk_again(e);
    thread_join(&thread);
}

static void bad_arguments(env_t *unused)
{
    mad_session_t *s = NULL;
    mad_peer_t peer = -7;
    unsigned char junk[200];
    const void *address = NULL;
    size_t len = 0;
    (void)unused;
    CHECK_MSG(mad_open("short", 5, &s) != MAD_OK && !s, "a key of 5 bytes was taken");
    if (!CHECK_OK(mad_open("0123456789abcdef", 16, &s)))
        return;
    memset(junk, 0xa5, sizeof junk);
    CHECK_MSG(mad_peer_add(s, junk, sizeof junk, &peer) != MAD_OK, "junk was taken for an address");
    CHECK_MSG(mad_peer_add(s, junk, 0, &peer) != MAD_OK, "nothing was taken for an address");
    CHECK_OK(mad_address(s, &address, &len));
    for (size_t n = 0; n < len; n++) {
        void *copy = get(n);
        memcpy(copy, address, n);
        CHECK_MSG(mad_peer_add(s, copy, n, &peer) != MAD_OK, "%zu of %zu bytes of an address were taken", n, len);
        free(copy);
    }
    CHECK_EQ(peer, -7);
    mad_exit(s);
    mad_exit(NULL);
}

const test_t session_tests[] = {{.name = "sessions_talk", .procs = 1, .all = two_talk},
                                {.name = "sessions_wrong_key", .procs = 1, .all = wrong_key},
                                {.name = "sessions_last_request", .procs = 1, .all = last_request},
                                {.name = "sessions_beside", .procs = 1, .all = beside},
                                {.name = "sessions_bad_arguments", .procs = 1, .all = bad_arguments},
                                {.name = NULL}};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests what a lost link leaves behind.  Usage: cut DRIVER SEED ROUNDS.  In each round, sessions of this process
 * exchange messages in both directions over the driver, until both sides fail.  The driver fault cuts the link of two
 * of them after some packets.
 *
 *   - The messages received are a prefix of those sent, complete and in order.
 *   - Then every operation on the lost peer fails with MAD_ERR_PEER, at both ends: begin, end, requests, posted receives.
 *   - A third session, whose link is not cut, still works.
 *   - No call hangs, and neither does closing the session. */
#define TEST_MAIN
#include "../harness/test.h"

#include <madeleine.h>
#include <pthread.h>

#define SECOND INT64_C(1000000000)
#define LENGTH_MAX 200000
#define MESSAGES 100000 /* more messages than are sent before a cut */

typedef struct side {
    mad_session_t *session;
    mad_channel_t *data, *quiet;
    mad_peer_t peer;
    uint32_t salt;  /* seed of the contents that this side sends */
    uint32_t begun; /* number of messages that this side has begun */
    uint32_t received;
    struct side *other;
} side_t;

static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Mostly short lengths.  Some are long enough for a rendezvous. */
static size_t length_of(uint32_t salt, uint32_t i)
{
    uint32_t r = mix(salt + i * 7919);
    return r % 8 < 5 ? r / 8 % 300 : r % 8 < 7 ? r / 8 % 12000 : r / 8 % LENGTH_MAX;
}

static void fill(unsigned char *p, size_t len, uint32_t salt, uint32_t i)
{
    for (size_t k = 0; k < len; k++)
        p[k] = (unsigned char)((k * 131 + salt + i * 17) >> 3);
}

static bool same(const unsigned char *p, size_t len, uint32_t salt, uint32_t i)
{
    for (size_t k = 0; k < len; k++)
        if (p[k] != (unsigned char)((k * 131 + salt + i * 17) >> 3))
            return false;
    return true;
}

static mad_status_t send_one(side_t *s, uint32_t i, unsigned char *body, size_t len)
{
    mad_block_t blocks[2] = {{&i, sizeof i, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {body, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    mad_request_t *request = NULL;
    mad_message_t *message;
    mad_status_t status;
    if (i % 3 == 0)
        return mad_message_send(s->data, s->peer, blocks, 2, NULL);
    message = mad_begin_packing(s->data, s->peer);
    mad_pack(message, &i, sizeof i, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    if (i % 5 == 0)
        mad_message_flush(message);
    mad_pack(message, body, len, i % 4 ? MAD_SEND_CHEAPER : MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    if (i % 3 == 1)
        return mad_end_packing(message);
    status = mad_end_packing_request(message, &request);
    return status ? status : mad_request_wait(&request, MAD_FOREVER);
}

static void *sender(void *arg)
{
    side_t *s = arg;
    unsigned char *body = malloc(LENGTH_MAX);
    mad_status_t status = MAD_OK;
    while (!status && s->begun < MESSAGES) {
        uint32_t i = s->begun++;
        size_t len = length_of(s->salt, i);
        fill(body, len, s->salt, i);
        status = send_one(s, i, body, len);
    }
    CHECK_STATUS(status, MAD_ERR_PEER);
    CHECK_STATUS(send_one(s, 1, body, 10), MAD_ERR_PEER);
    free(body);
    return NULL;
}

/* Receive the next message.  MAD_OK: it is complete, and the next in order. */
static mad_status_t receive_one(side_t *s, unsigned char *body)
{
    uint32_t salt = s->other->salt, i = s->received, got = ~i;
    mad_message_t *message = mad_begin_unpacking_from(s->data, s->peer);
    mad_status_t status = mad_unpack(message, &got, sizeof got, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    size_t len = length_of(salt, i);
    if (status)
        return mad_end_unpacking(message);
    CHECK_EQ(got, i);
    mad_unpack(message, body, len, i % 3 && i % 4 == 0 ? MAD_SEND_SAFER : MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    if (!status)
        CHECK_MSG(same(body, len, salt, i), "message %u of %zu bytes is damaged", i, len);
    return status;
}

static void *receiver(void *arg)
{
    side_t *s = arg;
    unsigned char *body = malloc(LENGTH_MAX);
    mad_status_t status;
    while ((status = receive_one(s, body)) == MAD_OK)
        s->received++;
    CHECK_STATUS(status, MAD_ERR_PEER);
    CHECK_STATUS(receive_one(s, body), MAD_ERR_PEER);
    free(body);
    return NULL;
}

/* Operations that began before the cut, and that the peer never completes. */
typedef struct idle {
    mad_message_t *message;
    mad_request_t *posted;
    char in[64], out[64];
} idle_t;

static void idle_begin(side_t *s, idle_t *w)
{
    mad_block_t block = {w->in, sizeof w->in, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    memset(w, 0, sizeof *w);
    CHECK_OK(mad_message_receive(s->quiet, s->peer, &block, 1, &w->posted));
    w->message = mad_begin_packing(s->quiet, s->peer);
    mad_pack(w->message, w->out, sizeof w->out, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
}

static void idle_end(idle_t *w)
{
    CHECK_STATUS(mad_request_wait(&w->posted, 10 * SECOND), MAD_ERR_PEER);
    CHECK_STATUS(mad_end_packing(w->message), MAD_ERR_PEER);
}

static bool open_side(side_t *s, uint32_t salt, uint32_t cut)
{
    char number[16];
    memset(s, 0, sizeof *s);
    snprintf(number, sizeof number, "%u", cut);
    setenv("MAD_FAULT_CUT", number, 1);
    snprintf(number, sizeof number, "port%u", salt);
    setenv("MAD_ETH_INTERFACES", number, 1); /* tests/harness/ethernet.sh; each session needs an interface of its own */
    s->salt = salt;
    return CHECK_OK(mad_open("a key for the cut test", 22, &s->session)) &&
           CHECK_OK(mad_channel_open(s->session, "data", &s->data)) &&
           CHECK_OK(mad_channel_open(s->session, "quiet", &s->quiet));
}

static bool know(side_t *a, side_t *b)
{
    const void *address;
    size_t len;
    a->other = b;
    return CHECK_OK(mad_address(b->session, &address, &len)) && CHECK_OK(mad_peer_add(a->session, address, len, &a->peer));
}

/* Session c exchanges messages with a, which has not added c as a peer.  The link between a and c must be unaffected. */
static void *third(void *arg)
{
    side_t *c = arg;
    for (uint32_t i = 0, got; i < 20; i++) {
        mad_message_t *message = mad_begin_packing(c->quiet, c->peer);
        mad_pack(message, &i, sizeof i, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        CHECK_OK(mad_end_packing(message));
        got = ~i;
        message = mad_begin_unpacking(c->quiet);
        mad_unpack(message, &got, sizeof got, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        CHECK_OK(mad_end_unpacking(message));
        CHECK_EQ(got, i);
    }
    return NULL;
}

static void third_answer(side_t *a)
{
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t got = ~i;
        mad_message_t *message = NULL;
        mad_peer_t from;
        if (!CHECK_OK(mad_begin_unpacking_within(a->quiet, MAD_ANY_SOURCE, 20 * SECOND, &message)))
            return;
        from = mad_message_peer(message);
        mad_unpack(message, &got, sizeof got, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        CHECK_OK(mad_end_unpacking(message));
        message = mad_begin_packing(a->quiet, from);
        mad_pack(message, &got, sizeof got, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        CHECK_OK(mad_end_packing(message));
    }
}

static void round_of(uint32_t seed, bool self)
{
    side_t a, b, c;
    side_t *peer = self ? &a : &b;
    pthread_t threads[4], extra;
    idle_t waits[2];
    uint32_t cut = 1 + mix(seed) % (mix(seed + 1) % 2 ? 40 : 1500);
    bool third_is = !self && open_side(&c, 3, 0);
    int sides = self ? 1 : 2, n = 0;

    if (!open_side(&a, 1, self ? cut : 0) || (!self && !open_side(&b, 2, cut)) || !know(&a, peer) ||
        (!self && !know(&b, &a)) || (third_is && !know(&c, &a)))
        return;
    for (int i = 0; i < sides; i++)
        idle_begin(i ? &b : &a, &waits[i]);
    for (int i = 0; i < sides; i++) {
        pthread_create(&threads[n++], NULL, receiver, i ? &b : &a);
        pthread_create(&threads[n++], NULL, sender, i ? &b : &a);
    }
    while (n)
        pthread_join(threads[--n], NULL);
    for (int i = 0; i < sides; i++)
        idle_end(&waits[i]);
    CHECK_MSG(a.received <= peer->begun && peer->received <= a.begun, "more was received than sent");
    if (third_is) {
        pthread_create(&extra, NULL, third, &c);
        third_answer(&a);
        while (pthread_tryjoin_np(extra, NULL)) /* the last answer may still wait to be sent */
            mad_progress(a.session);
        mad_exit(c.session);
    }
    mad_exit(a.session);
    if (!self)
        mad_exit(b.session);
    printf("cut after %u packets: %u of %u and %u of %u messages\n", cut, peer->received, a.begun, a.received, peer->begun);
}

int main(int argc, char **argv)
{
    uint32_t seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 1;
    int rounds = argc > 3 ? atoi(argv[3]) : 1;
    char text[32];
    if (argc < 2) {
        fprintf(stderr, "cut DRIVER [SEED [ROUNDS]]\n");
        return 2;
    }
    setenv("MAD_DRIVERS", "fault", 1);
    setenv("MAD_FAULT", argv[1], 1);
    setenv("MAD_LOG", "error", 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < rounds && !test_failures; i++, seed++) {
        snprintf(text, sizeof text, "%u", seed + 1);
        setenv("MAD_FAULT_SEED", text, 1);
        snprintf(text, sizeof text, "cut %s %u", argv[1], seed);
        test_begin(text, 60);
        round_of(seed, !strcmp(argv[1], "self"));
        test_end();
    }
    return test_failures ? 1 : 0;
}

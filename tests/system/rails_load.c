/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks that exchange long and short blocks over all networks that they have in common, and check every byte.
 *
 *   rails_load stream COUNT BYTES      rank 0 sends COUNT blocks; rank 1 prints how many MB/s have arrived
 *   rails_load load SECONDS BYTES [FILE]   both ranks send messages of up to BYTES, in order, in both directions at the
 *                                      same time, for SECONDS or until there is a FILE
 *
 * At the end each rank prints what mad_peer_explain says of the other one, and all events. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PENDING 4 /* messages that a sender has in flight */

typedef struct head {
    uint64_t number, len, last;
} head_t;

typedef struct load {
    mad_channel_t *channel;
    mad_peer_t peer;
    double seconds;
    const char *file; /* ends the load; NULL: only the seconds do */
    uint64_t max, messages, bytes;
} load_t;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fill(uint64_t *words, uint64_t len, uint64_t number)
{
    for (uint64_t i = 0; i < (len + 7) / 8; i++)
        words[i] = number * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static void check(const uint64_t *words, uint64_t len, uint64_t number)
{
    for (uint64_t i = 0; i < len / 8; i++)
        CHECK(words[i] == number * UINT64_C(0x9e3779b97f4a7c15) + i);
}

/* ---- stream --------------------------------------------------------------------------------------------------- */

static void stream_send(mad_channel_t *channel, mad_peer_t peer, long count, uint64_t len)
{
    uint64_t *words[2] = {malloc(len + 8), malloc(len + 8)};
    mad_request_t *request[2] = {NULL, NULL};
    for (long i = 0; i < count; i++) {
        mad_block_t block = {words[i % 2], len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        CHECK(words[i % 2]);
        if (request[i % 2])
            CHECK_OK(mad_request_wait(&request[i % 2], -1));
        fill(words[i % 2], len, (uint64_t)i);
        CHECK_OK(mad_message_send(channel, peer, &block, 1, &request[i % 2]));
    }
    for (int i = 0; i < 2; i++) {
        if (request[i])
            CHECK_OK(mad_request_wait(&request[i], -1));
        free(words[i]);
    }
}

/* Receive the blocks, of which the next one is always posted.  The first block is not timed, since the rails are connected
 * during that time. */
static void stream_receive(mad_channel_t *channel, mad_peer_t peer, long count, uint64_t len)
{
    uint64_t *words[2] = {malloc(len + 8), malloc(len + 8)};
    mad_request_t *request[2];
    double begin = 0, end = 0;
    for (long i = 0; i <= count; i++) {
        mad_block_t block = {words[i % 2], len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        CHECK(words[i % 2]);
        if (i < count)
            CHECK_OK(mad_message_receive(channel, peer, &block, 1, &request[i % 2]));
        if (!i)
            continue;
        if (!CHECK_OK(mad_request_wait(&request[(i - 1) % 2], -1)))
            exit(1);
        end = now();
        if (i == 1)
            begin = end;
        check(words[(i - 1) % 2], len, (uint64_t)i - 1);
    }
    printf("stream: %.1f MB/s\n", (double)(count - 1) * (double)len / (end - begin) / 1e6);
    free(words[0]);
    free(words[1]);
}

/* ---- load ----------------------------------------------------------------------------------------------------- */

/* Every fourth message is long.  The others are short. */
static uint64_t length_of(uint64_t number, uint64_t max)
{
    uint64_t hash = (number + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    return number % 4 ? hash % 3000 : hash % max;
}

static void *load_send(void *arg)
{
    load_t *l = arg;
    uint64_t *words[PENDING];
    head_t head[PENDING];
    mad_request_t *request[PENDING] = {NULL};
    double end = now() + l->seconds;
    uint64_t n = 0;
    int failures = test_failures;
    bool last = false;
    for (int i = 0; i < PENDING; i++)
        CHECK((words[i] = malloc(l->max + 8)));
    for (; !last && test_failures == failures; n++) {
        int at = (int)(n % PENDING);
        mad_block_t block[2];
        if (request[at])
            CHECK_OK(mad_request_wait(&request[at], -1));
        last = now() >= end || (l->file && !access(l->file, F_OK));
        head[at] = (head_t){n, length_of(n, l->max), last};
        fill(words[at], head[at].len, n);
        block[0] = (mad_block_t){&head[at], sizeof *head, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS};
        block[1] = (mad_block_t){words[at], head[at].len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        CHECK_OK(mad_message_send(l->channel, l->peer, block, 2, &request[at]));
    }
    for (int i = 0; i < PENDING; i++) {
        if (request[i])
            CHECK_OK(mad_request_wait(&request[i], -1));
        free(words[i]);
    }
    return NULL;
}

static void *load_receive(void *arg)
{
    load_t *l = arg;
    uint64_t *words = malloc(l->max + 8);
    head_t head = {0};
    CHECK(words);
    while (!head.last) {
        mad_message_t *m = mad_begin_unpacking_from(l->channel, l->peer);
        if (!CHECK(m) || !CHECK_OK(mad_unpack(m, &head, sizeof head, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS)) ||
            !CHECK_EQ(head.number, l->messages) || !CHECK(head.len <= l->max) ||
            !CHECK_OK(mad_unpack(m, words, head.len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER)) ||
            !CHECK_OK(mad_end_unpacking(m)))
            exit(1);
        check(words, head.len, head.number);
        l->messages++;
        l->bytes += head.len;
    }
    free(words);
    return NULL;
}

static void load(mad_channel_t *channel, mad_peer_t peer, char **argv)
{
    load_t l = {channel, peer, atof(argv[2]), argv[4], strtoull(argv[3], NULL, 10), 0, 0};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, load_send, &l));
    load_receive(&l);
    CHECK(!pthread_join(thread, NULL));
    printf("load: %llu messages with %llu bytes, each once, in order\n", (unsigned long long)l.messages,
           (unsigned long long)l.bytes);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_event_t event;
    char text[4096];
    mad_peer_t peer;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK_OK(mad_init(&argc, &argv, &session));
    CHECK(argc >= 4 && mad_size(session) == 2);
    peer = 1 - mad_rank(session);
    CHECK_OK(mad_channel_open(session, "rails", &channel));
    CHECK_OK(mad_barrier(session));
    printf("begins\n");
    if (!strcmp(argv[1], "load"))
        load(channel, peer, argv);
    else if (mad_rank(session) == 0)
        stream_send(channel, peer, atol(argv[2]), strtoull(argv[3], NULL, 10));
    else
        stream_receive(channel, peer, atol(argv[2]), strtoull(argv[3], NULL, 10));
    CHECK_OK(mad_peer_explain(session, peer, text, sizeof text));
    printf("explained: %s\n", text);
    CHECK_OK(mad_barrier(session));
    sprintf(test_who, "rank %d: ", 1 - peer);
    while (mad_event_next(session, &event) == MAD_OK)
        printf("event: %s\n", event.text);
    mad_exit(session);
    return test_failures != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that are opened and closed again and again: channel_churn [ROUNDS], two ranks (or one, with itself).
 *
 *   same     in each round both open the same new name, send each other a message, and close: more names than there are
 *            numbers.  In some rounds a message is left unopened (a short one, or a body that waits for its grant).
 *   again    one name, opened and closed by each side independently of the other; every message is received
 *   one      a channel that one side opens and sends on, and that the other side opens only later (two ranks; a single rank
 *            closes both sides at once, and the messages that have arrived by then are dropped)
 *   finish   a long block, for which the receiver asks late, has left when the sender's close returns
 *
 * Memory must not grow between the end of the first tenth of the rounds and the end. */
#define TEST_MAIN
#include "harness/test.h"

#include <inttypes.h>
#include <madeleine.h>

#define SECOND INT64_C(1000000000)
#define BIG 100000

static mad_session_t *session;
static mad_channel_t *control;
static int peer;
static unsigned char big[BIG];

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void put(mad_channel_t *channel, uint64_t number)
{
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, &number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_packing(message));
}

static void get(mad_channel_t *channel, uint64_t number)
{
    uint64_t got = ~UINT64_C(0);
    mad_message_t *message;
    if (!CHECK_OK(mad_begin_unpacking_within(channel, peer, 20 * SECOND, &message)))
        exit(1);
    mad_unpack(message, &got, sizeof got, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_unpacking(message));
    if (!CHECK_EQ(got, number))
        exit(1);
}

static void meet(uint64_t number)
{
    put(control, number);
    get(control, number);
}

/* Close a channel with an unopened message, in flight or arrived.  The sender's request must still end. */
static void leave(mad_channel_t *channel, uint64_t round, mad_request_t **request)
{
    mad_block_t block = {big, round % 20 ? 16 : BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    CHECK_OK(mad_message_send(channel, peer, &block, 1, request));
}

static void test_same(uint64_t rounds)
{
    mad_request_t *request = NULL;
    long early = 0, late;
    for (uint64_t i = 0; i < rounds; i++) {
        mad_channel_t *channel;
        char name[32];
        snprintf(name, sizeof name, "churn %" PRIu64, i);
        if (!CHECK_OK(mad_channel_open(session, name, &channel)))
            return;
        put(channel, i);
        get(channel, i);
        if (request && !CHECK_OK(mad_request_wait(&request, 20 * SECOND)))
            return;
        if (i % 10 == 3)
            leave(channel, i / 10, &request);
        mad_channel_close(channel);
        if (i == rounds / 10)
            early = resident_kib();
    }
    meet(rounds);
    if (request)
        CHECK_OK(mad_request_wait(&request, 20 * SECOND));
    late = resident_kib();
#ifdef __SANITIZE_ADDRESS__
    late = early; /* the sanitizer's allocator keeps freed memory */
#endif
    CHECK_MSG(late < early + 2048, "%ld KiB after a tenth, %ld at the end", early, late);
}

/* The messages of one name arrive in order, whichever side has the name open at any time. */
static void test_again(uint64_t rounds)
{
    mad_channel_t *channel;
    for (uint64_t i = 0; i < rounds; i++) {
        int n = (int)(i % 7);
        if (!CHECK_OK(mad_channel_open(session, "again", &channel)))
            return;
        for (int k = 0; k < n; k++)
            put(channel, i * 10 + (uint64_t)k);
        for (int k = 0; k < n; k++)
            get(channel, i * 10 + (uint64_t)k);
        mad_channel_close(channel);
    }
    meet(rounds + 1);
}

static void test_one(uint64_t rounds)
{
    mad_channel_t *channel;
    char name[32];
    for (uint64_t i = 0; i < rounds && mad_size(session) == 2; i++) {
        snprintf(name, sizeof name, "one %" PRIu64, i);
        if (mad_rank(session) == 0) { /* open, send, close: the message waits until the other process opens the name */
            CHECK_OK(mad_channel_open(session, name, &channel));
            put(channel, i);
            mad_channel_close(channel);
            put(control, i);
        }
        if (mad_rank(session)) {
            get(control, i);
            CHECK_OK(mad_channel_open(session, name, &channel));
            get(channel, i);
            mad_channel_close(channel);
        }
    }
    meet(rounds + 2);
}

static void get_late(mad_channel_t *channel)
{
    static unsigned char got[BIG];
    mad_message_t *message;
    usleep(20000);
    if (!CHECK_OK(mad_begin_unpacking_within(channel, peer, 20 * SECOND, &message)))
        exit(1);
    mad_unpack(message, got, BIG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_OK(mad_end_unpacking(message));
    CHECK(!memcmp(got, big, BIG));
}

static void test_finish(uint64_t rounds)
{
    mad_channel_t *channel;
    mad_request_t *request;
    for (uint64_t i = 0; i < rounds && mad_size(session) == 2; i++) {
        CHECK_OK(mad_channel_open(session, "finish", &channel));
        meet(i); /* the message is dropped if the receiver closes the name before the sender */
        if (mad_rank(session) == 0)
            leave(channel, 0, &request);
        else
            get_late(channel);
        mad_channel_close(channel);
        if (mad_rank(session) == 0)
            CHECK_OK(mad_request_test(&request));
    }
    meet(rounds + 3);
}

static bool wanted(int argc, char **argv, const char *name)
{
    return argc < 3 || !strcmp(argv[2], name);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(uint64_t rounds);
        uint64_t part;
    } tests[] = {{"same", test_same, 1}, {"again", test_again, 10}, {"one", test_one, 10}, {"finish", test_finish, 10000}};
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (unsigned char)i;
    if (!CHECK_OK(mad_init(NULL, NULL, &session)))
        return 1;
    peer = mad_size(session) == 1 ? 0 : !mad_rank(session);
    snprintf(test_who, sizeof test_who, "rank %d: ", mad_rank(session));
    CHECK_OK(mad_channel_open(session, "control", &control));
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (!wanted(argc, argv, tests[i].name))
            continue;
        test_begin(tests[i].name, 170);
        tests[i].run(rounds / tests[i].part);
        test_end();
        if (mad_rank(session) == 0)
            printf("%s %s, %" PRIu64 " times\n", test_failures ? "not ok" : "ok", tests[i].name, rounds / tests[i].part);
        fflush(stdout);
    }
    mad_exit(session);
    return test_failures ? 1 : 0;
}

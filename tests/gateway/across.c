/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that communicates across clusters.
 *
 *   across all [ROUNDS [BYTES]]   every rank sends to every other one, and checks what it receives.  Rank 0 prints how long
 *                                 the start and the rounds took, and how much memory the processes use (PSS: shared memory
 *                                 is divided among its users).
 *   across routes                 one round of the above; then every rank prints through which gateways it reaches the
 *                                 others.
 *   across ask COUNT              for each of COUNT lines of its input, rank 0 sends a request to rank 1, and prints the
 *                                 result; all other ranks stay until the end.
 *   across stream BYTES           rank 0 sends one message after the other to rank 1, which checks each, until the input of
 *                                 rank 0 has a byte.  Rank 0 prints the number of each message that it begins, and at the
 *                                 end how long the longest one took. */
#include <madeleine.h>

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000000)
#define PATIENCE (120 * SECOND)

static mad_session_t *session;
static mad_channel_t *channel;
static int rank, size;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what, mad_peer_t peer, mad_status_t status)
{
    char why[600] = "";
    if (peer >= 0)
        mad_peer_explain(session, peer, why, sizeof why);
    printf("rank %d: %s %d: %s; %s\n", rank, what, peer, mad_status_text(status), why);
    fflush(stdout);
    exit(1);
}

static mad_status_t receive(mad_peer_t from, void *bytes, size_t len, mad_peer_t *peer)
{
    mad_message_t *in;
    mad_status_t status = mad_begin_unpacking_within(channel, from, PATIENCE, &in);
    if (status)
        return status;
    *peer = mad_message_peer(in);
    mad_unpack(in, bytes, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(in);
}

static mad_status_t bytes_send(mad_peer_t to, void *bytes, size_t len)
{
    mad_block_t block = {bytes, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request = NULL;
    mad_status_t status = mad_message_send(channel, to, &block, 1, &request);
    return status ? status : mad_request_wait(&request, PATIENCE);
}

/* ---- All to all ---------------------------------------------------------------------------------------------------- */

typedef struct message {
    int from, to, round;
    bool last;
    long pss_kib;
} message_t;

static long pss_kib(void)
{
    char line[200];
    long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static void fill(unsigned char *bytes, size_t len, int from, int to, int round)
{
    message_t m = {from, to, round, false, round ? pss_kib() : 0};
    memcpy(bytes, &m, sizeof m);
    for (size_t i = sizeof m; i < len; i++)
        bytes[i] = (unsigned char)(from * 7 + to * 3 + round + (int)i);
}

static message_t check(const unsigned char *bytes, size_t len, mad_peer_t peer, int round)
{
    message_t m;
    memcpy(&m, bytes, sizeof m);
    for (size_t i = sizeof m; i < len; i++)
        if (bytes[i] != (unsigned char)(m.from * 7 + m.to * 3 + m.round + (int)i))
            fail("what came is not what was sent by", peer, MAD_ERR_PROTOCOL);
    if (m.from != peer || m.to != rank || m.round != round)
        fail("a message of another round, or of somebody else, by", peer, MAD_ERR_PROTOCOL);
    return m;
}

static void one_round(int round, unsigned char *out, size_t len, long *most, double *sum)
{
    mad_request_t **request = calloc((size_t)size, sizeof(mad_request_t *));
    unsigned char *in = malloc(len);
    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size;
        unsigned char *bytes = out + (size_t)i * len;
        mad_block_t block = {bytes, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        mad_status_t status;
        fill(bytes, len, rank, to, round);
        status = mad_message_send(channel, to, &block, 1, &request[i]);
        if (status)
            fail("send to", to, status);
    }
    *sum = *most = pss_kib();
    for (int i = 1; i < size; i++) {
        /* Receive from named peers in turn: from any source, messages of the next round could precede those of a slow
         * peer. */
        mad_peer_t from = (rank + size - i) % size, peer;
        mad_status_t status = receive(from, in, len, &peer);
        message_t m;
        if (status)
            fail("receive from", from, status);
        m = check(in, len, peer, round);
        *sum += (double)m.pss_kib;
        if (m.pss_kib > *most)
            *most = m.pss_kib;
    }
    for (int i = 1; i < size; i++) {
        mad_status_t status = mad_request_wait(&request[i], PATIENCE);
        if (status)
            fail("sent to", (rank + i) % size, status);
    }
    free(in);
    free(request);
}

static void all(int rounds, size_t len, double begun)
{
    unsigned char *out = malloc((size_t)size * len);
    double started, first = 0, sum = 0;
    long most = 0;
    mad_barrier(session);
    started = now();
    for (int round = 0; round < rounds; round++) {
        one_round(round, out, len, &most, &sum);
        if (round == 0)
            first = now();
    }
    mad_barrier(session);
    if (rank == 0)
        printf("all-to-all: %d ranks, %d rounds of %zu bytes: start %.2f s, first round %.2f s, all %.2f s; "
               "memory of a process: %.2f MiB, most %.2f MiB\n",
               size, rounds, len, started - begun, first - started, now() - started, sum / size / 1024, (double)most / 1024);
    free(out);
}

static void routes(void)
{
    char text[200];
    for (int peer = 0; peer < size; peer++)
        if (peer != rank && mad_channel_route(channel, peer, text, sizeof text) == MAD_OK && text[0])
            printf("route: %s\n", text);
    mad_barrier(session); /* a process that has left sends no message */
}

/* ---- Asking -------------------------------------------------------------------------------------------------------- */

static void ask(int count)
{
    char line[80], text[80];
    mad_peer_t peer;
    mad_status_t status;
    for (int i = 0; i < count && rank < 2; i++) {
        memset(text, 0, sizeof text);
        if (rank == 0) {
            while (poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 0) == 0) /* gateways may connect meanwhile */
                mad_progress(session);
            if (!fgets(line, sizeof line, stdin))
                exit(2);
            snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
            status = bytes_send(1, text, sizeof text);
            if (!status)
                status = receive(1, text, sizeof text, &peer);
            printf("%s: %s\n", status ? "failed" : "answered", status ? mad_status_text(status) : text);
            fflush(stdout);
            if (status)
                exit(3);
        } else {
            /* Receive from any source, because rank 0 connects, and only when it sends its request. */
            status = receive(MAD_ANY_SOURCE, text, sizeof text, &peer);
            if (!status)
                status = bytes_send(peer, text, sizeof text);
            if (status) {
                printf("rank 1: %s\n", mad_status_text(status));
                fflush(stdout);
                exit(3);
            }
        }
    }
}

/* ---- One after the other ------------------------------------------------------------------------------------------- */

static void send_stream(unsigned char *bytes, size_t len)
{
    double longest = 0;
    int count = 0;
    mad_peer_t peer;
    mad_status_t status;
    for (bool last = false; !last; count++) {
        double began;
        last = poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 0) != 0;
        fill(bytes, len, 0, 1, count);
        ((message_t *)(void *)bytes)->last = last;
        printf("sending %d\n", count);
        fflush(stdout);
        began = now();
        status = bytes_send(1, bytes, len);
        if (status)
            fail("send to", 1, status);
        if (now() - began > longest)
            longest = now() - began;
    }
    status = receive(1, bytes, len, &peer);
    if (status)
        fail("receive from", 1, status);
    printf("%d messages came once, in order, and whole; the longest took %.0f ms\n", check(bytes, len, 1, count).round,
           longest * 1000);
}

static void receive_stream(unsigned char *bytes, size_t len)
{
    mad_peer_t peer;
    mad_status_t status;
    int count = 0;
    for (bool last = false; !last; count++) {
        status = receive(MAD_ANY_SOURCE, bytes, len, &peer);
        if (status)
            fail("receive from", 0, status);
        last = check(bytes, len, peer, count).last;
    }
    fill(bytes, len, 1, 0, count);
    status = bytes_send(0, bytes, len);
    if (status)
        fail("send to", 0, status);
}

static void stream(size_t len)
{
    unsigned char *bytes = malloc(len);
    if (rank == 0)
        send_stream(bytes, len);
    else if (rank == 1)
        receive_stream(bytes, len);
    free(bytes);
}

/* Let the other ranks wait in the library, because they may forward. */
static void others(void)
{
    char end = 0;
    mad_peer_t peer;
    mad_status_t status = MAD_OK;
    for (int i = 2; i < size && rank == 0 && !status; i++)
        status = bytes_send(i, &end, 1);
    if (rank > 1)
        status = receive(MAD_ANY_SOURCE, &end, 1, &peer); /* from any source, as on rank 1, which connects to no rank */
    if (status)
        fail("the end", 0, status);
}

/* Return the length of a message: at least that of the header, which names its sender. */
static size_t bytes_of(const char *text)
{
    size_t len = (size_t)atol(text);
    return len > sizeof(message_t) ? len : sizeof(message_t);
}

int main(int argc, char **argv)
{
    double begun = now();
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (!status)
        status = mad_channel_open(session, "across", &channel);
    if (status || argc < 2) {
        fprintf(stderr, "across: %s\n", mad_status_text(status));
        return 1;
    }
    setvbuf(stdin, NULL, _IONBF, 0); /* unbuffered, so that poll sees all of the input */
    rank = mad_rank(session);
    size = mad_size(session);
    if (!strcmp(argv[1], "all"))
        all(argc > 2 ? atoi(argv[2]) : 2, bytes_of(argc > 3 ? argv[3] : "1000"), begun);
    else if (!strcmp(argv[1], "stream"))
        stream(bytes_of(argc > 2 ? argv[2] : "1048576"));
    else if (!strcmp(argv[1], "routes"))
        all(1, 1000, begun), routes();
    else
        ask(argc > 2 ? atoi(argv[2]) : 1), others();
    mad_exit(session);
    return 0;
}

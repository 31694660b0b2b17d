/* SPDX-License-Identifier: BSD-3-Clause */
/* flow SECONDS: each rank of the first half sends messages to one rank of the second half, as fast as it can.  The senders
 * begin when rank 0's input has a line, or ends, and send for SECONDS.  Each receiver prints how many MB/s arrived, counted
 * from its first message on. */
#include <madeleine.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LENGTH ((size_t)256 << 10)
#define UNDER_WAY 4
#define SECOND INT64_C(1000000000)
#define PATIENCE (60 * SECOND)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void failed(int rank, const char *what, mad_status_t status)
{
    printf("rank %d: %s: %s\n", rank, what, mad_status_text(status));
    exit(1);
}

static void flow_send(mad_channel_t *channel, int rank, int to, double seconds)
{
    char *bytes[UNDER_WAY];
    mad_request_t *request[UNDER_WAY] = {NULL};
    double end = now() + seconds;
    bool last = false;
    for (int i = 0; i < UNDER_WAY; i++)
        bytes[i] = calloc(1, LENGTH);
    for (int i = 0; !last; i = (i + 1) % UNDER_WAY) {
        mad_block_t block = {bytes[i], LENGTH, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        mad_status_t status = request[i] ? mad_request_wait(&request[i], PATIENCE) : MAD_OK;
        last = now() >= end;
        bytes[i][0] = last;
        if (!status)
            status = mad_message_send(channel, to, &block, 1, &request[i]);
        if (status)
            failed(rank, "send", status);
    }
    for (int i = 0; i < UNDER_WAY; i++) {
        if (request[i])
            mad_request_wait(&request[i], PATIENCE);
        free(bytes[i]);
    }
}

static void flow_receive(mad_channel_t *channel, int rank, int from)
{
    char *bytes = calloc(1, LENGTH);
    double begin = 0, sum = 0;
    while (!bytes[0]) {
        mad_message_t *in;
        mad_status_t status = mad_begin_unpacking_within(channel, from, PATIENCE, &in);
        if (status)
            failed(rank, "receive", status);
        mad_unpack(in, bytes, LENGTH, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        status = mad_end_unpacking(in);
        if (status)
            failed(rank, "receive", status);
        if (!begin)
            begin = now();
        else
            sum += (double)LENGTH;
    }
    printf("rank %d: %.2f MB/s\n", rank, sum / 1e6 / (now() - begin));
    free(bytes);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    int rank, half;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (argc != 2 || status || mad_channel_open(session, "flow", &channel)) {
        printf("flow: %s\n", mad_status_text(status));
        return 1;
    }
    rank = mad_rank(session);
    half = mad_size(session) / 2;
    if (!rank)
        getchar();
    mad_barrier(session);
    if (rank < half)
        flow_send(channel, rank, rank + half, atof(argv[1]));
    else if (rank < 2 * half)
        flow_receive(channel, rank, rank - half);
    mad_barrier(session);
    mad_channel_close(channel);
    mad_exit(session);
    return 0;
}

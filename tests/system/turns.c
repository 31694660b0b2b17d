/* SPDX-License-Identifier: BSD-3-Clause */
/* A short message in parallel with long ones: turns LENGTH MESSAGES ROUNDS
 *
 * Rank 0 receives.  The last rank sends one short message.  The other ranks keep rank 0 busy with long messages, many of
 * which are still in flight when the short message has arrived.  The program counts how many long messages rank 0 receives
 * before the short one, and prints the maximum of all rounds. */
#include <madeleine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 32 };

static mad_session_t *session;
static mad_channel_t *channel;
static size_t length;
static int messages, rounds;

static mad_status_t send_long(char *data)
{
    mad_request_t *request[AHEAD] = {NULL};
    mad_block_t block = {data, length, MAD_SEND_LATER, MAD_RECEIVE_CHEAPER};
    mad_status_t status = MAD_OK;
    for (int i = 0; i < messages + AHEAD && !status; i++) {
        mad_request_t **one = &request[i % AHEAD];
        if (i == AHEAD)
            status = mad_barrier(session);
        if (!status && *one)
            status = mad_request_wait(one, INT64_MAX);
        if (!status && i < messages)
            status = mad_message_send(channel, 0, &block, 1, one);
    }
    return status;
}

static mad_status_t send_short(char *data)
{
    mad_message_t *message = mad_begin_packing(channel, 0);
    mad_status_t status;
    mad_pack(message, data, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_packing(message);
    return status ? status : mad_barrier(session);
}

/* Connect all ranks with each other. */
static mad_status_t meet(char *data)
{
    mad_block_t block = {data, 1, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    mad_status_t status = MAD_OK;
    if (mad_rank(session)) {
        status = mad_message_send(channel, 0, &block, 1, &request);
        return status ? status : mad_request_wait(&request, INT64_MAX);
    }
    for (int i = 1; i < mad_size(session) && !status; i++) {
        mad_message_t *message = mad_begin_unpacking(channel);
        mad_unpack(message, data, 1, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
        status = mad_end_unpacking(message);
    }
    return status;
}

/* Receive all messages of a round.  *turns: number of long messages before the short one. */
static mad_status_t receive(char *data, int *turns)
{
    int last = mad_size(session) - 1, all = (last - 1) * messages + 1;
    mad_status_t status = mad_barrier(session);
    for (int i = 0; i < all && !status; i++) {
        mad_message_t *message = mad_begin_unpacking(channel);
        if (mad_message_peer(message) == last) {
            mad_unpack(message, data, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
            *turns = i;
        } else {
            mad_unpack(message, data, length, MAD_SEND_LATER, MAD_RECEIVE_CHEAPER);
        }
        status = mad_end_unpacking(message);
    }
    return status;
}

int main(int argc, char **argv)
{
    int rank = 0, size = 0, most = 0, turns = 0;
    char *data;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (!status)
        status = mad_channel_open(session, "turns", &channel);
    if (!status) {
        rank = mad_rank(session);
        size = mad_size(session);
    }
    length = argc > 3 ? (size_t)atol(argv[1]) : 0;
    messages = argc > 3 ? atoi(argv[2]) : 0;
    rounds = argc > 3 ? atoi(argv[3]) : 0;
    data = calloc(1, length + 8);
    if (size < 3 || messages < AHEAD || !data)
        return printf("turns: not begun: %s\n", mad_status_text(status)), 1;
    status = meet(data);
    if (!status)
        status = mad_barrier(session);
    for (int i = 0; i < rounds && !status; i++) {
        status = rank == size - 1 ? send_short(data) : rank ? send_long(data) : receive(data, &turns);
        if (turns > most)
            most = turns;
        if (!status)
            status = mad_barrier(session);
    }
    if (status)
        printf("turns: %s\n", mad_status_text(status));
    else if (!rank)
        printf("turns %d\n", most);
    free(data);
    mad_exit(session);
    return status ? 1 : 0;
}

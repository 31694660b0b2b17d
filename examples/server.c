/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that takes requests in order of arrival: rank 0 adds up the numbers from the other ranks, and answers each
 * rank with the sum of its own numbers.  Run: madrun -n 4 ./server */
#include <madeleine.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUESTS 10 /* number of requests per client */

static mad_status_t serve(mad_channel_t *requests, mad_channel_t *answers, int clients)
{
    long *sums = calloc((size_t)clients + 1, sizeof *sums), all = 0;
    mad_status_t status = sums ? MAD_OK : MAD_ERR_NOMEM;
    for (int i = 0; i < clients * REQUESTS && status == MAD_OK; i++) {
        long number = 0;
        mad_message_t *message = mad_begin_unpacking(requests);
        mad_peer_t client = mad_message_peer(message);
        mad_unpack(message, &number, sizeof number, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        status = mad_end_unpacking(message);
        if (status != MAD_OK)
            break;
        sums[client] += number;
        all += number;
        message = mad_begin_packing(answers, client);
        mad_pack(message, &sums[client], sizeof sums[client], MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
        status = mad_end_packing(message);
    }
    if (status == MAD_OK)
        printf("served %d clients, all numbers make %ld\n", clients, all);
    free(sums);
    return status;
}

static mad_status_t ask(mad_channel_t *requests, mad_channel_t *answers, long first)
{
    mad_status_t status = MAD_OK;
    long sum = 0, expected = 0;
    for (long number = first; number < first + REQUESTS && status == MAD_OK; number++) {
        mad_message_t *message = mad_begin_packing(requests, 0);
        mad_pack(message, &number, sizeof number, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        status = mad_end_packing(message);
        expected += number;
        if (status != MAD_OK)
            break;
        message = mad_begin_unpacking_from(answers, 0);
        mad_unpack(message, &sum, sizeof sum, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
        status = mad_end_unpacking(message);
    }
    if (status == MAD_OK && sum != expected) {
        fprintf(stderr, "server: the sum is %ld, not %ld\n", sum, expected);
        status = MAD_ERR_INVAL;
    }
    return status;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *requests, *answers;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (status != MAD_OK)
        return 1;
    status = mad_channel_open(session, "requests", &requests);
    if (status == MAD_OK)
        status = mad_channel_open(session, "answers", &answers);
    if (status == MAD_OK && mad_rank(session) == 0)
        status = serve(requests, answers, mad_size(session) - 1);
    else if (status == MAD_OK)
        status = ask(requests, answers, 100 * mad_rank(session));
    if (status != MAD_OK)
        fprintf(stderr, "server: %s\n", mad_status_text(status));
    mad_exit(session);
    return status != MAD_OK;
}

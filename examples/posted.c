/* SPDX-License-Identifier: BSD-3-Clause */
/* An exchange of long blocks that cannot deadlock.  Each rank posts a receive from every other rank, then sends to
 * every other rank, and handles completions in any order.  Run: madrun -n 3 ./posted */
#include <madeleine.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS (1 << 18) /* number of words in 1 MiB */

static uint32_t word(int from, int to, uint32_t i)
{
    return (uint32_t)from * 1000003u + (uint32_t)to * 101u + i;
}

/* Start all transfers: requests[p] is the receive from p, requests[n + p] the send to p. */
static mad_status_t start(mad_channel_t *channel, int me, int n, uint32_t *in, uint32_t *out, mad_request_t **requests)
{
    mad_status_t status = MAD_OK;
    for (int p = 0; p < n && status == MAD_OK; p++) {
        mad_block_t to = {in + (size_t)p * WORDS, WORDS * sizeof *in, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        if (p != me)
            status = mad_message_receive(channel, p, &to, 1, &requests[p]);
    }
    for (int p = 0; p < n && status == MAD_OK; p++) {
        mad_block_t from = {out + (size_t)p * WORDS, WORDS * sizeof *out, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        for (uint32_t i = 0; i < WORDS; i++)
            out[(size_t)p * WORDS + i] = word(me, p, i);
        if (p != me)
            status = mad_message_send(channel, p, &from, 1, &requests[n + p]);
    }
    return status;
}

static mad_status_t finish(int me, int n, const uint32_t *in, mad_request_t **requests)
{
    mad_status_t status = MAD_OK;
    int which, good = 0;
    for (int left = 2 * (n - 1); left > 0 && status == MAD_OK; left--) {
        status = mad_request_wait_any(requests, 2 * n, MAD_FOREVER, &which);
        if (status == MAD_OK && which < n) { /* the completed request is a receive */
            uint32_t i = 0;
            while (i < WORDS && in[(size_t)which * WORDS + i] == word(which, me, i))
                i++;
            good += i == WORDS;
        }
    }
    if (status == MAD_OK)
        printf("rank %d has %d of %d blocks\n", me, good, n - 1);
    return status;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_request_t **requests = NULL;
    uint32_t *in = NULL, *out = NULL;
    mad_status_t status = mad_init(&argc, &argv, &session);
    int n;

    if (status != MAD_OK)
        return 1;
    n = mad_size(session);
    status = mad_channel_open(session, "blocks", &channel);
    if (status == MAD_OK) {
        in = calloc((size_t)n * WORDS, sizeof *in);
        out = calloc((size_t)n * WORDS, sizeof *out);
        requests = calloc(2 * (size_t)n, sizeof(*requests));
        if (!in || !out || !requests)
            status = MAD_ERR_NOMEM;
    }
    if (status == MAD_OK)
        status = start(channel, mad_rank(session), n, in, out, requests);
    if (status == MAD_OK)
        status = finish(mad_rank(session), n, in, requests);
    if (status != MAD_OK)
        fprintf(stderr, "posted: %s\n", mad_status_text(status));
    mad_exit(session); /* ends the session before the buffers are freed */
    free(requests);
    free(out);
    free(in);
    return status != MAD_OK;
}

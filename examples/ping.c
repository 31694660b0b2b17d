/* SPDX-License-Identifier: BSD-3-Clause */
/* The first program: rank 0 sends a number, rank 1 adds one and sends it back, a few times.  Run: madrun -n 2 ./ping */
#include <madeleine.h>
#include <stdio.h>

static mad_status_t send_number(mad_channel_t *channel, mad_peer_t peer, int number)
{
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, &number, sizeof number, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message); /* returns the first failure of the three calls */
}

static mad_status_t receive_number(mad_channel_t *channel, int *number)
{
    mad_message_t *message = mad_begin_unpacking(channel);
    mad_unpack(message, number, sizeof *number, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(message);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_status_t status = mad_init(&argc, &argv, &session);
    int number = 0;

    if (status != MAD_OK) {
        fprintf(stderr, "mad_init: %s\n", mad_status_text(status));
        return 1;
    }
    status = mad_channel_open(session, "ping", &channel);
    for (int turn = 0; turn < 5 && status == MAD_OK && mad_rank(session) < 2; turn++) {
        if (mad_rank(session) == 0)
            status = send_number(channel, 1, number);
        if (status == MAD_OK)
            status = receive_number(channel, &number);
        if (status == MAD_OK && mad_rank(session) == 1)
            status = send_number(channel, 0, number + 1);
    }
    if (status != MAD_OK)
        fprintf(stderr, "ping: %s\n", mad_status_text(status));
    else if (mad_rank(session) == 0)
        printf("the number came back as %d\n", number);
    mad_exit(session);
    return status != MAD_OK;
}

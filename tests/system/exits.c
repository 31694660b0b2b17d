/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank connects to all other ranks, and exits at some moment while handshakes are in progress, without mad_exit: exits
 * SEED.  The exit status of each rank is 7. */
#include <madeleine.h>

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_US 30000 /* maximum time until the rank exits */
#define STEP_US 100

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    int left;
    if (argc < 2 || mad_init(&argc, &argv, &session) || mad_channel_open(session, "exits", &channel))
        return 3;
    srand((unsigned)(atoi(argv[1]) * 100 + mad_rank(session)));
    for (int i = 1; i < mad_size(session); i++) {
        mad_block_t none = {NULL, 0, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        mad_request_t *request = NULL;
        if (mad_message_send(channel, (mad_rank(session) + i) % mad_size(session), &none, 1, &request))
            return 4;
    }
    left = rand() % MOST_US;
    for (bool sleeps = left % 2; left > 0; left -= STEP_US) {
        mad_progress(session);
        if (sleeps)
            usleep(STEP_US);
    }
    exit(7);
}

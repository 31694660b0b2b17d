/* SPDX-License-Identifier: BSD-3-Clause */
/* A job for mad_info to look at: rank 0 sends a message to the last rank, says "ready PID", and waits in the library
 * for an answer; the last rank says "ready PID" and answers when its standard input ends.  Alone, it is both. */
#include <madeleine.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(const char *what, mad_status_t status)
{
    if (status) {
        fprintf(stderr, "info_client: %s: %s\n", what, mad_status_text(status));
        exit(1);
    }
}

static void send(mad_channel_t *channel, mad_peer_t peer)
{
    int value = 42;
    mad_block_t block = {&value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER};
    mad_request_t *request;
    check("send", mad_send_blocks(channel, peer, &block, 1, &request));
    mad_request_callback(request, NULL, NULL);
}

static mad_status_t receive(mad_channel_t *channel)
{
    int value = 0;
    mad_connection_t *cnx = mad_begin_unpacking(channel);
    mad_unpack(cnx, &value, sizeof value, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(cnx);
}

static void ready(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
}

/* In a job outside of the library, alone inside of it. */
static void wait_for_end(mad_session_t *session, mad_channel_t *channel)
{
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    int timeout_ms = mad_size(session) > 1 ? -1 : 0;
    mad_connection_t *cnx;
    while (!poll(&end, 1, timeout_ms))
        if (mad_begin_unpacking_timed(channel, MAD_ANY_SOURCE, 10000000, &cnx) != MAD_ERR_TIMEOUT)
            exit(1);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    int last;
    check("mad_init", mad_init(&argc, &argv, &session));
    check("mad_channel_open", mad_channel_open(session, "looked at", &channel));
    last = mad_size(session) - 1;
    if (mad_rank(session) == 0)
        send(channel, last);
    if (mad_rank(session) == last) {
        check("receive", receive(channel));
        ready();
        wait_for_end(session, channel);
        send(channel, 0);
    } else {
        ready();
    }
    if (mad_rank(session) == 0)
        check("receive", receive(channel));
    mad_exit(session);
    return 0;
}

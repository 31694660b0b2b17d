/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that mad_info examines.  Rank 0 sends a message to the last rank, prints "ready PID", and waits in the library
 * for an answer.  The last rank prints "ready PID", and answers when its standard input ends.  A single rank is both.
 * INFO_BYTES=N: length of the message.  INFO_POSTED=1: its receive is posted before, and rank 0 waits until the message
 * has left.  INFO_BACK=1: the last rank sends it to rank 0.  INFO_WAITED=N: rank 0 sends N such messages, and waits for
 * each. */
#include <madeleine.h>
#include <poll.h>
#include <stdbool.h>
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

static unsigned char sent[1 << 21], received[1 << 21];

enum { ANSWER = 4 };

static size_t length(void)
{
    const char *bytes = getenv("INFO_BYTES");
    size_t n = bytes ? strtoul(bytes, NULL, 10) : 4;
    return n < sizeof sent ? n : sizeof sent;
}

static mad_block_t block(unsigned char *base, size_t len)
{
    return (mad_block_t){base, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
}

static void send(mad_channel_t *channel, mad_peer_t peer, size_t len)
{
    mad_block_t b = block(sent, len);
    mad_request_t *request;
    check("send", mad_message_send(channel, peer, &b, 1, &request));
    mad_request_detach(request, NULL, NULL);
}

static mad_status_t receive(mad_channel_t *channel, size_t len)
{
    mad_block_t b = block(received, len);
    mad_message_t *message = mad_begin_unpacking(channel);
    mad_unpack(message, b.base, b.len, b.send_mode, b.receive_mode);
    return mad_end_unpacking(message);
}

/* Send from rank 0 to the last rank, which has posted its receive. */
static void to_posted(mad_session_t *session, mad_channel_t *channel)
{
    int last = mad_size(session) - 1;
    mad_block_t in = block(received, length()), out = block(sent, length());
    mad_request_t *request = NULL;
    if (mad_rank(session) == last)
        check("post", mad_message_receive(channel, 0, &in, 1, &request));
    check("barrier", mad_barrier(session));
    if (mad_rank(session) == 0)
        check("send", mad_message_send(channel, last, &out, 1, NULL));
    if (request)
        check("wait", mad_request_wait(&request, MAD_FOREVER));
}

static void one(mad_session_t *session, mad_channel_t *channel, bool back, size_t len)
{
    int last = mad_size(session) - 1, from = back ? last : 0;
    if (mad_rank(session) == from)
        send(channel, last - from, len);
    if (mad_rank(session) == last - from)
        check("receive", receive(channel, len));
}

static void waited(mad_session_t *session, mad_channel_t *channel, int n)
{
    int last = mad_size(session) - 1;
    mad_block_t b = block(sent, length());
    for (; n > 0; n--) {
        if (mad_rank(session) == 0)
            check("send", mad_message_send(channel, last, &b, 1, NULL));
        else if (mad_rank(session) == last)
            check("receive", receive(channel, length()));
    }
}

static void ready(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
}

/* Wait for the end of the input: a rank of a job does not call the library meanwhile, and a single rank waits in it. */
static void wait_for_end(mad_session_t *session, mad_channel_t *channel)
{
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    int timeout_ms = mad_size(session) > 1 ? -1 : 0;
    mad_message_t *message;
    while (!poll(&end, 1, timeout_ms))
        if (mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 10000000, &message) != MAD_ERR_TIMEOUT)
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
    if (getenv("INFO_BYTES")) /* short messages first, to make the connection */
        for (int back = 0; back < 2; back++)
            one(session, channel, back, ANSWER);
    if (getenv("INFO_POSTED"))
        to_posted(session, channel);
    else if (getenv("INFO_WAITED"))
        waited(session, channel, atoi(getenv("INFO_WAITED")));
    else
        one(session, channel, getenv("INFO_BACK"), length());
    if (mad_rank(session) == last) {
        ready();
        wait_for_end(session, channel);
        send(channel, 0, ANSWER);
    } else {
        ready();
    }
    if (mad_rank(session) == 0)
        check("receive", receive(channel, ANSWER));
    mad_exit(session);
    return 0;
}

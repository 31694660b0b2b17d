/* SPDX-License-Identifier: BSD-3-Clause */
/* left_behind: rank 0 sends, and then waits in the launcher, without calling the library, until rank 1 waits there, too.
 * Rank 1 waits in the launcher only after it has received the message.  So the driver must send the rest of a message whose
 * sending has ended although no thread calls the library; otherwise this program hangs. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>

#define ROUNDS 10

static mad_status_t send_to(mad_channel_t *channel, int rank)
{
    return mad_end_packing(mad_begin_packing(channel, rank));
}

static mad_status_t receive(mad_channel_t *channel)
{
    return mad_end_unpacking(mad_begin_unpacking(channel));
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    CHECK_OK(mad_init(&argc, &argv, &session));
    CHECK_OK(mad_channel_open(session, "left behind", &channel));
    if (mad_rank(session) == 0) { /* the first message waits for the connection */
        CHECK_OK(send_to(channel, 1));
        CHECK_OK(receive(channel));
    } else {
        CHECK_OK(receive(channel));
        CHECK_OK(send_to(channel, 0));
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (mad_rank(session) == 0)
            CHECK_OK(send_to(channel, 1));
        else
            CHECK_OK(receive(channel));
        CHECK_OK(mad_barrier(session));
    }
    mad_exit(session);
    return test_failures != 0;
}

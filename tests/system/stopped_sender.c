/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes.  The second sends a long block to the first, and is stopped in the middle with all its threads, until the
 * test kills it after MAD_PEER_TIMEOUT.  The first gets an error, and ends in order.  The second must run in another
 * namespace of processes, since one that is seen to exist is waited for; but not as the first process there, which cannot be
 * stopped. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define LONG ((size_t)256 << 20) /* bytes: takes longer than STOP_US */
#define STOP_US 8000             /* us: when the sender stops */

static mad_channel_t *channel;

static void int_send(mad_peer_t to, int value)
{
    mad_message_t *message = mad_begin_packing(channel, to);
    mad_pack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_packing(message));
}

static int int_receive(mad_peer_t from)
{
    mad_message_t *message = mad_begin_unpacking_from(channel, from);
    int value = 0;
    mad_unpack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_unpacking(message));
    return value;
}

static char *block_new(void)
{
    char *block = malloc(LONG);
    if (CHECK(block != NULL))
        memset(block, 1, LONG);
    return block;
}

static void stop(int number)
{
    (void)number;
    raise(SIGSTOP);
}

static void stopped_run(void)
{
    struct itimerval soon = {.it_value.tv_usec = STOP_US};
    char *block = block_new();
    mad_message_t *message;
    CHECK_EQ(int_receive(0), 1);
    signal(SIGALRM, stop);
    setitimer(ITIMER_REAL, &soon, NULL);
    message = mad_begin_packing(channel, 0);
    mad_pack(message, block, LONG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    mad_end_packing(message);
    CHECK_MSG(false, "the block was sent before the process was stopped");
}

static void receiver_run(void)
{
    char *block = block_new();
    mad_message_t *message;
    int_send(1, 1);
    message = mad_begin_unpacking_from(channel, 1);
    mad_unpack(message, block, LONG, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_STATUS(mad_end_unpacking(message), MAD_ERR_PEER);
    free(block);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    test_begin("stopped_sender", 120);
    CHECK_OK(mad_init(&argc, &argv, &session));
    CHECK_OK(mad_channel_open(session, "stopped", &channel));
    if (mad_rank(session))
        stopped_run();
    else
        receiver_run();
    mad_exit(session);
    if (!atomic_load(&test_failures))
        puts("in order");
    test_end();
    return atomic_load(&test_failures) != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes over tcp.  The first process sends a message and ends in order.  The second one waits for one more message,
 * which does not arrive, and gets the report that the peer has ended.  The second process lets its kernel acknowledge the
 * peer's last packet at once, because otherwise mad_exit of the first process waits some 40 ms for an acknowledgement.  For
 * this, the program replaces setsockopt, which the library calls. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(int) acknowledged;

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    int on = 0;
    if (level == IPPROTO_TCP && name == TCP_QUICKACK && len == sizeof on) {
        memcpy(&on, value, sizeof on);
        atomic_fetch_add(&acknowledged, on);
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

static void leave_first(mad_channel_t *channel)
{
    int number = 7;
    mad_message_t *message = mad_begin_packing(channel, 1);
    CHECK_OK(mad_pack(message, &number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS));
    CHECK_OK(mad_end_packing(message));
}

static void wait_for_more(mad_channel_t *channel)
{
    int number = 0;
    mad_message_t *message = mad_begin_unpacking_from(channel, 0);
    CHECK_OK(mad_unpack(message, &number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS));
    CHECK_OK(mad_end_unpacking(message));
    CHECK_EQ(number, 7);
    CHECK_STATUS(mad_begin_unpacking_within(channel, 0, MAD_FOREVER, &message), MAD_ERR_PEER);
    CHECK_EQ(atomic_load(&acknowledged), 1);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    test_begin("farewell", 120);
    CHECK_OK(mad_init(&argc, &argv, &session));
    CHECK_OK(mad_channel_open(session, "farewell", &channel));
    if (mad_rank(session))
        wait_for_more(channel);
    else
        leave_first(channel);
    mad_exit(session);
    test_end();
    return atomic_load(&test_failures) != 0;
}

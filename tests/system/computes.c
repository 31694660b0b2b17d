/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that does not call the library can still be reached: computes FIFO
 *
 * Rank 0 prints its process number and then reads FIFO, without a request or a handler; rank 1 sends it the first
 * message. */
#include <madeleine.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static mad_status_t receive(mad_channel_t *channel, const char *fifo)
{
    int value = 0, fd = open(fifo, O_RDONLY);
    mad_message_t *message;
    mad_status_t status;
    char c;
    if (fd < 0 || read(fd, &c, 1) != 1)
        return MAD_ERR_SYSTEM;
    close(fd);
    message = mad_begin_unpacking(channel);
    mad_unpack(message, &value, sizeof value, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    printf("received %d: %s\n", value, mad_status_name(status));
    return status;
}

static mad_status_t send_one(mad_channel_t *channel)
{
    int value = 3;
    mad_message_t *message = mad_begin_packing(channel, 0);
    mad_status_t status;
    mad_pack(message, &value, sizeof value, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_packing(message);
    printf("sent: %s\n", mad_status_name(status));
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (!status)
        status = mad_channel_open(session, "first", &channel);
    if (status || argc != 2)
        return 1;
    if (mad_rank(session) == 0) {
        printf("process %d\n", (int)getpid());
        fflush(stdout);
    }
    status = mad_barrier(session);
    if (!status)
        status = mad_rank(session) ? send_one(channel) : receive(channel, argv[1]);
    mad_exit(session);
    return status != MAD_OK;
}

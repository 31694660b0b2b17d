/* SPDX-License-Identifier: BSD-3-Clause */
/* A string of unknown length: its length is sent EXPRESS, its bytes CHEAPER, into memory that is allocated once the
 * length is known.  Run: madrun -n 2 ./string "some text" */
#include <madeleine/legacy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_string(p_mad_channel_t channel, const char *text)
{
    size_t len = strlen(text) + 1;
    p_mad_connection_t message = mad_begin_packing(channel, 1);
    mad_pack(message, &len, sizeof len, send_CHEAPER, receive_EXPRESS);
    mad_pack(message, text, len, send_CHEAPER, receive_CHEAPER);
    if (mad_end_packing(message) != MAD_OK)
        fprintf(stderr, "the string was not sent\n");
}

static void receive_string(p_mad_channel_t channel)
{
    size_t len = 0;
    char *text;
    p_mad_connection_t message = mad_begin_unpacking(channel);
    mad_unpack(message, &len, sizeof len, send_CHEAPER, receive_EXPRESS);
    text = calloc(1, len ? len : 1);
    mad_unpack(message, text, len, send_CHEAPER, receive_CHEAPER);
    if (text && mad_end_unpacking(message) == MAD_OK)
        printf("received %zu bytes: %s\n", len, text);
    free(text);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (status != MAD_OK) {
        fprintf(stderr, "mad_init: %s\n", mad_status_text(status));
        return 1;
    }
    if (mad_size(session) < 2) {
        fprintf(stderr, "run me on two processes: madrun -n 2 %s TEXT\n", argv[0]);
        mad_exit(session);
        return 1;
    }
    if (mad_channel_open(session, "strings", &channel) == MAD_OK) {
        if (mad_rank(session) == 0)
            send_string(channel, argc > 1 ? argv[1] : "Hello, World");
        else if (mad_rank(session) == 1)
            receive_string(channel);
    }
    mad_exit(session);
    return 0;
}

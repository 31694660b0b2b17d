/* SPDX-License-Identifier: BSD-3-Clause */
/* The meaning of the modes: one message with one block for each of the six pairs.  The sender changes its SAFER blocks
 * after mad_pack, and its LATER blocks before mad_end_packing.  Run: madrun -n 2 ./modes */
#include <madeleine.h>
#include <stdio.h>
#include <string.h>

static const struct {
    mad_send_mode_t send;
    mad_receive_mode_t receive;
} pairs[6] = {
    {MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},   {MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER}, {MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS},
    {MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}, {MAD_SEND_LATER, MAD_RECEIVE_EXPRESS}, {MAD_SEND_LATER, MAD_RECEIVE_CHEAPER},
};

static mad_status_t send_all(mad_channel_t *channel)
{
    char text[6][16];
    mad_message_t *message = mad_begin_packing(channel, 1);
    for (int i = 0; i < 6; i++) {
        strcpy(text[i], "at pack");
        mad_pack(message, text[i], sizeof text[i], pairs[i].send, pairs[i].receive);
        if (pairs[i].send == MAD_SEND_SAFER)
            strcpy(text[i], "too late"); /* has no effect on the message */
    }
    for (int i = 0; i < 6; i++)
        if (pairs[i].send == MAD_SEND_LATER)
            strcpy(text[i], "at the end"); /* this value is sent */
    return mad_end_packing(message);
}

static mad_status_t receive_all(mad_channel_t *channel)
{
    static const char *const sends[] = {"SAFER", "LATER", "CHEAPER"}, *const receives[] = {"EXPRESS", "CHEAPER"};
    char text[6][16] = {""};
    mad_status_t status;
    mad_message_t *message = mad_begin_unpacking(channel);
    for (int i = 0; i < 6; i++) {
        mad_status_t st = mad_unpack(message, text[i], sizeof text[i], pairs[i].send, pairs[i].receive);
        if (st == MAD_OK && pairs[i].receive == MAD_RECEIVE_EXPRESS)
            printf("%s/EXPRESS: '%s' when mad_unpack returns\n", sends[pairs[i].send], text[i]);
    }
    status = mad_end_unpacking(message);
    for (int i = 0; i < 6 && status == MAD_OK; i++)
        printf("%s/%s: '%s' at the end\n", sends[pairs[i].send], receives[pairs[i].receive], text[i]);
    return status;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (status != MAD_OK)
        return 1;
    status = mad_channel_open(session, "modes", &channel);
    if (status == MAD_OK && mad_rank(session) == 0)
        status = send_all(channel);
    else if (status == MAD_OK && mad_rank(session) == 1)
        status = receive_all(channel);
    if (status != MAD_OK)
        fprintf(stderr, "modes: %s\n", mad_status_text(status));
    mad_exit(session);
    return status != MAD_OK;
}

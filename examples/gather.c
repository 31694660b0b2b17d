/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks made of pieces: a column of a matrix is received as a row, and two strings as one.  Run: madrun -n 2 ./gather */
#include <madeleine.h>
#include <stdio.h>

#define ROWS 4
#define COLUMNS 3

static mad_status_t send_pieces(mad_channel_t *channel)
{
    double matrix[ROWS][COLUMNS];
    char first[] = "in two ", second[] = "pieces";
    struct iovec pieces[2] = {{first, sizeof first - 1}, {second, sizeof second}};
    mad_message_t *message;

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            matrix[i][j] = 10 * i + j;
    message = mad_begin_packing(channel, 1);
    mad_pack_strided(message, &matrix[0][1], sizeof(double), sizeof matrix[0], ROWS, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    mad_pack_gather(message, pieces, 2, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message);
}

static mad_status_t receive_pieces(mad_channel_t *channel)
{
    double column[ROWS];
    char head[4], rest[sizeof "in two pieces" - sizeof head];
    struct iovec pieces[2] = {{head, sizeof head}, {rest, sizeof rest}}; /* pieces differ from the sender's */
    mad_message_t *message = mad_begin_unpacking(channel);
    mad_status_t status;

    mad_unpack(message, column, sizeof column, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    mad_unpack_scatter(message, pieces, 2, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    if (status == MAD_OK) {
        printf("column 1:");
        for (int i = 0; i < ROWS; i++)
            printf(" %g", column[i]);
        printf("\n%.*s|%s\n", (int)sizeof head, head, rest);
    }
    return status;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (status != MAD_OK)
        return 1;
    status = mad_channel_open(session, "pieces", &channel);
    if (status == MAD_OK && mad_rank(session) == 0)
        status = send_pieces(channel);
    else if (status == MAD_OK && mad_rank(session) == 1)
        status = receive_pieces(channel);
    if (status != MAD_OK)
        fprintf(stderr, "gather: %s\n", mad_status_text(status));
    mad_exit(session);
    return status != MAD_OK;
}

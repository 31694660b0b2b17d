/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler.  Rank 0 sends short and long texts.  Rank 1's handler unpacks the short ones at once, and parks the long
 * ones, whose body stays with the sender until the main thread unpacks it.  Run: madrun -n 2 ./handler */
#include <madeleine.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 8
#define SHORT 100
#define LONG 500000

typedef struct inbox {
    atomic_int n_short, n_parked; /* the handler may run in another thread than main */
    mad_message_t *parked[MESSAGES];
    size_t lengths[MESSAGES];
} inbox_t;

static mad_handled_t on_message(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    inbox_t *inbox = arg;
    char text[SHORT];
    size_t len = 0;
    int n;
    (void)channel;
    /* The leading EXPRESS block has arrived when the handler is called. */
    if (mad_unpack_try(message, &len, sizeof len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS) != MAD_OK)
        return MAD_CONSUMED;
    if (len <= sizeof text && mad_unpack_try(message, text, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS) == MAD_OK) {
        atomic_fetch_add(&inbox->n_short, 1);
        return MAD_CONSUMED;
    }
    n = atomic_load(&inbox->n_parked);
    inbox->parked[n] = message;
    inbox->lengths[n] = len;
    atomic_store(&inbox->n_parked, n + 1);
    return MAD_PARKED;
}

static mad_status_t send_texts(mad_channel_t *channel)
{
    mad_status_t status = MAD_OK;
    char *text = malloc(LONG);
    if (!text)
        return MAD_ERR_NOMEM;
    memset(text, 'x', LONG);
    for (int i = 0; i < MESSAGES && status == MAD_OK; i++) {
        size_t len = i % 2 ? LONG : SHORT;
        mad_receive_mode_t mode = i % 2 ? MAD_RECEIVE_CHEAPER : MAD_RECEIVE_EXPRESS;
        mad_block_t blocks[2] = {{&len, sizeof len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                                 {text, len, MAD_SEND_CHEAPER, mode}};
        status = mad_message_send(channel, 1, blocks, 2, NULL);
    }
    free(text);
    return status;
}

static mad_status_t receive_texts(mad_session_t *session, mad_channel_t *channel)
{
    inbox_t inbox = {.n_short = 0};
    mad_status_t status = mad_channel_handler_set(channel, on_message, &inbox);
    int done = 0, good = 0;
    while (status == MAD_OK && done + atomic_load(&inbox.n_short) < MESSAGES) {
        mad_progress(session); /* any other call that makes progress would do, too */
        if (done < atomic_load(&inbox.n_parked)) {
            char *text = calloc(1, inbox.lengths[done]);
            mad_unpack(inbox.parked[done], text, inbox.lengths[done], MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
            status = mad_end_unpacking(inbox.parked[done]);
            good += text && text[0] == 'x' && text[inbox.lengths[done] - 1] == 'x';
            free(text);
            done++;
        }
    }
    mad_channel_handler_set(channel, NULL, NULL);
    printf("handled %d short texts, parked %d long ones, %d of them complete\n", atomic_load(&inbox.n_short), done, good);
    return status;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (status != MAD_OK)
        return 1;
    status = mad_channel_open(session, "texts", &channel);
    if (status == MAD_OK && mad_rank(session) == 0)
        status = send_texts(channel);
    else if (status == MAD_OK && mad_rank(session) == 1)
        status = receive_texts(session, channel);
    if (status != MAD_OK)
        fprintf(stderr, "handler: %s\n", mad_status_text(status));
    mad_exit(session);
    return status != MAD_OK;
}

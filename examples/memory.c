/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: rank 0 owns a counter and a table.  Each rank takes its place in the table from the counter, writes its
 * square there, and notifies the owner. */
#include <madeleine/memory.h>
#include <stdio.h>

#define PLACES 64

typedef struct table {
    uint64_t counter;
    uint64_t squares[PLACES];
} table_t;

static void table_print(const table_t *table)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < table->counter; i++)
        sum += table->squares[i];
    printf("%d ranks have written squares, with the sum %d\n", (int)table->counter, (int)sum);
}

/* Send the key to all ranks, this one included; or receive it. */
static mad_memory_key_t key_share(mad_session_t *session, mad_channel_t *channel, const mad_memory_t *memory)
{
    mad_memory_key_t key = {{0}};
    mad_block_t block = {&key, sizeof key, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    if (!memory) {
        mad_message_receive(channel, 0, &block, 1, NULL);
        return key;
    }
    mad_memory_key(memory, &key);
    for (int i = 1; i < mad_size(session); i++)
        mad_message_send(channel, i, &block, 1, NULL);
    return key;
}

static mad_status_t square_write(mad_session_t *session, const mad_memory_key_t *key)
{
    uint64_t rank = (uint64_t)mad_rank(session), square = rank * rank, place;
    mad_status_t status = mad_memory_fetch_add(session, 0, key, 0, 1, &place, NULL);
    if (status)
        return status;
    return mad_memory_put_notify(session, 0, key, offsetof(table_t, squares) + 8 * place, &square, 8, NULL);
}

int main(int argc, char **argv)
{
    mad_memory_t *memory = NULL;
    mad_session_t *session;
    mad_channel_t *channel;
    mad_memory_key_t key;
    mad_status_t status;

    if (mad_init(&argc, &argv, &session) != MAD_OK || mad_channel_open(session, "keys", &channel) != MAD_OK)
        return 1;
    if (mad_rank(session) == 0 &&
        mad_memory_alloc(session, sizeof(table_t), MAD_MEMORY_WRITE | MAD_MEMORY_ATOMIC, &memory) != MAD_OK)
        return 1;
    key = key_share(session, channel, memory);
    status = square_write(session, &key);
    if (memory) {
        mad_memory_wait(memory, (uint64_t)mad_size(session), MAD_FOREVER);
        table_print(mad_memory_base(memory));
        mad_memory_unregister(memory, MAD_FOREVER);
    }
    if (status)
        fprintf(stderr, "%s\n", mad_status_text(status));
    mad_exit(session);
    return status ? 1 : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* remap: each block lies in memory that is mapped for it and unmapped after it, mostly at the address of the block before.
 * A device that still used the memory of an earlier block would send, or receive, other bytes. */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 60
#define SIZE ((size_t)200 << 10) /* bytes of a block; a device reads it */

static unsigned char *block_map(int value)
{
    unsigned char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    memset(at, value, SIZE);
    return at;
}

static void block_send(mad_channel_t *channel, int rank, int round)
{
    unsigned char *at = block_map(round);
    mad_message_t *out = mad_begin_packing(channel, rank);
    mad_pack(out, at, SIZE, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_OK(mad_end_packing(out));
    munmap(at, SIZE);
}

static void block_receive(mad_channel_t *channel, int rank, int round)
{
    unsigned char *at = block_map(255);
    mad_message_t *in = mad_begin_unpacking_from(channel, rank);
    mad_unpack(in, at, SIZE, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_OK(mad_end_unpacking(in));
    size_t same = 0;
    while (same < SIZE && at[same] == round)
        same++;
    CHECK(same == SIZE);
    munmap(at, SIZE);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    CHECK_OK(mad_init(&argc, &argv, &session));
    CHECK_OK(mad_channel_open(session, "remap", &channel));
    int rank = mad_rank(session);
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0)
            block_send(channel, 1, i);
        else
            block_receive(channel, 0, i);
        if (rank == 0)
            block_receive(channel, 1, i);
        else
            block_send(channel, 0, i);
    }
    CHECK_OK(mad_barrier(session));
    mad_exit(session);
    return test_failures != 0;
}

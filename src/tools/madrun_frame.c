/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_frame.h"

#define HEADER 16
#define LEN_MAX (64u << 20)

static void write32(unsigned char *to, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(n >> (8 * i));
}

static uint32_t read32(const char *from)
{
    uint32_t n = 0;
    for (int i = 0; i < 4; i++)
        n |= (uint32_t)(unsigned char)from[i] << (8 * i);
    return n;
}

void madi_run_frame_send(madi_run_pipe_t *pipe, int type, int rank, int value, const void *data, size_t len)
{
    unsigned char header[HEADER];
    write32(header, (uint32_t)type);
    write32(header + 4, (uint32_t)rank);
    write32(header + 8, (uint32_t)value);
    write32(header + 12, (uint32_t)len);
    madi_run_pipe_send(pipe, header, sizeof(header));
    madi_run_pipe_send(pipe, data, len);
}

int madi_run_frame_next(const madi_run_pipe_t *pipe, madi_run_frame_t *frame)
{
    const char *at;
    uint32_t len;
    if (pipe->in.len < HEADER)
        return 0;
    at = madi_run_buffer_at(&pipe->in);
    len = read32(at + 12);
    if (len > LEN_MAX)
        return -1;
    if (pipe->in.len < HEADER + len)
        return 0;
    frame->type = (int)read32(at);
    frame->rank = (int)read32(at + 4);
    frame->value = (int)read32(at + 8);
    frame->data = madi_run_buffer_at(&pipe->in) + HEADER;
    frame->len = len;
    return 1;
}

void madi_run_frame_drop(madi_run_pipe_t *pipe, const madi_run_frame_t *frame)
{
    madi_run_buffer_drop(&pipe->in, HEADER + frame->len);
}

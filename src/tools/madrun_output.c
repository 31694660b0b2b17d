/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_output.h"

#include "tools/madrun_loop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 65536 /* a longer line is broken */

static madi_run_pipe_t out[2];
static madi_run_buffer_t (*partial)[2]; /* by rank and stream: a line that has only begun */
static char **label_of; /* by rank; NULL: "[rank] " */
static int rank_count;
static bool alone, labelled;
static void (*on_lost)(void);

static void got(madi_run_pipe_t *pipe)
{
    if (!pipe->broken || !on_lost)
        return;
    if (pipe == &out[0] && pipe->error != EPIPE)
        madi_run_say("what the ranks print cannot be written: %s", strerror(pipe->error));
    on_lost();
}

void madi_run_output_init(int ranks, int beside, bool label, void (*lost)(void))
{
    rank_count = ranks + beside;
    alone = ranks == 1;
    labelled = label && rank_count > 1;
    on_lost = lost;
    partial = madi_run_alloc((size_t)rank_count, sizeof(*partial));
    label_of = madi_run_alloc((size_t)rank_count, sizeof(*label_of));
    for (int i = 0; i < 2; i++) {
        out[i] = (madi_run_pipe_t){.got = got, .choke = true, .shared = true};
        madi_run_pipe_open(&out[i], i + 1);
    }
}

void madi_run_output_label(int number, const char *label)
{
    label_of[number] = madi_run_strdup(label);
}

/* What a program writes for programs is passed on as it is. */
static bool is_object(const char *data, size_t len)
{
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
        len--;
    return len > 2 && data[0] == '{' && data[1] == '"' && data[len - 1] == '}';
}

static void line_write(int rank, int stream, const char *data, size_t len, bool newline)
{
    bool label = labelled && !(stream == 1 && is_object(data, len));
    char number[24];
    if (label && label_of[rank])
        madi_run_pipe_send(&out[stream - 1], label_of[rank], strlen(label_of[rank]));
    else if (label)
        madi_run_pipe_send(&out[stream - 1], number, (size_t)snprintf(number, sizeof(number), "[%d] ", rank));
    madi_run_pipe_send(&out[stream - 1], data, len);
    if (newline)
        madi_run_pipe_send(&out[stream - 1], "\n", 1);
}

static void partial_write(int rank, int stream)
{
    madi_run_buffer_t *buffer = &partial[rank][stream - 1];
    if (buffer->len > 0)
        line_write(rank, stream, madi_run_buffer_at(buffer), buffer->len, labelled); /* a label must begin a line */
    madi_run_buffer_free(buffer);
}

void madi_run_output(int rank, int stream, const char *data, size_t len)
{
    madi_run_buffer_t *buffer;
    if (rank < 0 || rank >= rank_count || stream < 1 || stream > 2)
        return;
    if (alone && rank == 0) {
        madi_run_pipe_send(&out[stream - 1], data, len);
        return;
    }
    buffer = &partial[rank][stream - 1];
    if (len == 0)
        partial_write(rank, stream);
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t part = end ? (size_t)(end + 1 - data) : len;
        if (end && buffer->len == 0) {
            line_write(rank, stream, data, part, false);
        } else {
            madi_run_buffer_add(buffer, data, part);
            if (end)
                line_write(rank, stream, madi_run_buffer_at(buffer), buffer->len, false);
            if (end)
                madi_run_buffer_drop(buffer, buffer->len);
            else if (buffer->len > LINE_BYTES)
                partial_write(rank, stream);
        }
        data += part;
        len -= part;
    }
}

bool madi_run_output_waiting(void)
{
    return (out[0].out.len > 0 && !out[0].broken) || (out[1].out.len > 0 && !out[1].broken);
}

void madi_run_output_fini(void)
{
    for (int i = 0; i < rank_count; i++)
        for (int s = 0; s < 2; s++)
            madi_run_buffer_free(&partial[i][s]);
    for (int i = 0; i < rank_count; i++)
        free(label_of[i]);
    free(label_of);
    free(partial);
    partial = NULL;
    rank_count = 0;
    on_lost = NULL;
    for (int i = 0; i < 2; i++)
        madi_run_pipe_close(&out[i]);
}

void madi_run_say(const char *format, ...)
{
    char text[1024] = "madrun: ";
    size_t len;
    va_list args;
    va_start(args, format);
    vsnprintf(text + 8, sizeof(text) - 9, format, args);
    va_end(args);
    len = strlen(text);
    text[len++] = '\n';
    if (partial) { /* in order with what the ranks write */
        madi_run_pipe_send(&out[1], text, len);
    } else {
        ssize_t n = write(2, text, len);
        (void)n;
    }
}

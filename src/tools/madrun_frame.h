/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol between madrun and its proxy on another host, over the launch agent's standard input and output.
 *
 * The proxy first writes the line MADI_RUN_GREETING; everything before it (output of login scripts) is skipped.  After the
 * greeting, both write frames: a header of 16 bytes, which are four 32-bit little-endian numbers, and `len` bytes of data.
 *
 *      0      4      8      12     16
 *      | type | rank | value| len  | data ...
 */
#ifndef MADI_MADRUN_FRAME_H
#define MADI_MADRUN_FRAME_H

#include "tools/madrun_loop.h"

#define MADI_RUN_GREETING "MADRUN-PROXY 3" /* increased with each change of the frames */

enum {
    /* to the proxy */
    MADI_RUN_START = 1,  /* data: see madrun_spec.c */
    MADI_RUN_REPLY = 2,  /* rank, data: for PMI */
    MADI_RUN_STDIN = 3,  /* rank, data; frame without data: end of input */
    MADI_RUN_SIGNAL = 4, /* value: number of the signal */
    MADI_RUN_HOLD = 5,   /* rank; value: the stream that is no longer read */
    MADI_RUN_READ = 6,   /* rank; value: the stream that is read again */
    /* from the proxy, see madi_run_events_t */
    MADI_RUN_LINE = 16,
    MADI_RUN_OUTPUT = 17, /* value: stream */
    MADI_RUN_TAKEN = 18,  /* value: bytes */
    MADI_RUN_ENDED = 19,  /* value: status */
    MADI_RUN_FAILED = 20, /* value: exit code, data: text */
    MADI_RUN_DONE = 21
};

typedef struct madi_run_frame {
    int type, rank, value;
    char *data; /* bytes in the pipe's buffer, valid until the frame is dropped */
    size_t len;
} madi_run_frame_t;

void madi_run_frame_send(madi_run_pipe_t *pipe, int type, int rank, int value, const void *data, size_t len);
/* Find the first frame that was received.  Return 1 and set *frame; 0 if it is incomplete; -1 if the bytes are no frame. */
int madi_run_frame_next(const madi_run_pipe_t *pipe, madi_run_frame_t *frame);
void madi_run_frame_drop(madi_run_pipe_t *pipe, const madi_run_frame_t *frame);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* madrun's event loop: one thread, buffered pipes, timers.
 *
 * A pipe is a descriptor (pipe, socket, terminal, file) with the bytes that were read from it and those still to be
 * written.  Nothing blocks here, except writing to a regular file.  If memory runs out, the tool exits, and the ranks
 * end too. */
#ifndef MADI_MADRUN_LOOP_H
#define MADI_MADRUN_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct madi_run_buffer {
    char *data; /* the bytes are data[from .. from + len) */
    size_t from, len, cap;
    bool wipes; /* the job's key passes through this pipe: erase bytes that have been consumed */
} madi_run_buffer_t;

void madi_run_buffer_add(madi_run_buffer_t *buffer, const void *data, size_t len);
void madi_run_buffer_drop(madi_run_buffer_t *buffer, size_t len); /* drop len bytes from the front */
void madi_run_buffer_free(madi_run_buffer_t *buffer);

static inline char *madi_run_buffer_at(const madi_run_buffer_t *buffer)
{
    return buffer->data + buffer->from;
}

typedef struct madi_run_pipe madi_run_pipe_t;
struct madi_run_pipe {
    /* Set by the owner before madi_run_pipe_open. */
    void (*got)(madi_run_pipe_t *pipe);              /* called when `in` has grown, or when eof or broken has become true */
    void (*sent)(madi_run_pipe_t *pipe, size_t len); /* called when len bytes were written; may be NULL */
    void *owner;
    int tag;
    bool read;   /* true to read from the pipe */
    bool bulk;   /* true if the pipe must not be read while a choking pipe is full */
    bool choke;  /* true for a choking pipe: while much is queued here, bulk pipes are not read */
    bool shared; /* other processes use the descriptor too: do not make it non-blocking */
    /* For the owner to read. */
    int fd; /* -1: closed */
    bool eof, broken;
    int error; /* broken: errno of the write */
    madi_run_buffer_t in, out;
    /* Private to the loop. */
    uint32_t armed;
    bool plain, full, closing;
    madi_run_pipe_t *next, **link;
};

/* Add fd to the loop; madi_run_pipe_close closes it. */
void madi_run_pipe_open(madi_run_pipe_t *pipe, int fd);
/* Queue bytes, and write what can be written now.  No effect on a closed or broken pipe. */
void madi_run_pipe_send(madi_run_pipe_t *pipe, const void *data, size_t len);
/* Close immediately, or after everything queued was written.  Legal for a closed pipe. */
void madi_run_pipe_close(madi_run_pipe_t *pipe);
void madi_run_pipe_close_when_sent(madi_run_pipe_t *pipe);
/* Start or stop reading. */
void madi_run_pipe_reading(madi_run_pipe_t *pipe, bool on);
/* Read everything available now, until the pipe is empty or at its end. */
void madi_run_pipe_drain(madi_run_pipe_t *pipe);

typedef struct madi_run_timer madi_run_timer_t;
struct madi_run_timer {
    void (*fire)(void);
    int64_t at; /* monotonic time, ns; 0: not set */
    madi_run_timer_t *next;
    bool listed;
};

void madi_run_timer_set(madi_run_timer_t *timer, int64_t in_ns, void (*fire)(void));
void madi_run_timer_clear(madi_run_timer_t *timer);

int madi_run_loop_init(void);  /* 0, or -1 with errno */
void madi_run_loop_once(void); /* wait for one event and handle it */

void *madi_run_alloc(size_t count, size_t size); /* zeroed; never NULL */
char *madi_run_strdup(const char *text);

#endif

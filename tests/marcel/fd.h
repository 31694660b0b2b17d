/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations for the cases of fd, by file. */
#ifndef MARCEL_FD_H
#define MARCEL_FD_H

#include "support.h"

/* A pipe, and the thread that reads it. */
typedef struct reader {
    int fd[2];
    int64_t sum;
    marcel_t thread;
} reader_t;

bool pipe_make(int fd[2]);
void close_both(int fd[2]);
/* Let threads that were created run; mostly they wait then.  No event says that one does, and either order is right. */
void settle(void);
/* A thread: it reads one byte from the descriptor, and counts that in `got`. */
void *read_one(void *fd);
extern _Atomic(int) got;

/* fd_stream.c */
void test_to_and_fro(void);
void test_shared(void);
void test_pieces(void);
void test_big(void);

/* fd_many.c */
void test_many(void);
void test_crowd(void);
void test_connections(void);

/* fd_poll.c */
void test_poll(void);
void test_kinds(void);
void test_sleep(void);
void test_errors(void);

/* fd_close.c */
void test_close(void);
void test_others(void);

/* fd_cancel.c */
void test_cancel(void);

#endif

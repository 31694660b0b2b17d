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
/* Let created threads run; most of them wait afterwards.  No event shows that a thread waits, and either order is right. */
void settle(void);
/* Thread function: read one byte from the descriptor, and count it in `got`. */
void *read_one(void *fd);
extern _Atomic(int) got;

/* fd_stream.c */
void test_bytes_go_both_ways(void);
void test_descriptor_serves_several_threads(void);
void test_gathered_read_fills_its_pieces(void);
void test_long_write_is_completed(void);

/* fd_many.c */
void test_waiting_threads_need_no_kernel_thread(void);
void test_waits_of_100000_threads_are_cheap(void);
void test_listening_socket_serves_several_threads(void);

/* fd_poll.c */
void test_wait_ends_with_event_or_deadline(void);
void test_every_kind_of_file_can_be_waited_for(void);
void test_sleep_lasts_its_time(void);
void test_errors_are_those_of_the_system(void);

/* fd_close.c */
void test_close_ends_the_waits(void);
void test_others_run_while_a_thread_waits(void);

/* fd_cancel.c */
void test_cancel_ends_every_wait(void);

#endif

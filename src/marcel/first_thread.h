/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's first thread may end before the others, by marcel_exit or pthread_exit.  As with POSIX threads, the
 * process then ends with its last thread, as by exit(0).  But the kernel threads of the library never end by themselves.
 * So the first thread waits at its end until no other thread of the program is left, and ends the process.  Meanwhile it
 * also takes the process's signals, which all kernel threads of the library block.
 *
 * The first thread checks periodically, so that the end of other threads costs nothing.  A kernel thread of a tool
 * (ThreadSanitizer, an emulator) counts as a thread of the program: under these tools the process has to be ended by a
 * signal. */
#ifndef MADI_FIRST_THREAD_H
#define MADI_FIRST_THREAD_H

#pragma GCC visibility push(hidden)

/* Make the calling thread wait in this way at its end, if it is the first thread of the process.  Any thread may call,
 * repeatedly. */
void madi_first_thread_watch(void);

#pragma GCC visibility pop

#endif

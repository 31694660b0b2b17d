/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's first thread may end before the others, by marcel_exit or pthread_exit.  As with POSIX threads the process
 * ends when the last of them has, as by exit(0); but the kernel threads of the library never end by themselves.  So the
 * first thread waits at its end until no other thread of the program is left, and ends the process.  Meanwhile it also takes
 * the process's signals, which all kernel threads of the library block.
 *
 * It looks by the clock: the end of a thread should not have to count for this one case.  A kernel thread of a tool
 * (ThreadSanitizer's, an emulator's) counts as one of the program: there such a process has to be ended by a signal. */
#ifndef MADI_FIRST_THREAD_H
#define MADI_FIRST_THREAD_H

#pragma GCC visibility push(hidden)

/* Have the calling thread do that at its end, if it is the first one of the process.  Any thread may call, repeatedly. */
void madi_first_thread_watch(void);

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel threads of the library's own that run none of the program's threads: progress thread, door, monitor. */
#ifndef MADI_HELPER_H
#define MADI_HELPER_H

#include <pthread.h>

#pragma GCC visibility push(hidden)

/* Make one, which takes no signals: they are the application's.  attr may be NULL; name: what tools show, it has it when this
 * returns.  0 or an error number. */
int madi_helper_make(pthread_t *thread, const pthread_attr_t *attr, const char *name, void *(*run)(void *));

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of posix_locks.h and posix_threads.h, for the library that posix_names.h names. */
#ifndef MARCEL_POSIX_CASES_H
#define MARCEL_POSIX_CASES_H

#include "posix_locks.h"
#include "posix_threads.h"

#define CASE(name) name,
void (*const CASES[])(void) = {POSIX_CASES(CASE)};

#endif

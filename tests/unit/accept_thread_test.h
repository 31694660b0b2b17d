/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of accept_thread_test.c for the program of marcel_test.c. */
#ifndef ACCEPT_THREAD_TEST_H
#define ACCEPT_THREAD_TEST_H

#include <check.h>

void accept_thread_tests(TCase *tcase);

#endif

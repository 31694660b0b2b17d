/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of door_test.c for the program of marcel_test.c. */
#ifndef DOOR_TEST_H
#define DOOR_TEST_H

#include <check.h>

void door_tests(TCase *tcase);

#endif

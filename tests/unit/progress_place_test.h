/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROGRESS_PLACE_TEST_H
#define PROGRESS_PLACE_TEST_H

#include <check.h>

void progress_place_tests(TCase *tcase);

#endif

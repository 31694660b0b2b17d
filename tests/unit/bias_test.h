/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BIAS_TEST_H
#define BIAS_TEST_H

#include <check.h>

void bias_tests(TCase *tcase);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "beside.h"
void test_rows(void)
{
}

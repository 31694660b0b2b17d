/* SPDX-License-Identifier: BSD-3-Clause */
#define POSIX_MARCEL
#include "posix_cases.h"

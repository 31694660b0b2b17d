/* SPDX-License-Identifier: BSD-3-Clause */
#include "posix_cases.h"

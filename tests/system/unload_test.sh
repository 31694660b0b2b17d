#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The program that loaded a plug-in closes the library while threads that have used it still run: BUILD=<build folder>
# unload_test.sh
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
BUILD=${BUILD:?}

LD_LIBRARY_PATH=$BUILD/.libs within 30 "$BUILD/tests/unload" "$BUILD/.libs/libmadeleine.so"
check "unload: exit status" 0 $?
[ "$failures" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A C++ program that includes all public headers compiles without a warning, with each installed compiler and each
# standard, and runs: BUILD=<build folder> cplusplus_test.sh
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wold-style-cast -Wconversion -Wzero-as-null-pointer-constant -Werror"

compiled=0
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    for std in c++11 c++17 c++20; do
        for names in -DMAD_NO_OLD_NAMES -DOLD_NAMES; do
            for more in -O2 "-O0 -fno-exceptions"; do
                # shellcheck disable=SC2086
                if within 60 $cxx -std=$std $warnings $names $more -pthread -I"$src/include" -c -o "$work/program.o" \
                    "$src/tests/system/cplusplus.cpp" 2>"$work/log"; then
                    compiled=$((compiled + 1))
                else
                    not_ok "$cxx -std=$std $names $more" "$(head -20 "$work/log")"
                fi
            done
        done
        within 60 $cxx -pthread -o "$work/$cxx-$std" "$work/program.o" "$BUILD/.libs/libmadeleine.so" "$BUILD/.libs/libmarcel.so"
        LD_LIBRARY_PATH=$BUILD/.libs within 60 "$work/$cxx-$std" >"$work/log" 2>&1
        check "a program of $cxx -std=$std runs" "0 " "$? $(head -5 "$work/log")"
    done
done
[ $compiled -gt 0 ] || { echo "skipped: no C++ compiler here"; exit 77; }
ok "$compiled programs compile"
[ $failures = 0 ]

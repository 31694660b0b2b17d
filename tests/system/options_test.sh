#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_option_set, marcel_option_set, mad_version, marcel_version: BUILD=<build folder> options_test.sh
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
BUILD=${BUILD:?}
for variable in $(env | sed -n 's/^\(MAD_[A-Z_0-9]*\)=.*/\1/p'); do
    unset "$variable"
done

"$BUILD/tests/options" program 2>"$work/err"
check "a session takes what the program sets" 0 $?
check_has "the nearest name is logged" "unknown option 'MAD_DRIVER': did you mean MAD_DRIVERS?" "$work/err"
check_has "a bad value is logged" "MAD_EXIT_TIMEOUT='soon' is not valid: give a number" "$work/err"
check_lines "nothing else fails" 0 "options.c:" "$work/err"
MAD_DRIVERS=self MAD_WORKERS=3 "$BUILD/tests/options" environment 2>"$work/err"
check "the environment wins" 0 $?
check_lines "and nothing fails there" 0 "options.c:" "$work/err"
"$BUILD/tests/options" marcel 2>"$work/err"
check "libmarcel alone takes what the program sets" 0 $?
check_has "a bad number of workers is logged" "MAD_WORKERS='many' is not valid" "$work/err"

version=$(sed -n 's/^AC_INIT(\[madeleine\], \[\([0-9.]*\)\]).*/\1/p' "$src/configure.ac")
check "versions are those of the release" "madeleine $version
marcel $version" "$("$BUILD/tests/options" version)"

cat >"$work/options.cc" <<'EOF'
#include <madeleine.h>
#include <marcel.h>
int main()
{
    int major;
    mad_version(&major, nullptr, nullptr);
    marcel_version(&major, nullptr, nullptr);
    return mad_option_set("MAD_PREFER", "shm") == MAD_OK && marcel_option_set("MAD_WORKERS", "1") == 0 ? 0 : 1;
}
EOF
if cxx=$(command -v c++ || command -v g++ || command -v clang++); then
    "$cxx" -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$src/include" -fsyntax-only "$work/options.cc" 2>"$work/log"
    check "a C++ program compiles" "0 " "$? $(cat "$work/log")"
fi
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# clang-tidy finds nothing (.clang-tidy has the checks), and clang, of which it is a part, warns of nothing.  Files are
# left out if their libraries are not installed.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
version=14
for tidy in clang-tidy-$version clang-tidy ''; do
    [ -n "$tidy" ] || { echo "skipped: clang-tidy $version is not here (package clang-tidy)"; exit 77; }
    "$tidy" --version 2>/dev/null | grep -q "version $version\." && break
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Definitions and folders of headers that configure has found.
found() {
    sed -nE 's/^(DEFS|[A-Z]+_CFLAGS|[A-Z]+_CPPFLAGS|CPPFLAGS) = (.*)/\2/p' "$BUILD/Makefile" |
        grep -oE -- '-(D|I|isystem) *([^ \\]|\\.)+' | grep -vE -- '\$\(|_FORTIFY_SOURCE' | sort -u | sed 's,^-I/,-isystem /,'
}
# The warnings with which everything is compiled.
warnings() { sed -n 's/^MAD_CFLAGS = //p' "$BUILD/Makefile" | grep -oE -- '-W[a-z-]+' | grep -vx -- -Werror; }
flags="-std=gnu11 $(warnings | tr '\n' ' ') -D_GNU_SOURCE -DMADI_MODULE_FOLDER=NULL -DMADI_LAB_GUESTS=NULL -Iinclude -Isrc -Itests $(found | tr '\n' ' ')"

# findings: prints what clang-tidy reports about the files named on standard input
findings() {
    xargs -n 8 -P "$(nproc)" sh -c 'eval "$tidy --quiet \"\$@\" -- $flags"' tidy 2>/dev/null |
        sed "s,^$here/,," | grep -E '^[^/][^ ]*: (warning|error): ' | grep -v 'file not found' | sort -u
}
export tidy flags
cd "$here" || exit 1
check "clang-tidy finds nothing" "" "$(find src bench tests examples -name '*.c' ! -name old_names.c | findings | head -40)"

# found_in FILE: prints what is found in a file beside a copy of .clang-tidy
cp .clang-tidy "$work" && cd "$work" || exit 1
found_in() { here=$work && echo "$1" | findings | sed 's/.*\[//;s/\]$//'; }
printf 'int f(int a);\nint f(int a)\n{\n    return a == a;\n}\n' >bad.c
printf 'int f(void);\nint f(void)\n{\n    int a;\n    return 0;\n}\n' >loose.c
check "a mistake is found" misc-redundant-expression "$(found_in bad.c | grep misc)"
check "a warning of the compiler is found" clang-diagnostic-unused-variable "$(found_in loose.c)"
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# C sources are formatted as .clang-format says.  Other versions of clang-format differ in details.
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
version=14
for format in clang-format-$version clang-format ''; do
    [ -n "$format" ] || { echo "skipped: clang-format $version is not here (package clang-format)"; exit 77; }
    "$format" --version 2>/dev/null | grep -q "version $version\." && break
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# misformatted: prints the places that clang-format would change, in the files named on standard input
misformatted() {
    xargs "$format" --dry-run -Werror 2>&1 | grep 'error:' | head -40
}
cd "$here" || exit 1
check "sources are formatted ($format -i FILE...)" "" \
    "$(find src include bench tests examples -name '*.[ch]' -o -name '*.cpp' | misformatted)"
cp .clang-format "$work" && printf 'int f(void) {\n  return 0; }\n' >"$work/bad.c" && cd "$work" || exit 1
[ -n "$(echo bad.c | misformatted)" ] && ok "a wrong format is found" || not_ok "a wrong format is not found"
[ $failures = 0 ]

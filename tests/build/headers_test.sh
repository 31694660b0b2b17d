#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone: as C11 and as C++, with every installed compiler, and included twice in one file.
# Each internal header includes what it needs.
src=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$src/tests/harness/checks.sh"
warnings="-Wall -Wextra -Wpedantic -Werror"

# alone NAME COMPILER OPTIONS... -- HEADER
alone() {
    name=$1
    shift
    if "$@" -fsyntax-only "$work/one" 2>"$work/log"; then
        return 0
    fi
    not_ok "$name" "$(head -20 "$work/log")"
}

cd "$src/include" || exit 1
for header in $(find . -name '*.h' | sed 's|^\./||' | sort); do
    printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$header" "$header" >"$work/one"
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        # shellcheck disable=SC2086
        alone "$header as C11 with $cc" $cc -x c -std=c11 $warnings -Wstrict-prototypes -I.
        for std in c++11 c++17 c++20; do
            # shellcheck disable=SC2086
            $cc -x c++ -std=$std -fsyntax-only /dev/null 2>/dev/null || continue # no C++ here
            alone "$header as $std with $cc" $cc -x c++ -std=$std $warnings -Wold-style-cast -I.
        done
    done
    ok "header $header"
done

cd "$src/src" || exit 1
options="-D_GNU_SOURCE -std=gnu11 -Wall -Wextra -Werror -I. -I$src/include"
for header in $(find base boot core drivers marcel tools topology -name '*.h' | sort); do
    printf '#include "%s"\nextern int not_empty;\n' "$header" >"$work/one"
    # shellcheck disable=SC2086
    alone "$header alone" gcc -x c $options
done
[ $failures = 0 ] && ok "headers inside"
[ $failures = 0 ]

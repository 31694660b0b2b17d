#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the library exports is what the public headers declare, no more and no less, each under a version.
src=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
library=${BUILD:?}/.libs/libmadeleine.so

# Declarations as a compiler sees them; functions that the headers define themselves are not exported.
for header in $(cd "$src/include" && find . -name '*.h' | sed 's|^\./||'); do
    echo "#include <$header>"
done >"$work/all.c"
gcc -E -P -I"$src/include" "$work/all.c" | tr '\n' ' ' | sed 's/;/;\n/g; s/}/}\n/g' |
    grep -vE '^ *(typedef|static)' | grep -oE '\b(mad|marcel|pm2)_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' >"$work/versioned"
sed 's/@.*//' "$work/versioned" | sort -u >"$work/exported"

. "$src/tests/harness/checks.sh"
calls=$(wc -l <"$work/declared")
[ "$calls" -gt 30 ] || { not_ok "the headers declare only $calls calls"; }
if cmp -s "$work/declared" "$work/exported"; then
    ok "symbols: the $(wc -l <"$work/exported") that are declared"
else
    not_ok "symbols: declared and not exported (<), exported and not declared (>):" \
        "$(diff "$work/declared" "$work/exported" | grep '^[<>]')"
fi
if grep -qv '@@MADELEINE_[0-9]' "$work/versioned"; then
    not_ok "symbols without a version: $(grep -v '@@MADELEINE_[0-9]' "$work/versioned" | head -5 | tr '\n' ' ')"
fi
# Every undefined symbol comes from a library that ours names.
if ldd -r "$library" 2>&1 | grep -q 'undefined symbol'; then
    not_ok "the library is not whole: $(ldd -r "$library" 2>&1 | grep 'undefined symbol' | head -3)"
fi
[ $failures = 0 ]

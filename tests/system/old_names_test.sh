#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A program written for version 0.1 compiles and runs, with all names of 0.1 that have changed: BUILD=<build folder>
# old_names_test.sh
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

within 150 "$BUILD/tests/old_names" >"$work/log" 2>&1
check "the old program runs" "0 " "$? $(head -5 "$work/log")"

# The calls, each with the new name in a comment above it (libmadeleine) or behind it (libmarcel); types and constants.
awk '/^\/\* mad_[a-z_]* \*\/$/ { new = $2 } /^[a-z].*[ *]mad_[a-z_]*\(/ && new {
    sub(/\(.*/, ""); sub(/.*[ *]/, ""); print $0, new; new = "" }' "$src/include/madeleine/names_0_1.h" >"$work/calls"
sed -n 's/^int \(marcel_[a-z_]*\)(.*; *\/\* \(marcel_[a-z_]*\) \*\/$/\1 \2/p' "$src/include/marcel.h" >>"$work/calls"
sed -n 's/^#define \(mad_[a-z_]*\|MAD_[A-Z_]*\) .*/\1/p; s/^typedef .* \(mad_[a-z_]*\);$/\1/p' "$src/include/madeleine/names_0_1.h" >"$work/others"
check "calls that have another name now" 18 "$(wc -l <"$work/calls")"
check "types and constants" "mad_connection mad_connection_t MAD_GLANCE " "$(tr '\n' ' ' <"$work/others")"
lost=
for name in $(cut -d' ' -f1 "$work/calls") $(cat "$work/others"); do
    grep -qw "$name" "$src/tests/system/old_names.c" || lost="$lost $name"
done
check "the old program uses all" "" "$lost"

# The table for programmers has all names, old and new.
lost=
while read -r old new; do
    grep -qP "^$old\t$new(\t|\$)" "$src/man/madeleine-legacy.7" || lost="$lost $old"
done <"$work/calls"
for name in $(cat "$work/others"); do
    grep -qP "^$name\t" "$src/man/madeleine-legacy.7" || lost="$lost $name"
done
check "madeleine-legacy(7) has all" "" "$lost"

# Without the old names.
printf '#include <madeleine.h>\n#include <madeleine/runtime.h>\n#include <marcel.h>\n' >"$work/new.c"
gcc -E -P -DMAD_NO_OLD_NAMES -DMARCEL_NO_INLINE -I"$src/include" "$work/new.c" >"$work/new.i"
lost=
for name in $(cut -d' ' -f1 "$work/calls") $(cat "$work/others") cnx; do
    ! grep -qw "$name" "$work/new.i" || lost="$lost $name"
done
check "MAD_NO_OLD_NAMES hides all" "" "$lost"
[ $failures = 0 ]

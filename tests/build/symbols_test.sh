#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The libraries export exactly what the public headers declare, each symbol with a version.  In addition, libmarcel
# exports what libmadeleine needs (marceli_), libmadeleine exports what madgw needs (madi_gateway_) and what modules
# need (MADELEINE_DRIVER: at least the functions of driver.h).
src=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$src/tests/harness/checks.sh"

# Declarations as a compiler sees them.  Functions that the headers define are not exported, except those of marcel.h
# that are inlined for speed (gnu_inline).
for header in $(cd "$src/include" && find . -name '*.h' | sed 's|^\./||'); do
    echo "#include <$header>"
done >"$work/all.c"
gcc -E -P -DMARCEL_NO_INLINE -I"$src/include" "$work/all.c" | tr '\n' ' ' | sed 's/;/;\n/g; s/}/}\n/g' |
    grep -vE '^ *(typedef|static)' | grep -oE '\b(mad|marcel)_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$work/all"

# exports LIBRARY PREFIX VERSION LEAST
exports() {
    library=${BUILD:?}/.libs/lib$1.so
    grep "^$2_" "$work/all" >"$work/declared"
    nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' >"$work/versioned"
    sed 's/@.*//' "$work/versioned" | grep -vE '^(marceli|madi)_' | sort -u >"$work/exported"
    calls=$(wc -l <"$work/declared")
    [ "$calls" -gt "$4" ] || not_ok "the headers declare only $calls calls of $1"
    if cmp -s "$work/declared" "$work/exported"; then
        ok "symbols of $1: the $(wc -l <"$work/exported") that are declared"
    else
        not_ok "symbols of $1: declared and not exported (<), exported and not declared (>):" \
            "$(diff "$work/declared" "$work/exported" | grep '^[<>]')"
    fi
    if grep -qv "@@$3_[0-9PD]" "$work/versioned"; then
        not_ok "symbols without a version: $(grep -v "@@$3_[0-9PD]" "$work/versioned" | head -5 | tr '\n' ' ')"
    fi
    # Every undefined symbol is defined in a library to which ours is linked.
    undefined=$(LD_LIBRARY_PATH=$BUILD/.libs ldd -r "$library" 2>&1 | grep 'undefined symbol' | head -3)
    [ -z "$undefined" ] || not_ok "$1 is not whole: $undefined"
}
exports madeleine mad MADELEINE 30
exports marcel marcel MARCEL 30

abi=$(sed -n 's/^#define MADI_DRIVER_ABI //p' "$src/src/core/driver.h")
sed -n '/---- Functions of the core for drivers/,$p' "$src/src/core/driver.h" | tr '\n' ' ' | sed 's/{[^}]*}//g' |
    sed 's/static inline[^()]*([^()]*)//g' | grep -oE 'madi_[a-z_]+ *\([^)]*\);' | sed 's/ *(.*//' | sort -u >"$work/contract"
nm -D --defined-only "$BUILD/.libs/libmadeleine.so" | awk '{ print $3 }' | sed -n "s/@@MADELEINE_DRIVER_$abi\$//p" | sort >"$work/modules"
check "modules have all functions of driver.h" "" "$(comm -23 "$work/contract" "$work/modules")"
check "which the contract has many of" yes "$([ "$(wc -l <"$work/contract")" -gt 20 ] && echo yes)"

# An MPI program loads the libraries late, when there is little room left for variables of each thread that are read without
# a call (MADI_THREAD_LOCAL).  If one variable of a library is of that kind, all of them need that room.
for library in libmarcel.so libmadeleine.so libmad-fi.so mca_btl_mad.so mca_pml_mad.so; do
    file=$BUILD/.libs/$library
    [ -e "$file" ] && readelf -dW "$file" | grep -q STATIC_TLS || continue
    size=$(readelf -lW "$file" | awk '$1 == "TLS" { print $6 }')
    check "$library: at most 128 bytes of each thread" yes "$([ $((size)) -le 128 ] && echo yes || echo "$((size))")"
done
[ $failures = 0 ]

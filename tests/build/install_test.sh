#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What make install installs is enough: the program of the README compiles with pkg-config and runs.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail=0
no() { echo "not ok $*"; fail=1; }

make -s -C "$BUILD" install DESTDIR="$work/root" >"$work/log" 2>&1 || { cat "$work/log"; no "make install"; exit 1; }
for f in $(cd "$here/include" && echo madeleine.h madeleine/*.h); do
    [ -n "$(find "$work/root" -path "*/include/$f" ! -path '*/include/include/*')" ] || no "header $f is not installed"
done
bin=$(dirname "$(find "$work/root" -name madrun -type f)")
libs=$(dirname "$(find "$work/root" -name 'libmadeleine.so')")
for tool in madrun mad_perf; do
    "$bin/$tool" --help >/dev/null 2>&1 || LD_LIBRARY_PATH=$libs "$bin/$tool" --help >/dev/null 2>&1 || no "$tool --help"
done
figures=$(find "$work/root" -path '*/bench/figures')
if command -v python3 >/dev/null && ! (cd / && "$figures" --list) >"$work/log" 2>&1; then cat "$work/log"; no "figures --list"; fi
[ -n "$(find "$work/root" -path '*/libexec/*/raw_tcp' -type f)" ] || no "what figures runs is not installed"
[ $fail -eq 0 ] && echo "ok headers, tools and figures are installed"

sed -n '/^```c$/,/^```$/p' "$here/README.md" | sed '/^```/d' >"$work/readme.c"
cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
cflags=$(sed -n 's/^MAD_CFLAGS = //p' "$BUILD/Makefile")
flags=$(PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$libs/pkgconfig pkg-config --cflags --libs madeleine)
# shellcheck disable=SC2086
if [ -s "$work/readme.c" ] && $cc $cflags -Werror -o "$work/readme" "$work/readme.c" $flags >"$work/log" 2>&1; then
    out=$(LD_LIBRARY_PATH=$libs timeout 30 "$bin/madrun" --no-label -n 2 "$work/readme" 2>&1)
    [ "$out" = "hello from rank 0" ] && echo "ok the program of the README" || no "the program of the README: $out"
else
    cat "$work/log"
    no "the program of the README does not compile ($flags)"
fi
exit $fail

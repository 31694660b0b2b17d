#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The files that `make install` installs suffice: the program of the README compiles with pkg-config, and runs.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/tests/harness/checks.sh"

make -s -C "$BUILD" install DESTDIR="$work/root" >"$work/log" 2>&1 || { cat "$work/log"; not_ok "make install"; exit 1; }
for f in $(cd "$here/include" && echo marcel.h madeleine.h madeleine/*.h); do
    [ -n "$(find "$work/root" -path "*/include/$f" ! -path '*/include/include/*')" ] || not_ok "header $f is not installed"
done
bin=$(dirname "$(find "$work/root" -name madrun -type f)")
libs=$(dirname "$(find "$work/root" -name 'libmadeleine.so')")
for tool in madrun mad_perf marcel_perf; do
    "$bin/$tool" --help >/dev/null 2>&1 || LD_LIBRARY_PATH=$libs "$bin/$tool" --help >/dev/null 2>&1 || not_ok "$tool --help"
done
figures=$(find "$work/root" -path '*/bench/figures')
if command -v python3 >/dev/null && ! (cd / && "$figures" --list) >"$work/log" 2>&1; then cat "$work/log"; not_ok "figures --list"; fi
[ -n "$(find "$work/root" -path '*/libexec/*/raw_tcp' -type f)" ] || not_ok "what figures runs is not installed"
[ $failures = 0 ] && ok "headers, tools and figures are installed"

# libtool links libraries for one folder.  Before this check existed, libmarcel was installed to the other folder,
# and only then did libtool fail, with an error of its own.
make -s -C "$BUILD" install prefix="$work/other" >"$work/log" 2>&1 && not_ok "make install prefix=/other says that it worked"
if grep -q 'run configure with that --prefix' "$work/log" && [ ! -e "$work/other" ]; then
    ok "make install to another prefix is refused, with what to do, before anything is written"
else
    not_ok "make install prefix=/other" "$(tail -5 "$work/log")"
fi

sed -n '/^```c$/,/^```$/p' "$here/README.md" | sed '/^```/d' >"$work/readme.c"
cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
cflags=$(sed -n 's/^MAD_CFLAGS = //p' "$BUILD/Makefile")
flags=$(PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$libs/pkgconfig pkg-config --cflags --libs madeleine)
# shellcheck disable=SC2086
if [ -s "$work/readme.c" ] && LD_LIBRARY_PATH=$libs $cc $cflags -Werror -o "$work/readme" "$work/readme.c" $flags >"$work/log" 2>&1; then
    out=$(LD_LIBRARY_PATH=$libs timeout 30 "$bin/madrun" --no-label -n 2 "$work/readme" 2>&1)
    [ "$out" = "hello from rank 0" ] && ok "the program of the README" || not_ok "the program of the README: $out"
else
    cat "$work/log"
    not_ok "the program of the README does not compile ($flags)"
fi
[ $failures = 0 ]

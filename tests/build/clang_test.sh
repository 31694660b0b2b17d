#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A build without any optional dependency has no warning; with LONG=1, nor has one of everything by clang.  In the short
# form clang compiles each file in tidy_test.sh, and builds the library in sanitize.sh and in fuzz/run.sh.
src=$(cd "$(dirname "$0")/../.." && pwd)
work=${BUILD:?}/clang
. "$src/tests/harness/checks.sh"

# build NAME GOAL OPTIONS...
build() {
    name=$1 goal=$2
    shift 2
    mkdir -p "$work/$name"
    if (cd "$work/$name" && { [ -f Makefile ] || "$src/configure" -q --enable-werror "$@"; } &&
        make -j"$(nproc)" "$goal") >"$work/$name.log" 2>&1; then
        ok "build $name"
    else
        not_ok "build $name: see $work/$name.log" "$(grep -E 'error|warning' "$work/$name.log" | head -20)" \
            "$(tail -5 "$work/$name.log")"
    fi
}

build plain all --without-pmix --without-hwloc --without-ipsec-mb --without-libconfig --without-seccomp --without-openmpi \
    --without-libfabric --without-ucx --without-modules CFLAGS=-O0
if [ -n "$LONG" ]; then
    if command -v clang >/dev/null; then
        build clang programs CC=clang CFLAGS=-O0 # with -O0, because the warnings are the same
    else
        echo "clang is not here (package clang)"
    fi
fi
[ $failures = 0 ]

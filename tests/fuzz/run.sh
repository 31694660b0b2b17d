#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Fuzz every parser of bytes from outside with libFuzzer and sanitizers: BUILD=<build folder> run.sh [TARGET...]
# SECONDS_EACH=N: duration of each (3; LONG=1: 120).  New inputs go to BUILD/fuzz/corpus/TARGET, findings to
# BUILD/fuzz/found/TARGET.  The build for seconds is without optimization: compiling it takes a third of the time.
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)
BUILD=${BUILD:-$src/build}
seconds=${SECONDS_EACH:-${LONG:+120}}
seconds=${seconds:-3}
targets=${*:-address boot coll eth forward frames hello hosts info job name offer packets pmi race seal shm spec stranger tcp topology ucx}
out=$BUILD/fuzz
mkdir -p "$out/corpus" "$out/found"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { (void)d; return n > 9; }' >"$out/probe.c"
if ! clang -fsanitize=fuzzer,address "$out/probe.c" -o "$out/probe" >/dev/null 2>&1; then
    echo "skipped: clang with libFuzzer is not here (packages clang, libclang-rt-dev)"
    exit 77
fi
flags="$([ "$LONG" ] && echo -O1 || echo -O0) -g1 -fno-sanitize-recover=all"
if [ ! -f "$out/Makefile" ] || [ "$(cat "$out/flags")" != "$flags" ]; then
    [ ! -f "$out/Makefile" ] || make -s -C "$out" clean >"$out/make.log" 2>&1
    (cd "$out" && "$src/configure" -q --enable-sanitizer=fuzzer-no-link,address,undefined CC=clang CFLAGS="$flags" \
        CPPFLAGS=-DMADI_FOREIGN_HOOK >configure.log 2>&1) || { tail -5 "$out/configure.log"; exit 1; }
    echo "$flags" >"$out/flags"
fi
make -s -j"$(nproc)" -C "$out" tests/fuzz/fuzz LDFLAGS="-fsanitize=fuzzer" >"$out/make.log" 2>&1 || { tail -20 "$out/make.log"; exit 1; }
# Without a lower limit of descriptors, so that a leak of them shows.
ulimit -n 4096 2>/dev/null
fuzz_one() {
    mkdir -p "$out/corpus/$1" "$out/found/$1"
    if FUZZ_TARGET=$1 timeout $((seconds + 60)) "$out/tests/fuzz/fuzz" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=1024 -malloc_limit_mb=256 -max_len=4096 -use_value_profile=1 -print_final_stats=1 \
        -artifact_prefix="$out/found/$1/" "$out/corpus/$1" "$here/corpus/$1" >"$out/$1.log" 2>&1; then
        echo "ok fuzz-$1 ($(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$1.log") inputs)"
    else
        echo "not ok fuzz-$1"
        grep -v '^#' "$out/$1.log" | tail -40
        echo "the input is in $out/found/$1; again: FUZZ_TARGET=$1 $out/tests/fuzz/fuzz FILE"
        return 1
    fi
}
# As many at once as there are processors, so that each has one for itself.
failed=0
# shellcheck disable=SC2086
set -- $targets
while [ $# -gt 0 ]; do
    running=
    while [ $# -gt 0 ] && [ "$(echo "$running" | wc -w)" -lt "$(nproc)" ]; do
        fuzz_one "$1" >"$out/$1.said" &
        running="$running $1:$!"
        shift
    done
    for one in $running; do
        wait "${one#*:}" || failed=1
        cat "$out/${one%:*}.said"
    done
done
exit $failed

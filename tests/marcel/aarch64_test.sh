#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The switch for aarch64: built by a cross compiler, run by qemu, as far as both are here.
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/packages.sh"
install_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null ||
    { echo "no cross compiler or no qemu for aarch64"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM HUP
options="-O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -I$src/include -I$src/src -pthread"
# As many at once as there are processors.
# shellcheck disable=SC2086
built() {
    for f in "$src"/tests/marcel/threads*.c "$src/tests/marcel/support.c" "$src/tests/harness/cases.c" \
        "$src"/src/marcel/*.[cS] "$src"/src/base/knob.c "$src"/src/base/lock.c "$src"/src/base/log.c "$src"/src/base/status.c; do
        echo "-c $f -o $work/$(echo "${f#"$src"/}" | tr / _).o"
    done | xargs -P "$(nproc)" -L 1 aarch64-linux-gnu-gcc $options &&
        aarch64-linux-gnu-gcc $options -o "$work/threads" "$work"/*.o -lm
}
if ! built >"$work/log" 2>&1; then
    head -20 "$work/log"
    echo "not ok built for aarch64"
    exit 1
fi
echo "ok built for aarch64"
# Faults on guards are not what this is about, and what qemu makes of address space and signals is its own.
timeout 120 qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/threads" self join tree detach priority fair yield_to names keepfp \
    keys once mutex mutex_types cond broadcast sem deadline sleep >"$work/log" 2>&1
rc=$?
sed 's/^\(ok\|not ok\) /&aarch64: /' "$work/log"
exit $rc

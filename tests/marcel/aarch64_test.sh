#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The switch for aarch64: built by a cross compiler, and run by qemu, if both are installed.
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/packages.sh"
install_packages gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null ||
    { echo "no cross compiler or no qemu for aarch64"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM HUP
options="-O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -I$src/include -I$src/src -pthread"
cases=$src/tests/marcel/cxx
# The files of base that libmarcel is made of, with paths from the top.
base_files() {
    sed -n '/^marcel_base/,$ s/^.*\(src\/base\/[a-z_]*\.c\).*/\1/p' "$src/src/marcel/marcel.am"
    echo src/base/status.c
}
# Compile as many files at once as there are processors. shellcheck disable=SC2086,SC2046
built() {
    for f in "$src"/tests/marcel/threads*.c "$src/tests/marcel/support.c" "$src/tests/harness/cases.c" \
        "$src"/src/engine/*.c "$src"/src/marcel/*.[cS] $(base_files | sed "s|^|$src/|"); do
        echo "-fexceptions -c $f -o $work/$(echo "${f#"$src"/}" | tr / _).o"
    done | xargs -P "$(nproc)" -L 1 aarch64-linux-gnu-gcc $options &&
        aarch64-linux-gnu-gcc $options -o "$work/threads" "$work"/*.o -lm
}
# Build the C++ cases, which are linked with the library's objects only. shellcheck disable=SC2086
built_cxx() {
    aarch64-linux-gnu-gcc $options -c -DNAME=tables -o "$work/tables.o" "$cases/frames.c" &&
        aarch64-linux-gnu-gcc $options -c -DNAME=cleanup -fexceptions -o "$work/cleanup.o" "$cases/frames.c" &&
        aarch64-linux-gnu-gcc $options -c -DNAME=plain -fno-asynchronous-unwind-tables -fno-unwind-tables \
            -o "$work/plain.o" "$cases/frames.c" &&
        aarch64-linux-gnu-g++ $options -std=c++17 -o "$work/cxx" "$cases"/*.cpp "$work"/src_*.o "$work/tables.o" \
            "$work/cleanup.o" "$work/plain.o"
}
# Run a program under qemu.  qemu keeps records of each reserved page.  With 64 GiB of addresses (-R) Marcel reserves
# less for its stacks, and a run takes seconds, not minutes.
emulated() {
    timeout 120 qemu-aarch64 -R 0x1000000000 -L /usr/aarch64-linux-gnu "$@"
}
if ! built >"$work/log" 2>&1; then
    head -20 "$work/log"
    echo "not ok built for aarch64"
    exit 1
fi
echo "ok built for aarch64"
# Faults on guard pages are left out, because qemu handles address space and signals in its own way.
emulated "$work/threads" self_identifies_its_thread join_returns_the_result_once tree_of_threads_adds_up \
    detached_threads_end_by_themselves higher_priority_runs_first yields_let_all_others_run \
    yield_to_runs_the_named_thread thread_keeps_its_name keepfp_keeps_the_rounding_mode \
    key_values_are_destroyed_at_the_end once_runs_once mutex_excludes_all_kinds_of_threads mutex_types_behave_as_named \
    cond_loses_no_item broadcast_wakes_all sem_counts_posts wait_ends_at_its_deadline sleepers_wake_in_order >"$work/log" 2>&1
rc=$?
sed 's/^\(ok\|not ok\) /&aarch64: /' "$work/log"
command -v aarch64-linux-gnu-g++ >/dev/null || exit $rc
# All cases run in one process, because each process reserves room for stacks.
if built_cxx >"$work/log" 2>&1 && emulated "$work/cxx" --here rethrow_finds_its_exception nested_exceptions_stay_apart \
    uncaught_are_counted_by_thread exception_goes_to_another_thread handler_may_join \
    handler_may_block once_that_throws_runs_again cleanups_run_among_destructors \
    destructors_run_in_order key_ends_after_the_unwinding unwinding_passes_c_frames \
    frames_without_tables_end_the_unwinding handler_may_exit_the_thread \
    rethrown_exit_goes_on many_threads_unwind_at_once \
    small_stack_suffices_for_unwinding cancel_unwinds_everywhere >"$work/log" 2>&1; then
    echo "ok aarch64: exceptions of C++, and the ends of threads"
else
    head -40 "$work/log"
    echo "not ok aarch64: exceptions of C++, and the ends of threads"
    rc=1
fi
exit $rc

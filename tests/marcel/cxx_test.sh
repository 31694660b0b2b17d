#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads of C++ programs: exceptions, and handlers at the end of a thread, behave as with POSIX threads: cxx_test.sh
# [COMPILER...]
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/packages.sh"
install_packages g++
: "${BUILD:?}"
compilers=${*:-g++ clang++ clang++_-stdlib=libc++}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$src/tests/harness/checks.sh"
limit=200
cases=$src/tests/marcel/cxx
warnings="-Wall -Wextra -Werror"
echo 'int main() { try { throw 1; } catch (int) { } }' >"$work/any.cpp"

# object NAME OPTIONS...: compiles frames.c to NAME.o
object() {
    frames=$1
    shift
    # shellcheck disable=SC2086
    "$cc" $warnings -O2 -fPIC -c -o "$work/$frames.o" "-DNAME=$frames" "$@" "$cases/frames.c"
}

# program NAME OPTIONS...: builds the program from all sources
program() {
    result=$1
    shift
    # shellcheck disable=SC2086
    object tables -fasynchronous-unwind-tables $defines && object cleanup -fexceptions $defines &&
        object plain -fno-asynchronous-unwind-tables -fno-unwind-tables $defines &&
        $cxx $warnings -std=c++17 -pthread $defines -o "$work/$result" "$cases"/*.cpp "$work/tables.o" \
            "$work/cleanup.o" "$work/plain.o" "$@"
}

# right NAME COMMAND...: checks that all cases pass
right() {
    name=$1
    shift
    within $limit "$@" >"$work/log" 2>&1
    rc=$?
    if [ $rc = 0 ]; then ok "$name"; else not_ok "$name (exit status $rc)" "$(head -40 "$work/log")"; fi
}

built() {
    if program "$@" 2>"$work/errors"; then return 0; fi
    not_ok "build $1 by $cxx" "$(head -20 "$work/errors")"
    return 1
}

# libc++ unwinds by a library of its own, and glibc by gcc's.  So pthread_exit does not work there at all, and a foreign
# exception is never thrown again.
of_libcxx="rethrow_finds_its_exception rethrow_finds_it_on_another_worker nested_exceptions_stay_apart
    uncaught_are_counted_by_thread exception_goes_to_another_thread handler_may_join handler_may_block
    once_that_throws_runs_again cleanups_run_among_destructors escaped_exception_terminates destructors_run_in_order
    key_ends_after_the_unwinding unwinding_passes_c_frames frames_without_tables_end_the_unwinding
    handler_may_exit_the_thread many_threads_unwind_at_once small_stack_suffices_for_unwinding cancel_unwinds_everywhere
    swallowed_exit_aborts exit_through_noexcept_terminates throwing_key_destructor_terminates"
libs="-I$src/include -L$BUILD/.libs -Wl,-rpath,$BUILD/.libs -lmarcel"
for cxx in $compilers; do
    cxx=$(echo "$cxx" | tr _ ' ')
    cc=$(echo "${cxx%% *}" | sed 's/clang++$/clang/; s/g++$/gcc/')
    $cxx -o "$work/any" "$work/any.cpp" 2>/dev/null || { echo "skipped: no $cxx here"; continue; }
    only= # all cases
    case $cxx in
    *libc++) only=$of_libcxx ;;
    *)
        defines=-DPTHREAD
        built pthread -O2 && right "$cxx: POSIX threads" "$work/pthread"
        ;;
    esac
    defines=-I$src/include
    for level in -O0 -O2; do
        # shellcheck disable=SC2086
        built marcel $level $libs || continue
        for workers in 1 2 4; do
            # shellcheck disable=SC2086
            right "$cxx $level: $workers workers" env MAD_WORKERS=$workers "$work/marcel" $only
        done
    done
    # shellcheck disable=SC2086
    if [ "$cxx" = g++ ] && built static -O2 -static-libstdc++ $libs; then
        right "$cxx: run time within the program" "$work/static"
    fi
    # shellcheck disable=SC2086
    if built loaded.so -O2 -fPIC -shared $libs && gcc $warnings -o "$work/load" "$cases/load.c" $libs; then
        for case in rethrow_finds_its_exception nested_exceptions_stay_apart uncaught_are_counted_by_thread \
            handler_may_join many_threads_unwind_at_once cancel_unwinds_everywhere; do
            for how in main thread; do
                right "$cxx: $case, loaded by a $how" env MAD_WORKERS=2 "$work/load" "$work/loaded.so" $case $how
            done
            right "$cxx: $case, loaded beside libstdc++" env MAD_WORKERS=2 "$work/load" "$work/loaded.so" $case main \
                libstdc++.so.6
        done
    fi
done
[ "$failures" = 0 ]

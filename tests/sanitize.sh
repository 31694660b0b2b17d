#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run the tests again, built with sanitizers, and some of them under valgrind: BUILD=<build folder> sanitize.sh
# [address|ucontext|thread|stress|valgrind].  Each kind has a build of its own in BUILD/sanitize; valgrind uses BUILD
# itself.  LONG=1: also what differs from another check only in its network, or is also run by tests/fuzz/run.sh.
src=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${BUILD:?}
kinds=${*:-address ucontext thread valgrind}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP
# For a program without an end: each gives its cases deadlines of its own, of 30 or 60 s.  ThreadSanitizer's suite over tcp
# takes 100 s where a page fault takes 15 us.
limit=${limit:-600}
. "$src/tests/harness/checks.sh"

# quiet NAME COMMAND...: checks that the command ends with 0, and that no sanitizer has reported anything
quiet() {
    name=$1
    shift
    within "$limit" "$@" >"$log" 2>&1
    rc=$?
    if [ $rc -eq 0 ] && ! grep -qE 'Sanitizer|runtime error:|^not ok' "$log"; then
        ok "$name"
    else
        not_ok "$name (exit status $rc): $*" "$(grep -vE '^ok |is disturbed; |mad: .*: warning: ' "$log" | head -60)"
    fi
}

# build KIND CONFIGURE-OPTIONS... -- PROGRAMS...: makes the build of this kind.  -g1: reports name functions and lines, and
# compiling takes a quarter less than with -g.
build() {
    kind=$1 options=
    shift
    while [ "$1" != -- ]; do options="$options $1"; shift; done
    shift
    mkdir -p "$BUILD/sanitize/$kind"
    # shellcheck disable=SC2086
    if ! (cd "$BUILD/sanitize/$kind" &&
        { [ -f Makefile ] || "$src/configure" -q $options CFLAGS="-O1 -g1"; } && make -j2 "$@") >"$log" 2>&1; then
        not_ok "build with $kind sanitizer" "$(tail -20 "$log")"
        return 1
    fi
}

# Without tests of stack overflows and of children that die: the sanitizer itself reports these.
marcel_tests="self_identifies_its_thread join_returns_the_result_once tree_of_threads_adds_up
    detached_threads_end_by_themselves higher_priority_runs_first yields_let_all_others_run yield_to_runs_the_named_thread
    event_is_seen_between_long_turns all_queues_get_on_between_long_turns seeds_run_by_their_priority
    attributes_keep_legal_values_only stack_has_the_size_asked_for thread_keeps_its_name keepfp_keeps_the_rounding_mode
    key_values_are_destroyed_at_the_end once_runs_once mutex_excludes_all_kinds_of_threads mutex_types_behave_as_named
    mutex_held_mostly_is_shared cond_loses_no_item broadcast_wakes_all sem_counts_posts wait_ends_at_its_deadline
    post_at_the_deadline_counts_once sleepers_wake_in_order library_with_20000_threads_cannot_end library_starts_again"

# Without the test with very many threads: each would take mappings of AddressSanitizer, and a process has only a
# limited number.
fd_tests="bytes_go_both_ways descriptor_serves_several_threads gathered_read_fills_its_pieces long_write_is_completed
    listening_socket_serves_several_threads wait_ends_with_event_or_deadline every_kind_of_file_can_be_waited_for
    errors_are_those_of_the_system close_ends_the_waits others_run_while_a_thread_waits sleep_lasts_its_time
    cancel_ends_every_wait"

address() {
    unit=$([ ! -x "$BUILD/tests/unit/unit" ] || echo tests/unit/unit tests/unit/shm_ring)
    ofi=$([ ! -e "$BUILD/drivers/.libs/ofi.so" ] || echo drivers/ofi.la)
    examples=$(cd "$src" && echo examples/*.c | sed 's/\.c//g')
    ucx=$([ ! -e "$BUILD/drivers/.libs/ucx.so" ] || echo drivers/ucx.la)
    # shellcheck disable=SC2086
    build address --enable-sanitizer=address,undefined -- madrun $examples tests/coll_each tests/conform tests/soak/soak \
        tests/marcel/blocking tests/marcel/fd tests/marcel/locks tests/marcel/stress tests/marcel/threads tests/marcel/workers \
        tests/channel_churn tests/no_memory tests/topology_memory tests/device tests/device_bounds tests/device_match \
        ${LONG:+tests/fuzz/replay} $unit $ofi $ucx || return
    b=$BUILD/sanitize/address
    # Check's forked children end without freeing their parent's memory, so other tests look for leaks.  A suite at a
    # time: each case is a fork, which takes long with a sanitizer's mappings.
    for suite in $([ ! "$unit" ] || "$b/tests/unit/unit" --list); do
        quiet "address: unit, $suite" env ASAN_OPTIONS=detect_leaks=0 "$b/tests/unit/unit" "$suite"
    done
    [ ! "$unit" ] || quiet "address: shm_ring" env ASAN_OPTIONS=detect_leaks=0 "$b/tests/unit/shm_ring"
    export BUILD="$b" ASAN_OPTIONS=detect_stack_use_after_return=1
    # shellcheck disable=SC2086
    quiet "address: user-level threads" "$b/tests/marcel/threads" $marcel_tests
    quiet "address: user-level threads of several workers" "$b/tests/marcel/workers"
    # shellcheck disable=SC2086
    quiet "address: descriptors" "$b/tests/marcel/fd" waiting_threads_need_no_kernel_thread $fd_tests
    quiet "address: blocking calls" "$b/tests/marcel/blocking"
    quiet "address: locks and cancellation" "$b/tests/marcel/locks"
    quiet "address: random graphs of threads" "$b/tests/marcel/stress" --seconds 5
    quiet "address: the matching device, bounds" "$b/tests/device_bounds"
    quiet "address: the matching device, who meets whom" "$b/tests/device_match"
    for how in polled:shm handled:tcp ${LONG:+polled:tcp handled:shm}; do
        quiet "address: the matching device, $how" env MAD_DRIVERS="self,${how#*:}" "$b/tests/device" "${how%:*}"
    done
    quiet "address: the matching device, two keys" "$b/tests/device" keys
    quiet "address: one allocation fails" "$b/tests/no_memory"
    quiet "address: one allocation fails, topology" "$b/tests/topology_memory"
    quiet "address: channels without end" env MAD_PREFER=shm "$b/madrun" -n 2 "$b/tests/channel_churn" 20000
    [ -z "$LONG" ] || quiet "address: seeds of the fuzzers" sh "$src/tests/fuzz/seeds.sh"
    quiet "address: collective operations" "$b/madrun" -n 3 "$b/tests/coll_each" each
    quiet "address: examples" sh "$src/tests/system/examples.sh"
    quiet "address: conformance over self" "$b/tests/conform" all
    for driver in shm tcp; do
        quiet "address: conformance over $driver" env MAD_PREFER=$driver "$b/madrun" -n 2 "$b/tests/conform" all
    done
    [ ! "$ucx" ] || quiet "address: conformance over ucx-tcp" env MAD_MODULES="$b/drivers/.libs" MAD_DRIVERS=self,ucx \
        MAD_PREFER=ucx UCX_TLS=tcp "$b/madrun" -n 2 "$b/tests/conform" all
    for provider in ${ofi:+tcp ${LONG:+shm}}; do # one session, since shm connects no two of one process
        quiet "address: conformance over ofi, provider $provider" env MAD_MODULES="$b/drivers/.libs" MAD_DRIVERS=self,ofi \
            MAD_OFI_PROVIDERS="$provider" "$b/madrun" -n 2 "$b/tests/conform" all
    done
    quiet "address: conformance over shm by user-level threads" env CONFORM_THREADS=marcel MAD_PREFER=shm "$b/madrun" -n 2 \
        "$b/tests/conform" all
    for driver in shm ${LONG:+self tcp}; do
        quiet "address: soak over $driver" env MESSAGES=4K sh "$src/tests/soak/run.sh" $driver
    done
    quiet "address: soak over fault:tcp" env MESSAGES=2K sh "$src/tests/soak/run.sh" fault:tcp
}

# A build without a switch of our own.
ucontext() {
    build ucontext --enable-ucontext --enable-sanitizer=address,undefined -- libmarcel.la tests/marcel/blocking \
        tests/marcel/threads || return
    # shellcheck disable=SC2086
    quiet "ucontext: user-level threads" "$BUILD/sanitize/ucontext/tests/marcel/threads" $marcel_tests
    quiet "ucontext: blocking calls" "$BUILD/sanitize/ucontext/tests/marcel/blocking"
}

# ThreadSanitizer sees neither memory shared between processes nor membarrier, so only self and tcp test the core's
# threads.
thread() {
    cc=
    command -v clang >/dev/null && cc=CC=clang # gcc's knows no atomic_thread_fence
    build thread --enable-sanitizer=thread $cc -- libmadeleine.la madrun tests/channel_churn tests/coll_each tests/conform \
        tests/marcel/blocking tests/marcel/fd tests/marcel/threads tests/marcel/workers \
        tests/marcel/locks tests/marcel/stress tests/soak/soak tests/device || return
    b=$BUILD/sanitize/thread
    export BUILD="$b" TSAN_OPTIONS=exitcode=66
    # shellcheck disable=SC2086
    quiet "thread: user-level threads" "$b/tests/marcel/threads" $marcel_tests
    for workers in 4 ${LONG:+2}; do
        quiet "thread: user-level threads of $workers workers" env WORKERS=$workers "$b/tests/marcel/workers"
    done
    # shellcheck disable=SC2086
    quiet "thread: descriptors" "$b/tests/marcel/fd" $fd_tests
    quiet "thread: blocking calls" "$b/tests/marcel/blocking"
    quiet "thread: locks and cancellation" "$b/tests/marcel/locks"
    quiet "thread: random graphs of threads" "$b/tests/marcel/stress" --seconds $([ "$LONG" ] && echo 10 || echo 5)
    quiet "thread: conformance over self" "$b/tests/conform" all
    quiet "thread: conformance over tcp" env MAD_PREFER=tcp "$b/madrun" -n 2 "$b/tests/conform" all
    quiet "thread: conformance over rails" env MAD_DRIVERS=self,skeleton,pipes MAD_PREFER=skeleton "$b/madrun" -n 2 \
        "$b/tests/conform" all
    [ -z "$LONG" ] ||
        quiet "thread: conformance over self by user-level threads" env CONFORM_THREADS=marcel "$b/tests/conform" all
    quiet "thread: conformance over tcp by user-level threads" env CONFORM_THREADS=marcel MAD_PREFER=tcp "$b/madrun" -n 2 \
        "$b/tests/conform" all
    for mode in threaded handled; do
        quiet "thread: the matching device over tcp, $mode" env MAD_DRIVERS=self,tcp "$b/tests/device" $mode
    done
    quiet "thread: collective operations over tcp" env MAD_DRIVERS=self,tcp "$b/madrun" -n 3 "$b/tests/coll_each" threads
    quiet "thread: channels without end" "$b/tests/channel_churn" 5000
    for driver in tcp ${LONG:+self}; do
        quiet "thread: soak over $driver" env MESSAGES=4K sh "$src/tests/soak/run.sh" $driver
    done
}

# Ten minutes of stress (SECONDS_=N: another time), for tests/marcel/stress.sh.
stress() {
    cc=
    command -v clang >/dev/null && cc=CC=clang
    build thread --enable-sanitizer=thread $cc -- libmarcel.la tests/marcel/stress || return
    limit=$((${SECONDS_:-600} + 120)) TSAN_OPTIONS=exitcode=66
    export TSAN_OPTIONS
    quiet "thread: random graphs of threads, ${SECONDS_:-600} s" "$BUILD/sanitize/thread/tests/marcel/stress" \
        --seconds "${SECONDS_:-600}" --limit 60
}

# memcheck NAME COMMAND...
memory() {
    command -v valgrind >/dev/null || { echo "valgrind is not here"; return; }
    memcheck="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite
        --fair-sched=yes --trace-children=no --suppressions=$src/tests/valgrind.supp"
    conform=$BUILD/tests/conform string=$BUILD/examples/string threads=$BUILD/tests/marcel/threads
    # shellcheck disable=SC2086
    quiet "valgrind: conformance over self" env CONFORM_DEADLINE=150 $memcheck "$conform" modes_alone blocks_pieces \
        posted_before mismatch_cases
    # shellcheck disable=SC2086
    quiet "valgrind: conformance over self by user-level threads" env CONFORM_DEADLINE=150 CONFORM_THREADS=marcel $memcheck \
        "$conform" modes_alone blocks_pieces posted_before
    # shellcheck disable=SC2086
    quiet "valgrind: user-level threads" $memcheck "$threads" self_identifies_its_thread join_returns_the_result_once \
        tree_of_threads_adds_up higher_priority_runs_first yield_to_runs_the_named_thread key_values_are_destroyed_at_the_end \
        once_runs_once mutex_types_behave_as_named broadcast_wakes_all sem_counts_posts
    # shellcheck disable=SC2086
    for driver in shm tcp; do
        quiet "valgrind: a message over $driver" env MAD_PREFER=$driver "$BUILD/madrun" -n 2 $memcheck "$string"
    done
}

for kind in $kinds; do
    case $kind in
    address | ucontext | thread | stress) ( $kind; [ $failures = 0 ] ) || failures=1 ;;
    valgrind) ( memory; [ $failures = 0 ] ) || failures=1 ;;
    *) echo "sanitize.sh [address|ucontext|thread|stress|valgrind]"; exit 2 ;;
    esac
done
[ $failures = 0 ]

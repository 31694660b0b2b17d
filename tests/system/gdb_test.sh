#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# marcel-gdb.py: gdb lists the user-level threads, and shows where those are that are switched out: BUILD=<build folder>
# gdb_test.sh
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
. "$here/../harness/checks.sh"
command -v gdb >/dev/null || { echo "skipped: gdb is not installed"; exit 77; }
gdb -batch -ex 'python print(1)' 2>/dev/null | grep -q 1 || { echo "skipped: this gdb has no python"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
client=$BUILD/tests/gdb_client
[ -x "$client" ] || client=$BUILD/tests/gdb_client

LD_LIBRARY_PATH=$BUILD/.libs within 60 gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set width 0' -ex run \
    -ex "source $here/../../src/tools/marcel-gdb.py" -ex 'marcel threads' -ex 'echo --bt\n' -ex 'marcel bt semaphore' \
    -ex 'echo --again\n' -ex 'backtrace 5' -ex 'marcel thread sleeper' -ex 'marcel thread' -ex 'echo --running\n' \
    -ex 'thread 1' -ex 'marcel bt stopper' -ex 'echo --all\n' -ex 'marcel bt all' -ex 'echo --kill\n' \
    -ex kill "$client" >"$dir/out" 2>&1 </dev/null
if grep -q 'ptrace: Operation not permitted' "$dir/out"; then
    echo "skipped: this process may not trace others"
    exit 77
fi
sed -n '/^ *[0-9]* .* worker /p' "$dir/out" >"$dir/threads"
sed -n '/^--bt/,/^--again/p' "$dir/out" >"$dir/bt"
sed -n '/^--again/,/^--running/p' "$dir/out" >"$dir/again"
sed -n '/^--running/,/^--all/p' "$dir/out" >"$dir/running"
sed -n '/^--all/,/^--kill/p' "$dir/out" >"$dir/all"
check_lines "four threads" 4 'worker 0' "$dir/threads"
check_lines "one waits for a semaphore" 1 'semaphore +worker 0 +waiting .*(marcel_sem_wait\(|waits_deep_inside)' "$dir/threads"
check_lines "one for a condition" 1 'condition +worker 0 +waiting .*(marcel_cond_wait\(|condition_main)' "$dir/threads"
check_lines "one for a time" 1 'sleeper +worker 0 +waiting .*(marcel_nanosleep\(|sleep_main)' "$dir/threads"
check_lines "one runs" 1 'stopper +worker 0 +running' "$dir/threads"
check_lines "a backtrace of one that is switched out" 4 'in waits_deep_inside \(' "$dir/bt"
check_lines "it goes to the thread's main function" 1 'in semaphore_main \(' "$dir/bt"
check_lines "it begins with 0" 1 '^#0 ' "$dir/bt"
check_lines "nothing else is shown in it" 0 'in (raise|stop_main|main) \(' "$dir/bt"
check_lines "gdb's own backtrace is as before" 1 'stop_main \(' "$dir/again"
check_lines "a backtrace of one that runs, from another kernel thread" 1 'stop_main \(' "$dir/running"
check_lines "backtraces of all" 4 ' in (semaphore_main|condition_main|sleep_main|stop_main) \(' "$dir/all"

# Like the test above, but with a core file, if the kernel writes one here.
(cd "$dir" && ulimit -c unlimited && LD_LIBRARY_PATH=$BUILD/.libs within 60 "$client") >/dev/null 2>&1
core=$(ls "$dir"/core* 2>/dev/null | head -1)
if [ -n "$core" ]; then
    LD_LIBRARY_PATH=$BUILD/.libs within 60 gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set width 0' \
        -ex "source $here/../../src/tools/marcel-gdb.py" -ex 'marcel threads' -ex 'echo --all\n' -ex 'marcel bt all' \
        -ex 'echo --kill\n' "$client" "$core" >"$dir/out.core" 2>&1 </dev/null
    sed -n '/^ *[0-9]* .* worker /p' "$dir/out.core" >"$dir/threads"
    sed -n '/^--all/,/^--kill/p' "$dir/out.core" >"$dir/all"
    check_lines "core file: four threads" 4 'worker 0' "$dir/threads"
    check_lines "core file: one waits for a semaphore" 1 'semaphore +worker 0 +waiting ' "$dir/threads"
    check_lines "core file: backtraces of all" 4 ' in (semaphore_main|condition_main|sleep_main|stop_main) \(' "$dir/all"
    [ $failures = 0 ] || cat "$dir/out.core" >>"$dir/out"
else
    echo "# no core file is written here"
fi
[ $failures = 0 ] || sed 's/^/  /' "$dir/out"
[ $failures = 0 ]

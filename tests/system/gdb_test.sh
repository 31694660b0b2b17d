#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# marcel-gdb.py: gdb lists the user-level threads and shows where those are that do not run: BUILD=<build folder> gdb_test.sh
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
. "$here/../harness/checks.sh"
command -v gdb >/dev/null || { echo "skipped: gdb is not installed"; exit 77; }
gdb -batch -ex 'python print(1)' 2>/dev/null | grep -q 1 || { echo "skipped: this gdb has no python"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
client=$BUILD/tests/.libs/gdb_client
[ -x "$client" ] || client=$BUILD/tests/gdb_client

LD_LIBRARY_PATH=$BUILD/.libs within 60 gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set width 0' -ex run \
    -ex "source $here/../../src/tools/marcel-gdb.py" -ex 'marcel threads' -ex 'echo --bt\n' -ex 'marcel bt semaphore' \
    -ex 'echo --again\n' -ex 'backtrace 5' -ex 'marcel thread sleeper' -ex 'marcel thread' -ex 'echo --kill\n' -ex kill \
    "$client" >"$dir/out" 2>&1 </dev/null
if grep -q 'ptrace: Operation not permitted' "$dir/out"; then
    echo "skipped: this process may not trace others"
    exit 77
fi
sed -n '/^ *[0-9]* .* worker /p' "$dir/out" >"$dir/threads"
sed -n '/^--bt/,/^--again/p' "$dir/out" >"$dir/bt"
sed -n '/^--again/,/^--kill/p' "$dir/out" >"$dir/again"
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
[ $failures = 0 ] || sed 's/^/  /' "$dir/out"
[ $failures = 0 ]

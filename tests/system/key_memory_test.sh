#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The job's key, and all that is derived from it, is nowhere in the memory of madrun and of the ranks that a core dump
# would contain.
src=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(cd "${BUILD:?}" && pwd) || exit 1
. "$src/tests/harness/checks.sh"
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
[ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ] ||
    { echo "skipped: this user cannot read the memory of its processes (kernel.yama.ptrace_scope)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP
cd "$work" || exit 1
mkfifo in
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >agent # other hosts, all of which are this host
chmod +x agent

# looked_at NAME OPTIONS...: searches the memory of a job whose last rank waits for its standard input
looked_at() {
    name=$1
    shift
    rm -f job
    timeout "$limit" "$bin/madrun" -n 2 --stdin 1 -v --job-file job "$@" "$bin/tests/info_client" <in >out 2>err &
    guard=$!
    exec 3>in
    if wait_for test -s job && wait_for sh -c '[ "$(grep -c ready out)" = 2 ]'; then
        madrun=$(cat "/proc/$guard/task/$guard/children")
        ranks=$(sed -n 's/.*is process \([0-9]*\).*/\1/p' err)
        check "$name: ranks" 2 "$(echo "$ranks" | wc -w)"
        # shellcheck disable=SC2086
        check "$name: no copy" "" "$(python3 "$src/tests/system/key_memory.py" job $madrun $ranks 2>&1)"
        # The check itself is tested: it must find the digits of a key in the environment of a waiting process.
        SECRET=$(sed -n 's/^gateway-key //p' job) sleep 60 &
        other=$!
        check "$name: a copy is found" yes "$(python3 "$src/tests/system/key_memory.py" job "$madrun" $other |
            grep -q "digits of the gateways' key at .*stack" && echo yes)"
        kill $other
    else
        not_ok "$name: it did not start" "$(cat out err)"
    fi
    exec 3>&-
    wait $guard
    check "$name: ends well" 0 $?
}
looked_at "here"
looked_at "other hosts" --hosts one,two --launch-agent ./agent

[ $failures = 0 ]

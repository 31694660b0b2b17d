# SPDX-License-Identifier: BSD-3-Clause
# Sourced by test scripts: checks that print "ok NAME" or "not ok NAME" and why, and count.
failures=0
trap 'exit 143' INT TERM HUP # and so what a script does at its EXIT is done when it is ended, too
limit=${limit:-60} # what ends nothing by itself is ended after so many seconds

ok() { echo "ok $1"; }
not_ok() {
    echo "not ok $1"
    shift
    [ $# -eq 0 ] || printf '%s\n' "$@" | sed 's/^/  /'
    failures=$((failures + 1))
}
# check NAME EXPECTED GOT
check() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "expected: $2" "got:      $3"; fi; }
# check_has NAME TEXT FILE...: some line holds TEXT
check_has() {
    name=$1 text=$2
    shift 2
    if grep -qF -- "$text" "$@"; then ok "$name"; else not_ok "$name" "no '$text' in:" "$(head -c 3000 "$@")"; fi
}
# check_lines NAME NUMBER PATTERN FILE: so many lines hold the pattern
check_lines() {
    lines=$(grep -cE -- "$3" "$4")
    if [ "$lines" = "$2" ]; then ok "$1"; else not_ok "$1" "$lines lines, not $2, with '$3' in:" "$(head -c 3000 "$4")"; fi
}
# within SECONDS COMMAND...: run with a limit on its time, killed if need be
within() {
    seconds=$1
    shift
    timeout -k 5 "$seconds" "$@"
}
# running TEXT: how many processes have it in their command lines, but this shell and what it runs for this
running() {
    for c in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$c" 2>/dev/null | grep -F -- "$1"; done 2>/dev/null | grep -vc grep
}
# wait_for CONDITION...: until this command succeeds; fails when it did not within the limit.  For what has no event that a
# shell could wait for (a read, wait): the sleep between two looks leaves the processor to others, it is no guess.
wait_for() {
    wait_end=$(($(now_ms) + limit * 1000))
    until "$@"; do
        [ "$(now_ms)" -lt $wait_end ] || return 1
        sleep 0.02
    done
}
none_running() { [ "$(running "$1")" = 0 ]; }
# check_none NAME TEXT: all such processes end within the limit
check_none() { if wait_for none_running "$2"; then ok "$1"; else not_ok "$1" "$(running "$2") are left: $2"; fi; }
# has_pmix: the library was built with it
has_pmix() { ! PMIX_NAMESPACE=nowhere "$BUILD/tests/world" listen >/dev/null 2>&1; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# SPDX-License-Identifier: BSD-3-Clause
# Sourced by test scripts.  Each check prints "ok NAME", or "not ok NAME" with the reason, and counts the failures.
failures=0
trap 'exit 143' INT TERM HUP # so that a script's EXIT trap also runs when a signal ends it
limit=${limit:-60} # seconds after which a hanging command is killed

ok() { echo "ok $1"; }
not_ok() {
    echo "not ok $1"
    shift
    [ $# -eq 0 ] || printf '%s\n' "$@" | sed 's/^/  /'
    failures=$((failures + 1))
}
# check NAME EXPECTED GOT
check() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "expected: $2" "got:      $3"; fi; }
# check_has NAME TEXT FILE...: passes if a line of the files contains TEXT
check_has() {
    name=$1 text=$2
    shift 2
    if grep -qF -- "$text" "$@"; then ok "$name"; else not_ok "$name" "no '$text' in:" "$(head -c 3000 "$@")"; fi
}
# check_lines NAME NUMBER PATTERN FILE: passes if exactly NUMBER lines match the extended regular expression
check_lines() {
    lines=$(grep -cE -- "$3" "$4")
    if [ "$lines" = "$2" ]; then ok "$1"; else not_ok "$1" "$lines lines, not $2, with '$3' in:" "$(head -c 3000 "$4")"; fi
}
# within SECONDS COMMAND...: runs the command, ends it after SECONDS, and kills it 5 seconds later if it is still there
within() {
    seconds=$1
    shift
    timeout -k 5 "$seconds" "$@"
}
# running TEXT: prints how many processes have TEXT in their command line, without the grep processes
running() {
    for c in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$c" 2>/dev/null | grep -F -- "$1"; done 2>/dev/null | grep -vc grep
}
# wait_for CONDITION...: repeats the command until it succeeds, and fails after $limit seconds.  Use it only where the shell
# has no event to block on (read, wait).  The sleep between two attempts only yields the processor.
wait_for() {
    wait_end=$(($(now_ms) + limit * 1000))
    until "$@"; do
        [ "$(now_ms)" -lt $wait_end ] || return 1
        sleep 0.02
    done
}
none_running() { [ "$(running "$1")" = 0 ]; }
# check_none NAME TEXT: passes if every process that `running TEXT` counts ends within $limit seconds
check_none() { if wait_for none_running "$2"; then ok "$1"; else not_ok "$1" "$(running "$2") are left: $2"; fi; }
# has_pmix: true if the library was built with PMIx
has_pmix() { ! PMIX_NAMESPACE=nowhere "$BUILD/tests/world" listen >/dev/null 2>&1; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

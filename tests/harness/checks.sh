# SPDX-License-Identifier: BSD-3-Clause
# Sourced by test scripts: checks that print "ok NAME" or "not ok NAME" and why, and count.
failures=0
limit=${limit:-60} # what ends nothing by itself is ended after so many seconds

ok() { echo "ok $1"; }
not_ok() {
    echo "not ok $1"
    shift
    [ $# -gt 0 ] && printf '  %s\n' "$@"
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
# within LIMIT COMMAND...: run with a limit on its time, killed if need be
within() {
    seconds=$1
    shift
    timeout -k 5 "$seconds" "$@"
}
# running TEXT: how many processes have it in their command lines, but this shell and what it runs for this
running() {
    for c in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$c" 2>/dev/null | grep -F -- "$1"; done 2>/dev/null | grep -vc grep
}
# until_none TEXT: wait until there is no such process, at most 60 seconds
until_none() {
    none_end=$(($(date +%s) + 60))
    while [ "$(running "$1")" != 0 ]; do
        [ "$(date +%s)" -lt $none_end ] || return 1
        sleep 0.05
    done
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Lines of ranks in the output of madrun: begun lines, long lines, many ranks; on this host and through a launch agent.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
madrun=$BUILD/madrun
dir=$(mktemp -d) || exit 1
job=
trap '[ -z "$job" ] || kill -KILL $job 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
printf '#!/bin/sh\nshift\nexec "$@"\n' >agent
chmod +x agent
away="--hosts a,b --launch-agent ./agent"

# begin COMMAND...: starts ranks between FIFOs: descriptor 7 is rank 0's input, ./out has the output so far
begin() {
    rm -f in
    : >out
    : >err
    mkfifo in
    "$madrun" --timeout $((2 * limit)) "$@" <in >out 2>err &
    job=$!
    exec 7>in
}
# go TEXT: sends the text to rank 0, and waits for the end
go() {
    echo "$1" >&7
    exec 7>&-
    wait $job
    code=$?
    job=
}
shows() { [ "$(cat "$1")" = "$2" ]; }
# check_shown NAME FILE TEXT: waits until the file contains exactly this text
check_shown() {
    if wait_for shows "$2" "$3"; then ok "$1"; else not_ok "$1" "expected: $3" "got:      $(head -c 500 "$2")"; fi
}

test_prompts() {
    for how in --label --no-label "--label $away"; do
        label='[0] '
        [ "$how" != --no-label ] || label=
        # shellcheck disable=SC2086
        begin -n 2 $how sh -c '[ $PMI_RANK = 0 ] || exit 0; printf "N = "; read x; echo $x is good'
        check_shown "prompt ($how)" out "${label}N = "
        go 42
        check "prompt ($how): the line goes on" "0 ${label}N = 42 is good" "$code $(cat out)"
        # shellcheck disable=SC2086
        begin -n 2 $how sh -c '[ $PMI_RANK = 0 ] || exit 0; printf "N = " >&2; read x; echo $x is good >&2'
        check_shown "prompt on errors ($how)" err "${label}N = "
        go 42
        check "prompt on errors ($how): the line goes on" "0 ${label}N = 42 is good" "$code $(cat err)"
        # shellcheck disable=SC2086
        begin -n 2 $how sh -c '[ $PMI_RANK = 0 ] || exit 0; printf "10%%\r"; printf "20%%\r"; read x; echo done'
        check_shown "progress ($how)" out "$(printf "${label}10%%\r20%%\r")"
        go 42
        check "progress ($how): the line goes on" "$(printf "${label}10%%\r20%%\rdone")" "$(cat out)"
    done
    # Without any pause.
    begin -n 2 sh -c '[ $PMI_RANK = 0 ] || exit 0; while :; do printf .; sleep 0.01; done & read x; kill $!; wait; echo done'
    wait_for grep -q '^\[0\] \.' out && ok "dots are seen" || not_ok "dots are seen" "$(cat out err)"
    go 42
    check_lines "dots: one line" 1 '^\[0\] \.+done$' out
}

test_others() {
    begin -n 3 sh -c 'printf "$PMI_RANK asks: "; [ $PMI_RANK != 0 ] || { read x; echo $x; }; [ $PMI_RANK = 0 ] || sleep 1000'
    three() { [ "$(grep -c asks out)" = 3 ]; }
    if wait_for three; then ok "prompts of several ranks"; else not_ok "prompts of several ranks" "$(cat out)"; fi
    kill $job
    go 42
    begin -n 2 sh -c '[ $PMI_RANK = 0 ] || { echo one; echo two; exit; }; printf "N = "; read x; echo $x'
    wait_for grep -q two out && ok "lines of others do not wait for an answer" || not_ok "lines of others" "$(cat out)"
    go 42
    check_lines "lines of others are whole" 2 '^\[1\] (one|two)$' out
    check "the answer" 42 "$(sed -n '$s/.*[] ]//p' out)"
    within $limit "$madrun" -n 3 --no-label sh -c 'printf "$PMI_RANK asks"' >out 2>err </dev/null
    check "lines without an end, without labels" "0 asks,1 asks,2 asks" "$(sort out | tr '\n' , | sed 's/,$//')"
    within $limit "$madrun" -n 2 sh -c '[ $PMI_RANK = 1 ] || exec sleep 1000; printf "begun " >&2; sleep 0.3; exit 3' >out 2>err </dev/null
    check "a message of madrun begins a line" 1 "$(grep -c '^madrun: rank 1 ended with exit code 3' err)"
    # An object is never split, and has no label, however long its rank pauses.
    begin -n 2 sh -c '[ $PMI_RANK = 0 ] || { echo one; exit; }; printf "{\"a\": "; read x; echo "$x}"'
    wait_for grep -q one out
    go 42
    check "an object with a pause" '[1] one,{"a": 42},' "$(tr '\n' , <out)"
}

# lines NAME KIND BYTES LINES ARGUMENTS...: checks the output of two ranks that write such lines
lines() {
    name=$1 kind=$2 size=$3 count=$4
    shift 4
    within $limit "$madrun" -n 2 "$@" python3 "$here/output.py" write "$kind" "$size" "$count" </dev/null 2>err |
        within $limit python3 "$here/output.py" read "$kind" "$size" >out
    check "$name: whole lines" "$((2 * count)) 0" "$(cat out)"
}

test_lines() {
    for how in --label --no-label "--label $away"; do
        # shellcheck disable=SC2086
        lines "200 kB ($how)" text 200000 5 $how
        # shellcheck disable=SC2086
        lines "3 MB of JSON ($how)" json 3000000 3 $how
    done
    within $limit "$madrun" -n 2 python3 "$here/output.py" write text 200000 5 2 2>&1 >/dev/null </dev/null |
        python3 "$here/output.py" read text 200000 >out
    check "200 kB on errors" "10 0" "$(cat out)"
    lines "100 MB" text 100000000 1
}

# The output that madrun holds is bounded: a line of 120 MB, and lines of another rank that are held meanwhile.
test_memory() {
    line=$(head -c 999 /dev/zero | tr '\0' y)
    for how in --label "--label $away"; do
        # shellcheck disable=SC2086
        begin -n 2 $how sh -c '[ $PMI_RANK = 0 ] || { yes "$0" | head -n 120000; exit; }
            head -c 120000000 /dev/zero | tr "\0" x; echo; read x' "$line"
        wait_for grep -q 'x$' out
        peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/$job/status)
        go 42
        check "memory ($how): exit code" 0 $code
        check "memory ($how): every line" "120000 1" "$(grep -c '^\[1\] y*$' out) $(grep -c '^\[0\] x*$' out)"
        echo "# memory ($how): $peak kB at most"
        if [ "$peak" -lt 250000 ]; then ok "memory ($how)"; else not_ok "memory ($how)" "$peak kB"; fi
    done
}

for t in ${TESTS:-prompts others lines memory}; do
    "test_$t"
done
[ $failures = 0 ]

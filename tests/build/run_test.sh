#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tests/run itself: how it counts; what it reports of tests that fail, are killed, hang, or do not exist; which tests
# run concurrently; and that no process is left when it is interrupted.
run=$(cd "$(dirname "$0")/.." && pwd)/run
. "$(dirname "$run")/harness/checks.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
mkdir tests build
mark=$$$$$$
unset LIMIT

# script NAME: writes a test of this name, from standard input
script() { cat >"tests/$1.sh"; }
# tell JOBS TEST...: runs the tests, with the exit status in $code and the output in ./out
tell() {
    jobs=$1
    shift
    JOBS=$jobs within $limit "$run" build "$@" >out 2>&1 </dev/null
    code=$?
}
section() { sed -n "/^== $1\$/,/^==/p" out | sed '1d; /^==/d'; }

echo 'echo ok one; echo ok two; echo and more' | script good
echo 'echo ok one; echo not ok two; echo why; echo ok three; exit 1' | script bad
echo 'echo ok one; exit 3' | script status
echo 'kill -KILL $$' | script killed
echo 'echo "skipped: there is nothing"; exit 77' | script skipped
echo ':' | script silent
echo 'echo "ok of $# arguments: $*; in $BUILD"' | script arguments
printf '#!/bin/sh\necho ok a program\n' >tests/program && chmod +x tests/program

tell 2 tests/good.sh
check "good: passes" "0 2 passed, 0 failed, 0 skipped" "$code $(tail -1 out)"
check "good: its section" "2 ok" "$(section good.sh | sed -n '1s/, [0-9]* s$//p')"
check "good: what it printed is kept" "ok one ok two and more " "$(tr '\n' ' ' <build/tests.logs/good.sh)"
tell 2 tests/silent.sh
check "a test without a word counts as one" "0 1 passed, 0 failed, 0 skipped" "$code $(tail -1 out)"
tell 2 tests/program "$dir/tests/arguments.sh:some,more"
check "programs and arguments" "0 2 passed, 0 failed, 0 skipped" "$code $(tail -1 out)"
check_has "arguments come" "ok of 2 arguments: some more; in $dir/build" build/tests.logs/arguments.sh.some,more
tell 2 tests/good.sh tests/bad.sh tests/status.sh tests/killed.sh tests/skipped.sh tests/nowhere.sh tests/nothing
check "sums" "1 5 passed, 5 failed, 1 skipped" "$code $(tail -1 out)"
check_lines "the times of all are kept" 7 '^ *[0-9]+ +[0-9]+  [a-z]+' build/tests.logs/times
check "bad: its section is what is not ok" "not ok two why " "$(section bad.sh | tr '\n' ' ')"
check_has "a bad exit status" "status.sh: exit status 3" out
check_has "killed" "killed.sh: killed by signal 9" out
check "skipped: why" "skipped: there is nothing" "$(section skipped.sh)"
check_has "a script that is not there" "nowhere.sh: exit status" out
check_has "a program that is not there" "nothing: exit status 127" out
check_lines "who has failed" 5 '^(bad.sh|status.sh|killed.sh|nowhere.sh|nothing)$' \
    "$(sed -n 's/^== failed: //p' out | tr ' ' '\n' >failed; echo failed)"
tell 2 tests/skipped.sh
check "nothing but skipped" "1 0 passed, 0 failed, 1 skipped" "$code $(tail -1 out)"

# Two tests that wait for each other end only if they run concurrently; a test after --alone runs alone.
meet() {
    printf 'touch %s; n=0; while [ ! -e %s ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.05; done\n' "$1" "$2" | script "$3"
}
meet one two first
meet two one second
tell 2 tests/first.sh tests/second.sh
check "two run beside each other" "0 2 passed, 0 failed, 0 skipped" "$code $(tail -1 out)"
for n in 1 2 3 4; do
    printf 'mkdir busy || exit 1; echo %s >>order; sleep 0.05; rmdir busy\n' $n | script alone$n
done
rm -f order
tell 1 tests/alone1.sh tests/alone2.sh tests/alone3.sh
check "one after another" "0 1 2 3 " "$code $(tr '\n' ' ' <order)"
rm -f order
tell 2 tests/alone1.sh --alone tests/alone2.sh tests/alone3.sh tests/alone4.sh
check "alone: one after another, behind the others" "0 1 2 3 4 " "$code $(tr '\n' ' ' <order)"
# Output of a test is printed as one section, in the order in which the tests end.
printf 'echo ok early; while [ ! -e go ]; do sleep 0.02; done; echo not ok late; exit 1\n' | script slow
echo 'echo not ok quick; touch go; exit 1' | script quick
rm -f go
tell 2 tests/slow.sh tests/quick.sh
check "sections are whole" "not ok late " "$(section slow.sh | tr '\n' ' ')"

# A test that hangs, and a test that leaves a process behind.
echo "timeout 999 sleep 1000.$mark" | script hangs
LIMIT=1 tell 2 tests/hangs.sh tests/good.sh
check "what hangs is ended" "1 2 passed, 1 failed, 0 skipped" "$code $(tail -1 out)"
check_has "what hangs: is reported" "hangs.sh: took too long" out
check "what hangs: nothing is left" 0 "$(running "1000.$mark")"
echo "setsid sleep 1000.$mark >/dev/null 2>&1 & echo ok left" | script leaves
tell 2 tests/leaves.sh
check "what a test has left is ended" "0 0" "$code $(running "1000.$mark")"
mkfifo pipe
rm -f go
JOBS=3 within $limit "$run" build tests/good.sh tests/slow.sh tests/hangs.sh >pipe 2>err &
head -1 <pipe >first
touch go
wait $!
check "nobody reads what it says: it fails" 1 $?
check "nobody reads what it says: nothing is left" 0 "$(running "1000.$mark")"

# Interruption, with three kinds of tests: one with processes in sessions of their own, one that ignores signals, and
# one that has to remove files.
cat <<END | script cleans
trap 'touch cleaned' EXIT
trap 'exit 1' TERM
touch up
sleep 1000.$mark
END
echo "trap '' TERM; setsid sleep 1000.$mark & touch up2; while :; do sleep 1000.$mark; done" | script stubborn
both_up() { [ -e up ] && [ -e up2 ]; }
for number in 2 15; do
    rm -f up up2 cleaned
    JOBS=2 timeout -k 30 60 "$run" build tests/cleans.sh tests/stubborn.sh tests/good.sh >out 2>&1 &
    runner=$! # timeout, which passes signals on to tests/run
    wait_for both_up
    kill -$number $runner
    wait $runner
    check "interrupted by $number: exit status" $((128 + number)) $?
    check "interrupted by $number: nothing is left" 0 "$(running "1000.$mark")"
    check "interrupted by $number: scripts have cleaned up" yes "$([ -e cleaned ] && echo yes)"
done
# A program that has lost the signal, as one does whose shell has just forked it: it is asked again.
cat >loses.py <<'END'
import signal, time
signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, signal.SIG_DFL))
open("up", "w").close()
while True:
    time.sleep(1)
END
printf 'trap "touch cleaned" EXIT\ntrap "exit 1" TERM\npython3 loses.py\n' | script loses
up() { [ -e up ]; }
rm -f up cleaned
timeout -k 30 60 "$run" build tests/loses.sh >out 2>&1 &
runner=$!
wait_for up
kill $runner
wait $runner
check "a lost signal is sent again: the script has cleaned up" yes "$([ -e cleaned ] && echo yes)"
[ $failures = 0 ]

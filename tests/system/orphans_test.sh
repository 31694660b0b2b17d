#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that ranks leave behind, in process groups and sessions of their own: madrun and its proxies collect each
# when it ends, and end the others with the job.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
. "$(cd "$(dirname "$0")" && pwd)/../harness/checks.sh"
madrun=$BUILD/madrun
dir=$(mktemp -d) || exit 1
mark=${dir##*.} # distinguishes our processes from those of other runs
clean() {
    for p in /proc/[0-9]*; do # end what a failed check left behind
        tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF "watched-$mark" && kill -KILL "${p#/proc/}"
    done 2>/dev/null
    rm -rf "$dir"
}
trap clean EXIT
cd "$dir" || exit 1
printf '#!/bin/sh\nshift\nexec "$@"\n' >agent
chmod +x agent

# These end with the last rank, or with madrun.  "$0" is the mark, which is in all command lines.
cat >leave.sh <<'END2'
setsid sh -c 'while :; do sleep 1; done' "$1" &
sh -c 'setsid sh -c "while :; do sleep 1; done" "$1" & exit' sh "$1"
sh -c '(sh -c "while :; do sleep 1; done" "$1" &) & exit' sh "$1"
env -i setsid sh -c 'while :; do sleep 1; done' "$1" </dev/null >/dev/null 2>&1 &
[ "$2" != ends ] || exit 0
setsid sh -c 'while :; do sleep 1; done' "$1" &
echo ready
exec sh -c 'while :; do sleep 1; done' "$1"
END2

test_end() {
    for how in "" "--hosts a,b --launch-agent ./agent"; do
        # shellcheck disable=SC2086
        within $limit "$madrun" -n 2 $how sh leave.sh "watched-$mark" ends >out 2>err </dev/null
        check "end ($how): exit code" 0 $?
        check "end ($how): nothing is left" 0 "$(running "watched-$mark")"
        # shellcheck disable=SC2086
        within $limit "$madrun" -n 2 $how sh -c '[ $PMI_RANK = 0 ] || exit 7; exec sh leave.sh "$0" stays' "watched-$mark" \
            >out 2>err </dev/null
        check "one fails ($how): exit code" 7 $?
        check "one fails ($how): nothing is left" 0 "$(running "watched-$mark")"
    done
    sh -c 'sh -c "while :; do sleep 1; done" "$1" & exec "$0" -n 2 true' "$madrun" "watched-$mark" </dev/null
    check "what was there before goes on" 1 "$(running "watched-$mark")"
    clean_marked
    printf '#!/bin/sh\nsetsid sh -c "while :; do sleep 1; done" watched-%s >/dev/null 2>&1 &\nshift\nexec "$@"\n' "$mark" >master
    chmod +x master
    within $limit "$madrun" -n 1 --hosts a --launch-agent ./master true </dev/null
    check "what a launch agent leaves goes on" 1 "$(running "watched-$mark")"
    clean_marked
}
clean_marked() {
    for p in /proc/[0-9]*; do
        tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF "watched-$mark" && kill -KILL "${p#/proc/}"
    done 2>/dev/null
    wait_for none_running "watched-$mark"
}

# killed NAME ARGUMENTS...: madrun is ended by SIGKILL; processes with an emptied environment are not found then
test_killed() {
    sed -i '/env -i/d' leave.sh
    mkfifo ready
    for how in "" "--hosts a,b --launch-agent ./agent"; do
        # shellcheck disable=SC2086
        "$madrun" -n 2 $how sh leave.sh "watched-$mark" >ready 2>err </dev/null &
        job=$!
        exec 3<ready
        read -r _ <&3 && read -r _ <&3
        exec 3<&-
        kill -KILL $job
        wait $job 2>/dev/null
        check_none "madrun is killed ($how): nothing is left" "watched-$mark"
    done
    "$madrun" -n 2 --hosts a,b --launch-agent ./agent sh -c 'echo $PPID >>parents; exec sh leave.sh "$0"' "watched-$mark" \
        >ready 2>err </dev/null &
    job=$!
    exec 3<ready
    read -r _ <&3 && read -r _ <&3
    # shellcheck disable=SC2046
    kill -KILL $(cat parents)
    cat <&3 >/dev/null
    exec 3<&-
    wait $job
    check "proxies are killed: exit code" 1 $?
    check_none "proxies are killed: nothing is left" "watched-$mark"
}

# madrun as the first process of a container: rank 0 leaves many processes behind, and waits until none is a zombie.  Rank 1
# ends after that, because madrun keeps the zombie of a rank until the last has ended.
test_first() {
    apart="unshare -pf --mount-proc --kill-child"
    [ "$(id -u)" -eq 0 ] || apart="unshare -Urpf --mount-proc --kill-child"
    if ! $apart true 2>/dev/null; then
        echo "# first process: no namespace can be made here: left out"
        return
    fi
    cat >many.sh <<'END2'
[ $PMI_RANK = 0 ] || { until [ -e collected ]; do sleep 0.05; done; rm collected; exit 7; }
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (sh -c "sleep 0.01; exit $i" &) ; (setsid sh -c "sleep 0.01; kill -9 \$\$" &); done
until [ "$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ')" = 0 ]; do sleep 0.05; done
echo collected
: >collected
END2
    # shellcheck disable=SC2086
    within $limit $apart "$madrun" --timeout 30 --keep-going -n 2 sh many.sh >out 2>err </dev/null
    check "first process: the exit code of the rank that failed" 7 $?
    check_lines "first process: orphans are collected" 1 '^\[0\] collected$' out
    check_lines "first process: one message" 1 . err
    printf '#!/bin/sh\nshift\nexec %s "$@"\n' "$apart" >container
    chmod +x container
    within $limit "$madrun" --timeout 30 --keep-going -n 2 --hosts a,b --launch-agent ./container sh many.sh >out 2>err </dev/null
    check "a proxy as first process: the exit code of the rank that failed" 7 $?
    check_lines "a proxy as first process: orphans are collected" 1 '^\[0\] collected$' out
    # /proc that shows the numbers of another namespace.
    # shellcheck disable=SC2086
    within $limit unshare -pf --kill-child "$madrun" --timeout 30 -n 2 sh leave.sh "watched-$mark" ends >out 2>err </dev/null
    check "another namespace's /proc: exit code" 0 $?
    check_none "another namespace's /proc: nothing is left" "watched-$mark"
}

for t in ${TESTS:-end killed first}; do
    "test_$t"
done
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No message is lost: BUILD=<build folder> run.sh [DRIVER...]   (self shm tcp fault:self fault:shm fault:tcp)
#   DRIVER       as conformance/run.sh names them
#   MESSAGES=N   in each run (200K; 20K behind fault)
#   SEED=N seed, else chosen by the clock
#   LONG=1 for make soak: ten million over each driver in two runs, two processes, then three with more threads
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/ethernet.sh"
case " $* " in *eth\ *) ethernet_enter "$0" "$@" ;; esac
BUILD=${BUILD:?}
messages=${MESSAGES:-${LONG:+5M}}
seed=${SEED:-$(date +%s)}
limit=${LONG:+7200}
limit=${limit:-200}
log=$(mktemp) || exit 1
soft=$(mktemp -d) || exit 1 # for drivers.sh
trap 'rm -f "$log" "$log.rc"; rm -rf "$soft"' EXIT
trap 'exit 1' INT TERM HUP
. "$here/../harness/drivers.sh"
madrun_options=--no-label
failed=0

# run COMMAND...: runs it with its output in the log; if it takes long, its reports of progress are shown
run() {
    if [ -n "$LONG" ]; then
        { timeout -k 5 "$limit" "$@" 2>&1; echo $? >"$log.rc"; } | tee "$log" | sed -un '/^soak: [0-9]* s: /p'
        return "$(cat "$log.rc")"
    fi
    timeout -k 5 "$limit" "$@" --quiet >"$log" 2>&1
}

# soak DRIVER PROCESSES THREADS [--user-level]: runs soak with this number of sending threads; PROCESSES: none for one
# process alone
soak() {
    n=${messages:-200K}
    case $1 in fault:*) n=${messages:-20K} ;; esac # it delays
    case $1 in
    seal) name=tcp ;;
    rails) name=skeleton ;;
    fault:*) name=fault ;;
    *) name=${1%%-*} ;;
    esac
    command="env $(environment "$1" "$seed") $(launcher "$1" "${2:-1}") $BUILD/tests/soak/soak --driver $name --messages $n
        --threads $3 --seed $seed $4"
    # shellcheck disable=SC2086
    run $command </dev/null
    rc=$?
    if [ $rc -eq 0 ] && grep -q '^soak: good' "$log"; then
        echo "ok soak-$1${2:+-$2}-$3$4: $(grep '^soak: good' "$log" | cut -d' ' -f3-)"
    else
        grep -v 'is disturbed; ' "$log" | tail -25
        echo "not ok soak-$1${2:+-$2}-$3$4 (exit status $rc); again: $command"
        failed=1
    fi
}

[ $# -gt 0 ] || set -- self shm tcp fault:self fault:shm fault:tcp
for driver; do
    several=1
    case $driver in *self) several= ;; esac
    soak "$driver" "${several:+2}" 2
    [ -z "$LONG" ] || soak "$driver" "${several:+3}" 4
    soak "$driver" "${several:+2}" 3 --user-level
done
exit $failed

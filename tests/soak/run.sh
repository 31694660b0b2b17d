#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No message is lost: BUILD=<build folder> run.sh [DRIVER...]   (self shm tcp fault:self fault:shm fault:tcp)
#   MESSAGES=N   in each run (200K; 20K behind fault)
#   SEED=N seed, else chosen by the clock
#   LONG=1 for make soak: ten million over each driver in two runs, two processes, then three with more threads
BUILD=${BUILD:?}
messages=${MESSAGES:-${LONG:+5M}}
seed=${SEED:-$(date +%s)}
limit=${LONG:+7200}
limit=${limit:-200}
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.rc"' EXIT
trap 'exit 1' INT TERM HUP
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
    launcher=${2:+$BUILD/madrun --no-label -n $2}
    command="$launcher $BUILD/tests/soak/soak --driver $1 --messages $n --threads $3 --seed $seed $4"
    # shellcheck disable=SC2086
    MAD_FAULT_SEED=$seed run $command
    rc=$?
    if [ $rc -eq 0 ] && grep -q '^soak: good' "$log"; then
        echo "ok soak-$1${2:+-$2}-$3$4: $(grep '^soak: good' "$log" | cut -d' ' -f3-)"
    else
        grep -v 'is disturbed; ' "$log" | tail -25
        echo "not ok soak-$1${2:+-$2}-$3$4 (exit status $rc); again: MAD_FAULT_SEED=$seed $command"
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

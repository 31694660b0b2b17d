#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Nothing lost: BUILD=<build folder> run.sh [DRIVER...]   (self shm tcp fault:self fault:shm fault:tcp)
#   MESSAGES=N   of each driver (60K); LONG=1: ten million, as make soak does
#   SEED=N       else by the clock
BUILD=${BUILD:?}
messages=${MESSAGES:-${LONG:+10M}}
messages=${messages:-60K}
seed=${SEED:-$(date +%s)}
limit=$([ -n "$LONG" ] && echo 14400 || echo 200)
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP
failed=0
for driver in ${*:-self shm tcp fault:self fault:shm fault:tcp}; do
    n=$messages
    case $driver in
    self | fault:self) launcher= ;;
    *) launcher="$BUILD/madrun --no-label -n 2" ;;
    esac
    case $driver in fault:*) [ -n "$LONG" ] || n=6K ;; esac # it delays
    command="$launcher $BUILD/tests/soak/soak --driver $driver --messages $n --seed $seed"
    # shellcheck disable=SC2086
    MAD_FAULT_SEED=$seed timeout -k 5 "$limit" $command $([ -n "$LONG" ] || echo --quiet) >"$log" 2>&1
    rc=$?
    if [ $rc -eq 0 ] && grep -q '^soak: good' "$log"; then
        echo "ok soak-$driver: $(grep '^soak: good' "$log" | cut -d' ' -f3-)"
    else
        grep -v 'is disturbed; ' "$log" | tail -25
        echo "not ok soak-$driver (exit status $rc); again: MAD_FAULT_SEED=$seed $command"
        failed=1
    fi
done
exit $failed

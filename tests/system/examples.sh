#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples run and print what they promise.
fail=0
for driver in shm tcp; do
    out=$(MAD_PREFER=$driver timeout 20 "$BUILD/madrun" --no-label -n 2 "$BUILD/examples/string" "a text over $driver" 2>&1)
    case $out in
    *"received "*"a text over $driver"*) echo "ok string over $driver" ;;
    *) echo "not ok string over $driver: $out"; fail=1 ;;
    esac
done
exit $fail

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The conformance suite over each driver: BUILD=<build folder> run.sh [DRIVER...] ; TESTS="a b" picks tests.
# Prints 'ok NAME' or 'not ok NAME'; each test in processes of its own, then all of them in one session.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
conform=$BUILD/tests/conform
if [ ! -x "$conform" ] || [ -n "$CONFORM_COMPILE" ]; then
    conform=$BUILD/conform-sh
    ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -g -O2 -Wall -Wextra -I"$here/../../include" -I"$BUILD/include" \
        "$here"/*.c -o "$conform" -L"$BUILD/.libs" -Wl,-rpath,"$BUILD/.libs" -lmadeleine -lpthread || exit 1
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
failed=0
# one DRIVER PROCS TEST
one() {
    case $1 in
    self) timeout 120 "$conform" "$3" >"$log" 2>&1 ;;
    *)
        if [ "$2" = 1 ]; then
            MAD_PREFER=$1 timeout 120 "$conform" "$3" >"$log" 2>&1
        else
            MAD_PREFER=$1 timeout "${4:-120}" "$BUILD/madrun" -n "$2" "$conform" "$3" >"$log" 2>&1
        fi
        ;;
    esac
    rc=$?
    if [ $rc -eq 0 ]; then
        echo "ok conform-$1-$3"
    else
        echo "not ok conform-$1-$3 (exit status $rc)"
        sed 's/^/    /' "$log" | head -${LINES_MAX:-12}
        failed=1
    fi
}
"$conform" --list >"$log.list" || exit 1
tests=$(cat "$log.list"; rm -f "$log.list")
for driver in ${*:-self shm tcp}; do
    echo "$tests" | {
        failed=0
        while read -r name procs; do
            [ -z "$TESTS" ] || case " $TESTS " in *" $name "*) ;; *) continue ;; esac
            [ "$driver" = self ] && [ "$procs" -ne 2 ] && continue
            one "$driver" "$procs" "$name" </dev/null
        done
        exit $failed
    } || failed=1
    [ -n "$TESTS" ] || one "$driver" 2 all 300
done
exit $failed

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Whole sessions under each installed launcher: madrun, Open MPI's mpirun (PMIx), MPICH's mpiexec (PMI-1); jobs of one
# process; launchers that die.  (Wrong answers of a launcher are in worlds_test.sh.)
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
dir=$(mktemp -d) || exit 1
clean() {
    for p in /proc/[0-9]*; do # end what a failed check left behind
        tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF "watch busy-$mark" && kill -KILL "${p#/proc/}"
    done 2>/dev/null
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
mark=${dir##*.} # distinguishes our processes from those of other runs
export MAD_SHM_DIR="$dir/shm"
world=$BUILD/tests/world

# launcher NAME COMMAND...: tests a launcher; COMMAND -n N PROGRAM starts a job
launcher() {
    name=$1
    shift
    within $limit "$@" -n 4 "$world" talk >out 2>err </dev/null
    check "$name: four ranks: exit code" 0 $?
    check_lines "$name: four ranks: all pairs" 12 '[0-3] on .* to [0-3]: shm on memory \([0-9a-f]+\) used' out
    MAD_PREFER=tcp MAD_DRIVERS=self,tcp within $limit "$@" -n 3 "$world" talk >out 2>err </dev/null
    check_lines "$name: three ranks by tcp" 6 ': tcp on [a-z0-9]+ \([^)]*\) used' out
    within $limit "$@" -n 1 "$world" talk >out 2>err </dev/null
    check "$name: a job of one" 0 $?
    within $limit "$@" -n 2 "$world" twice >out 2>err </dev/null
    check "$name: a second session is refused, the first goes on" 0 $?
    check_lines "$name: a second session: said" 4 'has the session of rank [01]: use that' err
    # The launcher is ended: no rank may remain.  (When Open MPI's launcher is killed by SIGKILL, it does not end its
    # ranks.)
    signal=KILL
    [ "$name" != mpirun.openmpi ] || signal=TERM
    "$@" -n 2 "$world" watch "busy-$mark" >out 2>err </dev/null &
    job=$!
    wait_for grep -q talks out
    kill -$signal $job
    wait $job 2>/dev/null
    check_none "$name: the launcher is ended by $signal: nothing is left" "watch busy-$mark"
}

launcher madrun "$BUILD/madrun"
if ! command -v mpirun.openmpi >/dev/null; then
    echo "# mpirun.openmpi is not installed: left out"
elif ! has_pmix; then
    echo "# built without PMIx: mpirun.openmpi left out"
else
    root=
    [ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
    # shellcheck disable=SC2086
    launcher mpirun.openmpi mpirun.openmpi $root --oversubscribe
fi
if command -v mpiexec.mpich >/dev/null; then
    launcher mpiexec.mpich mpiexec.mpich
else
    echo "# mpiexec.mpich is not installed: left out"
fi
# A launcher with Hydra's limits: the names of its store are as long as permitted, and the values as short as permitted.
if ! command -v python3 >/dev/null; then
    echo "# python3 is not installed: limits of launchers left out"
else
    server=$here/pmi_server.py
    for limits in "30 1024" "255 1024" "30 64" "255 65536"; do
        # shellcheck disable=SC2086
        within $limit python3 "$server" 3 $limits "$BUILD/tests/boot_client" 3 >out 2>&1 </dev/null
        check "limits ($limits): every value" "0 3" "$? $(grep -c 'good, by PMI-1' out)"
        sed -n "s/^longest/# limits ($limits): longest/p" out
        # shellcheck disable=SC2086
        within $limit python3 "$server" 3 $limits "$world" talk >out 2>&1 </dev/null
        check "limits ($limits): sessions" "0 6" "$? $(grep -c ': shm on memory .* used' out)"
    done
fi
"$world" talk >out 2>err
check "alone: a job of one" 0 $?
[ $failures = 0 ]

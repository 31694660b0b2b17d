#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make a table of the tests that each driver passes on this host: BUILD=<build folder> drivers.sh [DRIVER...].
# The columns: the conformance suite; the suite behind fault, with links cut; calls of the network's library that fail; a soak;
# the suite through a gateway whose other network is tcp.  Without arguments: all drivers that work on this host; the table is then
# doc/drivers.md.  With arguments: the table is BUILD/drivers.md.
#   OUT=FILE     the table is written there instead
#   PARTS="..."  only these columns: conformance fault calls soak gateway; the others say "not run"
#   JOBS=N       number of rows that are made at the same time (1)
#   MESSAGES=N   in each of the two runs of soak (20K)
#   SEED=N       seed of fault and of soak (else chosen by the clock)
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
BUILD=$(cd "${BUILD:-$top/build}" && pwd) || exit 1
export BUILD
messages=${MESSAGES:-20K} seed=${SEED:-$(date +%s)}
work=$(mktemp -d) || exit 1
soft=$work/soft
mkdir "$soft"
: >"$work/notes"
all=$work
trap 'rm -rf "$all"' EXIT
trap 'exit 1' INT TERM HUP
. "$here/../harness/drivers.sh"
out=${OUT:-$top/doc/drivers.md}
[ $# = 0 ] || out=${OUT:-$BUILD/drivers.md}
begun=$(date +%s)
parts=" ${PARTS:-conformance fault calls soak gateway} "
"$BUILD/tests/conform" --list | awk '{ print $1 }' >"$work/list"
list=$work/list

mkdir -p "$BUILD/tests.logs" # the output of a row is there, in drivers.DRIVER

# step DRIVER WHAT: prints the progress
step() { printf '%4d s  %-14s %s\n' $(($(date +%s) - begun)) "$1" "$2"; }

# cell: prints the results of a conformance run, in $work/report and $work/out, as "passed / failed / not run".  A test has
# failed if a process began it and did not pass it.
cell() {
    awk -v bad="$(grep -c '^not ok' "$work/out")" '
        FILENAME == ARGV[1] { known[$1] = 1; next }
        $1 == "begun" { begun[$2]++ }
        $1 == "passed" { passed[$2]++ }
        END {
            for (name in known)
                if (!begun[name]) none++; else if (begun[name] == passed[name]) good++; else failed++
            if (!failed) failed = bad
            if (!good && !failed) print "not run"; else printf "%d / %d / %d\n", good, failed, none
        }' "$list" "$work/report"
    grep '^not ok' "$work/out" | sed "s/^not ok \([^ ]*\).*/- \1 has failed/" >>"$work/notes"
}
# conformance DRIVER: sets $result
conformance() {
    : >"$work/report"
    TOGETHER=1 SEED=$seed CONFORM_REPORT=$work/report sh "$here/../conformance/run.sh" "$1" >"$work/out" 2>&1
    cat "$work/out" >>"$log"
    result=$(cell)
}

# calls DRIVER: sets $result to what the script with failing calls of this driver passes
calls() {
    case $1 in
    ofi-tcp) script=ofi_fault_test.sh ;;
    ucx-tcp) script=ucx_fault_test.sh ;;
    verbs-soft) script=verbs_test.sh ;;
    mpi-openmpi) script=mpi_fault_test.sh ;;
    tcp) script=tcp_test.sh ;;
    eth) script=eth_test.sh ;;
    *) result="no test" && return ;;
    esac
    sh "$here/../system/$script" >"$work/out" 2>&1
    rc=$?
    cat "$work/out" >>"$log"
    result="$(grep -c '^ok ' "$work/out") / $(grep -c '^not ok ' "$work/out")"
    if [ $rc = 77 ]; then
        result="not run"
        echo "- $script: $(tail -n 1 "$work/out")" >>"$work/notes"
    elif [ $rc != 0 ]; then
        result="$result, exit status $rc"
    fi
    grep '^not ok' "$work/out" | sed "s/^not ok /- $script: /" >>"$work/notes"
}

# soak DRIVER: sets $result to the sums of the two runs: messages, then those lost, doubled, out of order or damaged
soak() {
    MESSAGES=$messages SEED=$seed sh "$here/run.sh" "$1" >"$work/out" 2>&1
    cat "$work/out" >>"$log"
    result=$(awk '
        / messages, .* lost, / {
            for (i = 1; i < NF; i++) {
                if ($(i + 1) == "messages,") sum += $i
                if ($(i + 1) ~ /^lost,$/) lost += $i
                if ($(i + 1) ~ /^(doubled|corrupted),$/ || ($(i + 1) == "out" && $(i + 2) == "of")) other += $i
            }
            runs++
        }
        END {
            if (runs == 2) print sum " | " lost + 0 " | " other + 0
            else print (runs ? sum " in 1 run of 2" : "failed") " | " lost + 0 " | " other + 0
        }' "$work/out")
    grep '^not ok' "$work/out" | sed "s/^not ok \([^ ]*\).*/- \1 has failed/" >>"$work/notes"
}

# gateway DRIVER: sets $result
gateway() {
    case $1 in
    shm | eth) way=$1-tcp ;;
    tcp) way=tcp-tcp ;;
    ofi-tcp | ucx-tcp | verbs-soft | mpi-openmpi) way=${1%-*}-tcp ;;
    *) result="not run" && return ;;
    esac
    : >"$work/report"
    WAYS=$way FAILOVERS='' CONFORM_REPORT=$work/report sh "$here/../gateway/mixed_test.sh" >"$work/out" 2>&1
    cat "$work/out" >>"$log"
    result=$(cell)
}

# first COMMAND...: prints the first number of a version in what the command prints
first() { "$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?[a-z0-9]*' | head -n 1; }
# below DRIVER: prints what carries the driver's bytes
below() {
    case $1 in
    ofi-*) echo "libfabric $(first fi_info --version)" ;;
    ucx-*) echo "UCX $(first ucx_info -v)" ;;
    verbs-*) echo "tests/system/soft_verbs.c" ;;
    mpi-openmpi) echo "Open MPI $(first mpirun.openmpi --version)" ;;
    mpi-mpich) echo "MPICH $(first mpiexec.mpich --version)" ;;
    self | shm | skeleton | pipes | rails) echo "memory of the host" ;;
    *) echo "Linux $(first uname -r)" ;;
    esac
}

# column DRIVER PART COMMAND...: runs the command if the part is wanted, and appends the cell to the row
column() {
    case $parts in
    *" $2 "*)
        step "$1" "$2"
        shift 2
        "$@"
        ;;
    *) result="not run" && [ "$2" != soak ] || result="not run | – | –" ;;
    esac
    line="$line | $result"
}
# row DRIVER: makes the row of this driver, in a folder of its own
row() {
    work=$work/$1
    mkdir "$work"
    : >"$work/notes"
    log=$BUILD/tests.logs/drivers.$1
    : >"$log"
    line="| $1 | $(below "$1")"
    column "$1" conformance conformance "$1"
    if [ "$1" = rails ]; then line="$line | no test"; else column "$1" fault conformance "fault:$1"; fi
    column "$1" calls calls "$1"
    column "$1" soak soak "$1"
    column "$1" gateway gateway "$1"
    echo "$line |" | tee "$work/row"
}

usable="self shm tcp seal eth $ofi ${ofi:+ofi-shm} $ucx $verbs $mpi rails skeleton pipes datagram"
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $usable
echo "drivers: $*; $(date '+%H:%M')"
running=0
for driver; do
    (row "$driver") &
    running=$((running + 1))
    if [ $((running % ${JOBS:-1})) = 0 ]; then wait; fi
done
wait
rdma=$(ls /dev/infiniband 2>/dev/null | tr '\n' ' ')
{
    cat <<END
# Test results of the drivers

For users that choose a driver, and for developers that change one: what each driver passed on one host, in one run.
\`make check-drivers\` writes this file, with a row for each driver that works on the host.
\`make check-drivers DRIVERS="tcp ofi-tcp"\` runs only these two, and writes \`drivers.md\` in the build folder.
\`PARTS="conformance soak"\` runs only these columns. The output of each row is in \`tests.logs/drivers.DRIVER\` there.

| run | |
|---|---|
| date | $(date -u -d "@$begun" +%Y-%m-%d), $((($(date +%s) - begun + 59) / 60)) minutes |
| library | Madeleine $(first "$BUILD/mad_info" --version)$(git -C "$top" log -1 --format=', commit %h' 2>/dev/null) |
| host | Linux $(first uname -r), $(uname -m), $(nproc) processors, RDMA devices: ${rdma:-none} |
| seed | $seed |

Three numbers are the tests that passed, that failed, and that were not run; two are the checks that passed and that
failed. "not run" in a cell: nothing of it was run. "no test": there is no such test.

| driver | over | conformance | behind fault | failing calls | soak: messages | lost | doubled, damaged, out of order | gateway |
|---|---|---|---|---|---|---|---|---|
END
    for driver; do cat "$work/$driver/row"; done
    for driver in $usable; do
        case " $* " in
        *" $driver "*) ;;
        *) echo "| $driver | $(below "$driver") | not run | not run | not run | not run | – | – | not run |" ;;
        esac
    done
    cat <<END

- **driver**: seal is tcp with encryption, rails is skeleton and pipes together, and skeleton, pipes and datagram are examples
  for authors of drivers. eth runs over a bridge in a network namespace. verbs runs over a device in software.
- **conformance**: the suite of \`tests/conformance\`. Not run are tests of two processes over self, and tests that a library
  cannot pass (\`run.sh\` names them).
- **behind fault**: the suite over the driver behind madeleine-fault(7), which delays, reorders and cuts short; then links are
  cut. Each cut that fails is one test that failed.
- **failing calls**: calls of the library or of the kernel below the driver fail, one after the other, or frames are lost:
  \`tests/system\`.
- **soak**: \`tests/soak\`; two processes with threads of the system, then with user-level threads. Every message is counted and
  its bytes are compared.
- **gateway**: the suite between two hosts without a network in common, over this driver, a gateway, and tcp.

## Failures

END
    cat "$work"/*/notes >"$work/notes"
    if [ -s "$work/notes" ]; then sort -u "$work/notes"; else echo "None."; fi
} >"$out"
echo "$out is written; $(grep -c . "$work/notes") failures"
[ ! -s "$work/notes" ]

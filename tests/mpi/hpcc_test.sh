#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# HPC Challenge over each plug-in: all sections, with its own checks.
. "$(dirname "$0")/plugs.sh"
. "$here/inputs.sh"
plugs_start hpcc /usr/bin/hpcc

# below NAME KEY BOUND: checks that the summary has KEY, with a number below BOUND
below() {
    awk -F= -v key="$2" -v bound="$3" '$1 == key { n++; good = $2 + 0 < bound } END { exit !(n == 1 && good) }' \
        hpccoutf.txt && ok "$1" || not_ok "$1" "$(grep "^$2=" hpccoutf.txt) (bound: $3)"
}

# challenge SIZE P Q
#
# On more than four processes RandomAccess itself loses updates, over every transport.  It has four receives from any source
# then, and ends at the first "finished" that it finds in one of them.  It does not check the receives behind it, which may
# have updates.  It tolerates errors in a hundredth of its table.  In this small table these are three messages, so only the
# other checks count here.
challenge() {
    processes=$(($2 * $3)) what="$way, $1 on $2 x $3"
    hpcc_problem "$@" >hpccinf.txt
    rm -f hpccoutf.txt
    mpi $processes hpcc >out 2>err
    check "$what: exit code" 0 $?
    [ -s hpccoutf.txt ] || { not_ok "$what: nothing was written" "$(head -c 3000 err)"; return; }
    check_has "$what: to its end" "End of HPC Challenge tests." hpccoutf.txt
    check_lines "$what: linear system, residual" 1 '^\|\|Ax-b\|\|.* PASSED$' hpccoutf.txt
    # a second line, with processor times, exists only if the first one passed
    check_lines "$what: PTRANS, residuals" 5 '^WALL .* PASSED ' hpccoutf.txt
    check_lines "$what: nothing failed" 0 'FAILED' hpccoutf.txt
    below "$what: MPIFFT, there and back" MPIFFT_maxErr 1e-12
    check_lines "$what: StarSTREAM" 1 '^Solution Validates' hpccoutf.txt
    check_lines "$what: every process of the others" 0 '^Node\(s\) with error [^0]' hpccoutf.txt
    if [ $processes -le 4 ]; then
        below "$what: RandomAccess, no update lost" MPIRandomAccess_Errors 1
        below "$what: RandomAccess (LCG), no update lost" MPIRandomAccess_LCG_Errors 1
        check_has "$what: its own verdict" "Success=1" hpccoutf.txt
    fi
    below "$what: ring of processes, latency was measured" RandomlyOrderedRingLatency_usec 1e9
}
each_plug challenge 200 2 2
if [ -n "$LONG" ]; then
    each_plug challenge 1000 1 2
    each_plug challenge 1000 2 2
    each_plug challenge 1000 2 3
    each_plug challenge 1000 2 4
fi
[ $failures = 0 ]

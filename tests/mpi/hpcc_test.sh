#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# HPC Challenge over each plug: all sections, with the checks that it makes itself.
. "$(dirname "$0")/plugs.sh"
plugs_start hpcc /usr/bin/hpcc

# problem SIZE P Q: what it is to solve, on P x Q processes
problem() {
    cat <<-END
	HPLinpack benchmark input file
	made by a test
	HPL.out      output file name
	8            device out (a file)
	1            # of problems sizes (N)
	$1           Ns
	1            # of NBs
	32           NBs
	0            PMAP process mapping (0=Row-,1=Column-major)
	1            # of process grids (P x Q)
	$2           Ps
	$3           Qs
	16.0         threshold
	1            # of panel fact
	2            PFACTs (0=left, 1=Crout, 2=Right)
	1            # of recursive stopping criterium
	4            NBMINs (>= 1)
	1            # of panels in recursion
	2            NDIVs
	1            # of recursive panel fact.
	1            RFACTs (0=left, 1=Crout, 2=Right)
	1            # of broadcast
	1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
	1            # of lookahead depth
	1            DEPTHs (>=0)
	2            SWAP (0=bin-exch,1=long,2=mix)
	64           swapping threshold
	0            L1 in (0=transposed,1=no-transposed) form
	0            U  in (0=transposed,1=no-transposed) form
	1            Equilibration (0=no,1=yes)
	8            memory alignment in double (> 0)
	##### This line (no. 32) is ignored (it serves as a separator). ######
	0            Number of additional problem sizes for PTRANS
	1200         values of N
	0            number of additional blocking sizes for PTRANS
	40           values of NB
	END
}

# below NAME KEY BOUND: the summary has KEY, with a number below BOUND
below() {
    awk -F= -v key="$2" -v bound="$3" '$1 == key { n++; good = $2 + 0 < bound } END { exit !(n == 1 && good) }' \
        hpccoutf.txt && ok "$1" || not_ok "$1" "$(grep "^$2=" hpccoutf.txt) (bound: $3)"
}

# challenge SIZE P Q
#
# On more than four processes RandomAccess loses updates by itself: it has four receives from anybody then, and ends at the
# last "finished" that it finds in one of them without a look at those after it, where updates may stand.  It does so over
# every transport, and allows for a hundredth of its table; with this small a table that is three messages, so there only
# the other checks count.
challenge() {
    processes=$(($2 * $3)) what="$way, $1 on $2 x $3"
    problem "$@" >hpccinf.txt
    rm -f hpccoutf.txt
    mpi $processes hpcc >out 2>err
    check "$what: exit code" 0 $?
    [ -s hpccoutf.txt ] || { not_ok "$what: nothing was written" "$(head -c 3000 err)"; return; }
    check_has "$what: to its end" "End of HPC Challenge tests." hpccoutf.txt
    check_lines "$what: linear system, residual" 1 '^\|\|Ax-b\|\|.* PASSED$' hpccoutf.txt
    check_lines "$what: PTRANS, residuals" 10 '^(WALL|CPU) .* PASSED ' hpccoutf.txt
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

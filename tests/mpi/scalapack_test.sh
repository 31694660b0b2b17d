#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The test programs of ScaLAPACK, PBLAS and BLACS over each plug-in, on four processes: each ends, reports that it
# passed, and reports no failure.  The long form runs them all.
. "$(dirname "$0")/plugs.sh"
. "$here/inputs.sh"
programs=$(scalapack_programs)
plugs_start scalapack-mpi-test "${programs:-/usr/lib/scalapack/openmpi-tests}/xdlu"

# Each kind of routine once; the long form has them in single and double precision, real and complex
short="xdlu xzgblu xsptllt PBLAS/dpb1tst PBLAS/zpb3tst"
cp -L "$programs"/*.dat "$programs"/BLACS/*.dat "$programs"/PBLAS/*.dat .
# BLACS' auxiliary tests end with a call of BLACS_ABORT, so with an error
sed -i "s/^'T' *Run AUX/'F' Run AUX/" bt.dat

# solves PROGRAM
solves() {
    mpi 4 "$programs/$1" >out 2>err
    rc=$?
    sums=$(scalapack_verdict out) && [ $rc = 0 ] && ok "$way: $1 ($sums)" ||
        not_ok "$way: $1: exit code $rc, $sums" "$(grep -iE 'fail' out | head -5)" "$(tail -5 out)" "$(head -c 1000 err)"
}
all=$(cd "$programs" && echo xF* xC* x[a-z]* PBLAS/*tst)
for p in $(if [ -n "$LONG" ]; then echo "$all"; else echo "$short"; fi); do
    each_plug solves "$p"
done
[ $failures = 0 ]

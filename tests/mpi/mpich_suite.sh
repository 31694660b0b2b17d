#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# MPICH's own test-suite over each plug-in: no test fails that passes over the same MPI library's own tcp (suite.py compares
# them).  MAD_TEST_SUITE names the suite's folder test/mpi, built for Open MPI.  MAD_TEST_MPICH_SUITE names one that was
# built for the MPICH in MAD_TEST_MPICH.  doc/mpi.md describes how to get them.  FOLDERS: other folders of the suite.
suite=$MAD_TEST_SUITE mpich_suite=$MAD_TEST_MPICH_SUITE mpich=$MAD_TEST_MPICH
[ -n "$suite$mpich_suite" ] || { echo "no test-suite is named: MAD_TEST_SUITE, see doc/mpi.md"; exit 77; }
. "$(dirname "$0")/plugs.sh"
plugs_start openmpi-bin /usr/bin/mpirun.openmpi
limit=36000

# compare WAY FOLDER OPTION...: runs a folder of the suite over this plug-in and over tcp
compare() {
    way=$1 in=$2
    shift 2
    # shellcheck disable=SC2086
    within $limit python3 "$here/suite.py" --own "$own" --most 4 "$@" "$in" $way \
        ${FOLDERS-pt2pt coll rma comm datatype threads topo attr group info init errhan basic part spawn} >out 2>err
    rc=$?
    sed -n 's/^FAIL *//p' out | while read -r line; do echo "not ok $way: $line"; done
    if [ $rc = 0 ] && grep -q '^pass' out; then
        ok "$way: $(cut -d' ' -f1 out | sort | uniq -c | tr -s ' \n' ' ')"
    else
        not_ok "$way: exit code $rc" "$(head -c 10000 err)"
    fi
}
if [ -n "$suite" ]; then
    for plug in $plugs; do
        compare "$plug" "$suite"
    done
fi
[ -z "$mpich_suite" ] || compare mpich "$mpich_suite" --mpich "$mpich"
[ $failures = 0 ]

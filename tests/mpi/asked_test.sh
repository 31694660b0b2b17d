#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Features of MPI beyond the plain traffic of the other tests, over each plug-in.  The tests run first over Open MPI's
# own tcp: if one fails there, the test itself is wrong.
. "$(dirname "$0")/plugs.sh"
plugs_start openmpi-bin /usr/bin/mpirun.openmpi
compile asked between

# asks N
asks() {
    case $over in ofi) cm=cm ;; *) cm= ;; esac
    passes "${way}_$1" "$1" asked $cm
    passes "${way}_$1" "$1" between
}
over=tcp way=tcp asks 3
for n in 2 ${LONG:+3} 5 ${LONG:+8}; do
    each_plug asks "$n"
done
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi4py over each plug-in: objects, arrays, requests, windows, threads; with Debian's Python, for which the package is
# built.
. "$(dirname "$0")/plugs.sh"
module=$(find /usr/lib/python3 -type d -path "*/dist-packages/mpi4py" 2>/dev/null | head -1)
plugs_start python3-mpi4py "${module:-/usr/lib/python3/dist-packages/mpi4py}"
/usr/bin/python3 -c 'from mpi4py import MPI; assert "Open MPI" in MPI.Get_library_version()' >out 2>&1 ||
    { echo "mpi4py is not that of Open MPI: $(tail -1 out)"; exit 77; }

# script N FILE
script() {
    case $over in ofi) cm=cm ;; *) cm= ;; esac
    mpi "$1" /usr/bin/python3 "$here/$2" $cm >out 2>err
    rc=$?
    sed "s/^ok /&$way, $1 processes: /" out
    [ $rc = 0 ] && grep -q '^ok last' out || not_ok "$way, $1 processes: $2: exit code $rc" "$(head -c 3000 err)"
}
for n in ${LONG:+2} 3 ${LONG:+8}; do
    each_plug script "$n" mpi4py_single.py
    each_plug script "$n" mpi4py_threads.py
done
[ $failures = 0 ]

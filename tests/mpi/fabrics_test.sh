#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# MPI programs over each plug-in, where all messages between processes go over the driver ofi, or over ucx.  Our programs
# check every byte.  LONG=1: one more program.
. "$(dirname "$0")/plugs.sh"
plugs_start openmpi-bin /usr/bin/mpirun.openmpi
export MAD_MODULES="$BUILD/drivers/.libs" MAD_OFI_PROVIDERS=shm FI_MAD_NAME_LEN=64

compile messages types windows ${LONG:+groups}
drivers=
for driver in ofi ucx; do
    MAD_DRIVERS=self,$driver "$BUILD/mad_info" --json 2>/dev/null |
        python3 -c 'import json, sys; sys.exit(not any(a["driver"] != "self" and a["open"] for a in json.load(sys.stdin)["adapters"]))' &&
        drivers="$drivers $driver" || echo "# not tried: the driver $driver, which has no network here"
done
[ -n "$drivers" ] || { echo "neither ofi nor ucx has a network here"; exit 77; }
for driver in $drivers; do
    export MAD_DRIVERS=self,$driver
    for over in $plugs; do
        [ "$over $driver" != "ofi ucx" ] || continue # UCX's addresses need more room than Open MPI has for a name
        windows= # over the others Open MPI takes vader for windows
        [ "$over" != btl ] || windows=windows
        for p in messages types $windows ${LONG:+groups}; do
            passes "${driver}_$over" 3 "$p"
        done
    done
done
[ $failures = 0 ]

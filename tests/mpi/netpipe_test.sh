#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# NetPIPE, which checks received bytes, over each plug-in.
. "$(dirname "$0")/plugs.sh"
plugs_start netpipe-openmpi /usr/bin/NPopenmpi

# netpipe MOST OPTION...: checks the integrity of messages up to MOST bytes
netpipe() {
    most=$1
    shift
    mpi 2 NPopenmpi -i -u "$most" -n 3 -o np.out "$@" >out 2>err
    check "$way, $most bytes${*:+ ($*)}: exit code" 0 $?
    passed=$(cat out err | grep -c 'Integrity check passed')
    [ "$passed" -gt 10 ] && ! grep -qi 'integrity check failed' out err && ok "$way, $most bytes${*:+ ($*)}: integrity" ||
        not_ok "$way, $most bytes${*:+ ($*)}: $passed checks passed" "$(tail -c 2000 out err)"
}
each_plug netpipe 100000
[ -z "$LONG" ] || each_plug netpipe 8000000
[ -z "$LONG" ] || each_plug netpipe 100000 -S
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank is killed at a random moment of random traffic: the job ends, and reports the reason.  With MPI_ERRORS_RETURN,
# operations that need the rank fail, as far as Open MPI permits, and the other ranks continue.  LONG=1: 50 kills of
# each kind instead of 3; SEED=N.
. "$(dirname "$0")/plugs.sh"
plugs_start openmpi-bin /usr/bin/mpirun.openmpi
limit=60
kills=$([ -n "$LONG" ] && echo 50 || echo 3)
seed=${SEED:-$(date +%s)}
compile traffic survive anybody

# killed NAME SECONDS THREADS
killed() {
    TRAFFIC_KILL=$2 mpi 3 ./traffic "$3" 600 >out 2>err
    rc=$?
    if [ $rc != 0 ] && [ $rc != 124 ] && grep -q 'signal 9\|peer died' err; then
        ok "$1: killed after $2 s, the job ends and says why"
    else
        not_ok "$1: killed after $2 s: exit code $rc" "$(head -c 3000 err)"
    fi
}
for over in $plugs; do
    i=0
    while [ $i -lt $kills ]; do
        after=$(awk -v seed="$seed" -v i=$i 'BEGIN { srand(seed + i); printf "%.3f", rand() * 2.5 }')
        killed "$over, shm" "$after" 1
        MAD_DRIVERS=self,tcp killed "$over, tcp" "$after" 2
        i=$((i + 1))
    done
done
check_none "nothing is left of these jobs" "$dir/traffic"

# ---- Rank 1 has another key: without a check, its message would get lost without a report, and both ranks would wait
# for ever
unset FI_MAD_KEY # because it would override the other key
cat >keyed <<'END'
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export MADELEINE_KEY=5f1d0a93c27be64810f9a3d67c25e8b4
exec ./anybody
END
for over in $plugs; do
    for drivers in self,shm self,tcp; do
        MAD_DRIVERS=$drivers mpi 2 sh keyed >out 2>err
        two_keys "$over, $drivers" $? "received"
    done
done

# ---- Rank 1 is killed, and mpirun lets the others live
flags=--enable-recovery
over=btl
if [ "${plugs#*btl}" != "$plugs" ]; then
    mpi 3 ./survive >out 2>err
    check "btl: all end: not by the limit" 1 $(($? != 124))
    check_has "btl: Open MPI ends the ranks that need the dead one, and says why" \
        "the peer died or its connection was lost" err
    for drivers in self,shm self,tcp; do
        for how in fence lock; do
            OMPI_MCA_btl_mad_windows=1 MAD_DRIVERS=$drivers mpi 3 ./survive $how >out 2>err
            check "btl, $drivers: windows, $how: all end: not by the limit" 1 $(($? != 124))
            check_has "btl, $drivers: windows, $how: and the reason is there" "the peer died or its connection was lost" err
        done
    done
fi
for over in ofi pml; do
    case " $plugs " in *" $over "*) ;; *) continue ;; esac
    for drivers in self,shm self,tcp; do
        MAD_DRIVERS=$drivers mpi 3 ./survive >out 2>err
        check_lines "$over, $drivers: what needs the dead fails, the others go on" 2 'goes on: right' err
    done
done
[ $failures = 0 ]

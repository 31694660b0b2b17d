#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# LAMMPS over each plug-in: a melt of Lennard-Jones atoms.  All printed digits of its energies equal those of the same
# run over Open MPI's own tcp, because the same processes add the same numbers in the same order.
. "$(dirname "$0")/plugs.sh"
. "$here/inputs.sh"
plugs_start lammps /usr/bin/lmp

# energies N: writes the energies of a run over $over to the file energies.
energies() {
    mpi "$1" lmp -in melt.in -log melt.log >out 2>err
    rc=$?
    lammps_energies melt.log >energies
    [ $rc = 0 ] && [ "$(wc -l <energies)" -gt 5 ]
}
# same N LINES: checks that the energies over this plug-in equal those of before, step by step
same() {
    if energies "$1" && cmp -s energies "wanted.$1"; then
        ok "$way, $1 processes: energies"
    else
        not_ok "$way, $1 processes: exit code $rc" "$(diff energies "wanted.$1" | head -10)" "$(head -c 2000 err)"
    fi
}
# conserved N: checks that the run of comparison is physically right, and not wrong in the same way: the energy is
# constant
conserved() {
    over=tcp
    energies "$1" || { not_ok "over tcp: exit code $rc" "$(head -c 3000 err)"; exit 1; }
    cp energies "wanted.$1"
    awk '$1 + 0 > 0 { if (!n++) e = $4; d = $4 - e; if (d < 0) d = -d; if (d > 0.01) bad = 1 }
        END { exit !(n > 4 && !bad) }' energies && ok "over tcp, $1 processes: energy is conserved" ||
        not_ok "over tcp, $1 processes: energy" "$(cat energies)"
}
if [ -n "$LONG" ]; then lammps_melt 12 1000; else lammps_melt 8 200; fi >melt.in
for n in ${LONG:+2} 4 ${LONG:+8}; do
    conserved "$n"
    each_plug same "$n"
done
[ $failures = 0 ]

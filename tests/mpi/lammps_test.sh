#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# LAMMPS over each plug: a melt of Lennard-Jones atoms.  Every printed digit of its energies is that of the same run over
# Open MPI's own tcp: the same processes add the same numbers in the same order.
. "$(dirname "$0")/plugs.sh"
plugs_start lammps /usr/bin/lmp

# melt CELLS STEPS
melt() {
    cat <<-END
	units lj
	atom_style atomic
	lattice fcc 0.8442
	region box block 0 $1 0 $1 0 $1
	create_box 1 box
	create_atoms 1 box
	mass 1 1.0
	velocity all create 1.44 87287 loop geom
	pair_style lj/cut 2.5
	pair_coeff 1 1 1.0 1.0 2.5
	neighbor 0.3 bin
	neigh_modify every 5 delay 0 check yes
	fix 1 all nve
	thermo 20
	thermo_style custom step temp epair etotal press
	thermo_modify format float %.10f
	run $2
	END
}

# energies N: those of a run over $over, in the file energies.
energies() {
    mpi "$1" lmp -in melt.in -log melt.log >out 2>err
    rc=$?
    awk '/^Step/ { p = 1 } /^Loop time/ { p = 0 } p' melt.log >energies
    [ $rc = 0 ] && [ "$(wc -l <energies)" -gt 5 ]
}
# same N LINES: over this plug as before, step by step
same() {
    if energies "$1" && cmp -s energies "wanted.$1"; then
        ok "$way, $1 processes: energies"
    else
        not_ok "$way, $1 processes: exit code $rc" "$(diff energies "wanted.$1" | head -10)" "$(head -c 2000 err)"
    fi
}
# conserved N: the run to compare with is physics, and not the same wrong numbers twice: the energy stays what it was
conserved() {
    over=tcp
    energies "$1" || { not_ok "over tcp: exit code $rc" "$(head -c 3000 err)"; exit 1; }
    cp energies "wanted.$1"
    awk '$1 + 0 > 0 { if (!n++) e = $4; d = $4 - e; if (d < 0) d = -d; if (d > 0.01) bad = 1 }
        END { exit !(n > 4 && !bad) }' energies && ok "over tcp, $1 processes: energy is conserved" ||
        not_ok "over tcp, $1 processes: energy" "$(cat energies)"
}
if [ -n "$LONG" ]; then melt 12 1000; else melt 8 200; fi >melt.in
for n in ${LONG:+2} 4 ${LONG:+8}; do
    conserved "$n"
    each_plug same "$n"
done
[ $failures = 0 ]

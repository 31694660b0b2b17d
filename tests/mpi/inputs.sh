# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests with HPC Challenge, LAMMPS and ScaLAPACK: what these are to compute, and whether they did.

# hpcc_problem SIZE P Q: writes the problem for P x Q processes
hpcc_problem() {
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

# lammps_melt CELLS STEPS: writes the input: Lennard-Jones atoms, with this number of cells on each side of the cube
lammps_melt() {
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

# lammps_energies LOG: prints the lines with the energies
lammps_energies() { awk '/^ *Step/ { p = 1 } /^Loop time/ { p = 0 } p' "$1"; }

# scalapack_programs: prints the folder of ScaLAPACK's test programs, or nothing if they are not installed
scalapack_programs() {
    find /usr/lib -type d -path '*/scalapack/openmpi-tests' 2>/dev/null | head -1
}

# scalapack_verdict OUTPUT: prints the sums of passed and of failed tests; true if some passed and none failed
scalapack_verdict() {
    awk '
        /PASSED|[Pp]assed|\| +P[SDCZ]/ { passed++ }
        / [1-9][0-9]* tests completed and failed|PASSED, .* [1-9][0-9]* FAILED| FAILED *$|^ *Failed / { failed++ }
        $1 == "|" && $2 ~ /^P[SDCZ]/ && $5 != 0 { failed++ }
        toupper($0) ~ /END OF TESTS|DONE BLACS|TESTS COMPLETED/ { ended++ }
        END { printf "passed %d failed %d ended %d\n", passed, failed, ended; exit !(passed && !failed && ended) }' "$1"
}

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# MPI programs across two clusters that share no network (madlab), started by an unchanged mpirun from a host that
# reaches both.  They use the component and the layer mad of Open MPI, and libfabric's provider, through one gateway and
# through two, which are killed.  MPICH's mpiexec also starts programs if MAD_TEST_MPICH names an MPICH for libfabric
# (doc/mpi.md describes how to get one), and so does Slurm if it is installed.  LONG=1: every program by every plug.
. "$(dirname "$0")/openmpi.sh"
. "$here/inputs.sh"
PROGRAMS="count messages groups types rounds later windows"

# ---- Outside: programs, and the lab

# lab NAME TOPOLOGY TEST...: runs these tests in a lab
lab() {
    name=$1 topology=$2
    shift 2
    [ $# -gt 0 ] || return
    # without the variables that openmpi_start has set: directories in common would make one host of all
    TESTS="$*" DIR=$dir PLUGS=$PLUGS MPICH=$MPICH within 500 env -u MAD_SHM_DIR -u TMPDIR \
        "$BUILD/madlab" run "$topology" --quiet --on head --share "$dir" --share "$here/../.." ${MPICH:+--share "$MPICH"} \
        --timeout 490 -- sh "$here/clusters_test.sh" >lab.out 2>&1
    rc=$?
    cat lab.out
    failures=$((failures + $(grep -c '^not ok' lab.out)))
    [ $rc = 0 ] || grep -q '^not ok' lab.out || not_ok "$name: exit code $rc"
}

outside() {
    PLUGS=
    [ -f "$BUILD/.libs/mca_btl_mad.so" ] && PLUGS="btl"
    [ -f "$BUILD/.libs/libmad-fi.so" ] && ompi_info --parsable 2>/dev/null | grep -q '^mca:mtl:ofi:' && PLUGS="$PLUGS mtl"
    MPICH=
    [ ! -x "$MAD_TEST_MPICH/bin/mpiexec" ] || [ ! -f "$BUILD/.libs/libmad-fi.so" ] || MPICH=$MAD_TEST_MPICH
    layer=
    [ ! -f "$BUILD/.libs/mca_pml_mad.so" ] || layer=pml
    [ -n "$PLUGS$layer" ] || { echo "no plug for Open MPI was built: configure says why"; exit 77; }
    openmpi_start "a plug"
    cat >one.conf <<'END'
networks = {
    red  = { driver = "tcp"; interface = "eth0"; hosts = "head, red[0-1], gate0"; };
    blue = { driver = "tcp"; interface = "eth0"; hosts = ("blue[0-1]", { hosts = "head, gate0"; interface = "eth1"; }); };
};
gateways = ( "gate0" );
END
    sed 's/gate0/gate[0-1]/' one.conf >two.conf
    within 30 "$BUILD/madlab" run one.conf --quiet -- true >out 2>&1 ||
        { echo "skipped: no lab here: $(tail -1 out)"; exit 77; }
    # shellcheck disable=SC2086
    compile $PROGRAMS
    if [ -n "$MPICH" ]; then
        mkdir mpich && cd mpich || exit 1
        mpicc="$MPICH/bin/mpicc -Wno-stringop-overflow" # its header takes MPI_STATUSES_IGNORE for an array
        # shellcheck disable=SC2086
        compile $PROGRAMS
        cd .. || exit 1
    fi
    # ONE, TWO, SLURM, LAYER: run only these tests, for example ONE=counted TWO= SLURM= LAYER=.  In the short form, the
    # programs of test_programs pass two gateways with the layer only.
    lab "one gateway" one.conf ${ONE-programs counted others big none_left wrong_key no_gateway}
    lab "two gateways" two.conf ${TWO-${LONG:+programs} rank_killed one_left}
    lab "Slurm" one.conf ${SLURM-slurm}
    # in a lab of its own, with a time limit of its own
    PLUGS=$layer MPICH=
    [ -z "$layer" ] || lab "the layer" two.conf ${LAYER-programs rank_killed one_left wrong_key}
    [ $failures = 0 ]
}

# ---- Inside, on the launch host

HOSTS=red0,blue0,red1,blue1 # neighbours are in different clusters
slurm=                      # a command of Slurm's that starts the processes, if it does

# around MADRUN'S OPTIONS -- MPIRUN'S: starts mpirun among gateways
around() {
    own=
    while [ "$1" != -- ]; do
        own="$own $1"
        shift
    done
    shift
    if [ -n "$slurm" ]; then
        # shellcheck disable=SC2086
        set -- $slurm "$@"
        [ "$plug" != mpich ] || set -- env -C "$DIR/mpich" "$@"
    elif [ "$plug" = mpich ]; then
        # in the folder of its programs: mpiexec looks there for programs that they start, whatever -wdir says
        set -- env -C "$DIR/mpich" "$MPICH/bin/mpiexec" -launcher ssh -launcher-exec "$MADLAB_SSH" -hosts $HOSTS "$@"
    else
        set -- mpirun.openmpi --oversubscribe --host $HOSTS "$@"
    fi
    # shellcheck disable=SC2086
    "$BUILD/madrun" --topology /tmp/only_here.conf --launch-agent "$MADLAB_AGENT" --timeout $limit $own --around "$@"
}

# by PLUG: sets the options with which Open MPI sends by this plug-in
by() {
    plug=$1
    unset FI_PROVIDER MPIR_CVAR_NOLOCAL
    [ "$plug" != mpich ] || export FI_PROVIDER=mad MPIR_CVAR_NOLOCAL=1
    export OMPI_MCA_plm_rsh_agent="$MADLAB_SSH" PRTE_MCA_plm_ssh_agent="$MADLAB_SSH" # Open MPI 4 and 5
    export OMPI_MCA_mpi_yield_when_idle=1 # all hosts of the lab share a few cores, which Open MPI cannot know
    export OMPI_MCA_osc=pt2pt # between hosts, Open MPI has no other windows, also not over its own tcp
    if [ "$plug" = btl ]; then
        export OMPI_MCA_osc=rdma OMPI_MCA_btl_mad_windows=1 # ... except over the component
        export OMPI_MCA_mca_base_component_path="$BUILD/.libs:$components" OMPI_MCA_pml=ob1 OMPI_MCA_btl=mad,self
    elif [ "$plug" = pml ]; then
        unset OMPI_MCA_btl
        export OMPI_MCA_mca_base_component_path="$BUILD/.libs:$components" OMPI_MCA_pml=mad
    else
        unset OMPI_MCA_mca_base_component_path OMPI_MCA_btl
        export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=mad
    fi
}

# mpi N COMMAND...
mpi() {
    n=$1
    shift
    around --env FI_PROVIDER_PATH="$BUILD/.libs" -- -n "$n" "$@" </dev/null
}

# kill_on HOST PROGRAM: kills them at once; ./killed has the process numbers
kill_on() {
    "$MADLAB_AGENT" "$1" sh -c 'for p in /proc/[0-9]*; do
        case $(cat $p/comm 2>/dev/null) in *'"$2"') kill -KILL ${p#/proc/} && echo "killed: $p" ;; esac; done' >killed 2>&1
}
# streams GATEWAY: prints the number of streams through it; ./stats.GATEWAY has its whole report
streams() {
    "$MADLAB_AGENT" "$1" "$BUILD/mad_info" stats all >"stats.$1" 2>&1
    sed -n 's/.*; \([0-9]*\) streams pass.*/\1/p' "stats.$1"
}

# rounds_start OPTIONS OF MADRUN...: starts rounds in the background, and waits until some are done
rounds_start() {
    rm -f stop out err # of the job before, whose rounds are not this one's
    around --env FI_PROVIDER_PATH="$BUILD/.libs" "$@" -- -n 4 ./rounds "$DIR/stop" 100000 >out 2>err </dev/null &
    job=$!
    round_is 10
}
round() { tail -n 1 out | sed -n 's/^round //p'; }
round_is() {
    wanted=$1
    there() { [ "$(round)" -ge "$wanted" ] 2>/dev/null; }
    wait_for there
}
# rounds_end NAME: requests the rounds to end, and checks that they end well
rounds_end() {
    : >stop
    wait $job
    check "$1: exit code" 0 $?
    check_has "$1: every byte is right" "ended: 0 bytes wrong" out
}

test_programs() {
    for plug in $PLUGS ${MPICH:+mpich}; do
        by $plug
        for p in messages groups types later; do
            passes ${plug} 4 $p
        done
        [ "$plug" != mpich ] || continue
        windows=
        [ "$plug" != btl ] || windows=windows
        for p in messages groups $windows; do # two on each host: some peers are reached through memory
            HOSTS=red0:2,blue0:2 passes "${plug}_pairs" 4 $p
        done
        [ "$plug" != btl ] || passes btl 4 windows
    done
}

# Each of 4 processes sends N messages of LEN bytes to a process in the other cluster; meanwhile the gateways' counters
# are queried.
test_counted() {
    for plug in $PLUGS ${MPICH:+mpich}; do
        by $plug
        moved "$plug: short" 100 20000
        moved "$plug: long" 10 1000000
    done
}
# moved NAME N LEN: checks that the gateway has forwarded, and Open MPI's component has sent, what MPI sent, and headers
moved() {
    rm -f stats
    report=
    [ $plug != btl ] || report="--mca btl_mad_report 1"
    # shellcheck disable=SC2086
    mpi 4 $report ./count "$2" "$3" "$MADLAB_AGENT gate0 $BUILD/mad_info stats all --prometheus >$DIR/stats" >out 2>err
    check "$1: exit code" 0 $?
    [ -s stats ] || { not_ok "$1: the gateway was asked"; return; }
    awk -v want=$((4 * $2 * $3)) '
        /^madeleine_forward_bytes_total/ { passed += $NF }
        END {
            printf "passed %d wanted %d\n", passed, want
            exit !(passed >= want && passed <= want * 1.05 + 100000)
        }' stats >sums && ok "$1: the gateway forwarded what MPI sent" ||
        not_ok "$1: the gateway forwarded" "$(cat sums; tail -n 20 err)"
    [ $plug = btl ] || return
    btl_moved "$1" $((4 * $2 * $3))
}

test_others() {
    for plug in $PLUGS; do
        by $plug
        if command -v NPopenmpi >/dev/null; then
            mpi 2 NPopenmpi -i -u 100000 -n 3 -o np.out >out 2>err
            check "$plug: NetPIPE checks what it receives: exit code" 0 $?
            [ "$(cat out err | grep -c 'Integrity check passed')" -gt 10 ] && ok "$plug: NetPIPE: integrity" ||
                not_ok "$plug: NetPIPE: integrity" "$(head -c 2000 out err)"
        fi
        python=/usr/bin/python3
        "$python" -c 'import mpi4py' 2>/dev/null || continue
        cat >objects.py <<'END'
from mpi4py import MPI
comm = MPI.COMM_WORLD
data = {"rank": comm.rank, "list": list(range(1000)), "text": "x" * 100000}
everybody = comm.allgather(data)
assert [d["rank"] for d in everybody] == list(range(comm.size))
assert all(d["text"] == data["text"] for d in everybody)
assert comm.allreduce(comm.rank) == comm.size * (comm.size - 1) // 2
END
        mpi 4 "$python" objects.py >out 2>err
        check "$plug: mpi4py: exit code" 0 $?
    done
}

# LAMMPS across the clusters and on one host: equal digits.  HPC Challenge and ScaLAPACK check their results themselves.
# The short form runs each of them by one plug.
test_big() {
    export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
    first=${PLUGS%% *} last=${PLUGS##* }
    [ -z "$LONG" ] || first=$PLUGS last=$PLUGS
    command -v lmp >/dev/null && by_lammps
    [ -z "$(scalapack_programs)" ] || by_scalapack
    command -v hpcc >/dev/null || return
    for plug in $last; do
        by $plug
        hpcc_problem 120 2 2 >hpccinf.txt
        rm -f hpccoutf.txt
        mpi 4 hpcc >out 2>err
        check "$plug: HPC Challenge: exit code" 0 $?
        touch hpccoutf.txt
        check_lines "$plug: HPC Challenge: its own verdict" 1 '^Success=1' hpccoutf.txt
        check_lines "$plug: HPC Challenge: linear system, residual" 1 '^\|\|Ax-b\|\|.* PASSED$' hpccoutf.txt
        check_lines "$plug: HPC Challenge: nothing failed" 0 FAILED hpccoutf.txt
        check_lines "$plug: HPC Challenge: no update was lost" 2 '^MPIRandomAccess(_LCG)?_Errors=0$' hpccoutf.txt
    done
}
# A linear system, and products of matrices
by_scalapack() {
    programs=$(scalapack_programs)
    cp -L "$programs"/*.dat "$programs"/PBLAS/*.dat .
    for plug in $first; do
        by $plug
        for p in xdlu PBLAS/zpb3tst; do
            mpi 4 "$programs/$p" >out 2>err
            check "$plug: ScaLAPACK: $p: exit code" 0 $?
            sums=$(scalapack_verdict out) && ok "$plug: ScaLAPACK: $p ($sums)" ||
                not_ok "$plug: ScaLAPACK: $p: $sums" "$(tail -n 5 out err)"
        done
    done
}
by_lammps() {
    lammps_melt 6 100 >melt.in
    within $limit env -u OMPI_MCA_pml -u OMPI_MCA_btl mpirun.openmpi --oversubscribe -np 4 \
        lmp -in melt.in -log one.log >out 2>err
    check "LAMMPS on one host: exit code" 0 $?
    lammps_energies one.log >wanted
    check "LAMMPS on one host: energies" 7 "$(wc -l <wanted)"
    for plug in $last; do
        by $plug
        mpi 4 lmp -in melt.in -log across.log >out 2>err
        check "$plug: LAMMPS: exit code" 0 $?
        check "$plug: LAMMPS: the same energies as on one host" "$(cat wanted)" "$(lammps_energies across.log)"
    done
}

# A gateway that is killed, and another one is there: nothing is lost
test_one_left() {
    for plug in $PLUGS; do
        by $plug
        rounds_start || not_ok "$plug: one is killed: begins" "$(tail -n 20 out err)"
        victim=gate0 # the one that more streams pass
        [ "$(streams gate1)" -gt "$(streams gate0)" ] && victim=gate1
        [ "$(streams $victim)" -gt 0 ] && ok "$plug: one is killed: it was used" ||
            not_ok "$plug: one is killed: it was used" "$(cat stats.gate0 stats.gate1)"
        now=$(round)
        kill_on $victim madgw
        round_is $((now + 20)) && ok "$plug: one is killed: it goes on" ||
            not_ok "$plug: one is killed: it goes on" "$(cat err)"
        rounds_end "$plug: one is killed"
        check_has "$plug: one is killed: is said" "was ended by signal 9 (Killed); going on without it" err
    done
}

# A rank that is killed ends the job, on both sides of the gateways
test_rank_killed() {
    for plug in $PLUGS ${MPICH:+mpich}; do
        by $plug
        rounds_start || not_ok "$plug: a rank is killed: begins" "$(tail -n 20 out err)"
        kill_on blue0 rounds
        wait $job
        rc=$?
        [ $rc != 0 ] && [ $rc != 124 ] && ok "$plug: a rank is killed: MPI ends the job" ||
            not_ok "$plug: a rank is killed: exit code $rc" "$(cat killed; tail -n 20 err)"
        for host in red0 red1 blue0 blue1; do
            left() { "$MADLAB_AGENT" $host sh -c 'cat /proc/[0-9]*/comm 2>/dev/null' | grep -x rounds; }
            gone() { ! left >/dev/null; }
            wait_for gone || not_ok "$plug: a rank is killed: nothing is left on $host" "$(left)"
        done
    done
}

# ... and no other one is there: MPI gets the error
test_none_left() {
    for plug in $PLUGS ${MPICH:+mpich}; do
        by $plug
        rounds_start --env MAD_FORWARD_DEADLINE=1000 ||
            not_ok "$plug: the only one is killed: begins" "$(tail -n 20 out err)"
        kill_on gate0 madgw
        wait $job
        rc=$?
        [ $rc != 0 ] && [ $rc != 124 ] && ok "$plug: the only one is killed: MPI ends the job" ||
            not_ok "$plug: the only one is killed: exit code $rc" "$(tail -n 20 err)"
    done
}

test_wrong_key() {
    for plug in $PLUGS ${MPICH:+mpich}; do
        by $plug
        cat >keyed <<'END'
#!/bin/sh
case $(hostname) in blue*) MADELEINE_KEY=5f1d0a93c27be64810f9a3d67c25e8b4 ;; esac
exec ./rounds / 1000
END
        mpi 4 sh keyed >out 2>err
        two_keys "$plug" $? "round"
    done
}

test_no_gateway() {
    for plug in $PLUGS; do
        by $plug
        around --env FI_PROVIDER_PATH="$BUILD/.libs" --gateways none -- -np 4 ./rounds / 1000 >out 2>err </dev/null
        rc=$?
        [ $rc != 0 ] && [ $rc != 124 ] && ok "$plug: no gateway: MPI ends the job" ||
            not_ok "$plug: no gateway: exit code $rc" "$(tail -n 20 err)"
        check_has "$plug: no gateway: is said" "the gateway gate0 has no live process" err
    done
}

# Processes that Slurm starts: mpirun and mpiexec in an allocation, across the clusters; srun itself, by PMIx on hosts
# that reach each other (as Slurm's own daemons must), and by PMI-2 across the clusters.
test_slurm() {
    if ! command -v srun slurmctld slurmd >/dev/null; then
        echo "skipped: Slurm is not installed (slurm-client, slurmctld, slurmd)"
        return
    fi
    slurm_start || { not_ok "Slurm: its hosts are there" "$(sinfo 2>&1; tail -n 5 slurm*.err)"; return; }
    for plug in $PLUGS; do
        by $plug
        slurm="salloc --quiet -N 4 mpirun.openmpi"
        passes "$plug, salloc" 4 messages
        slurm="srun --quiet --overcommit -w red0,red1 --mpi=pmix"
        passes "$plug, srun" 4 messages
        # ... and no key of madrun: srun passes none, and Open MPI's own key is the number of the job
        cat >unkeyed <<'END'
#!/bin/sh
unset MADELEINE_KEY MAD_GATEWAYS MAD_TOPOLOGY
export OMPI_MCA_btl_base_verbose=1 FI_LOG_LEVEL=info FI_LOG_PROV=mad
exec ./messages
END
        chmod +x unkeyed
        passes "$plug, srun without a key" 4 unkeyed
        check_lines "$plug, srun without a key: the job's number is not taken" 4 \
            'OMPI_MCA_orte_precondition_transports holds a text that can be guessed' err
        check_lines "$plug, srun without a key: one is made" 1 'the key is from: made by this process' err
        check_lines "$plug, srun without a key: the others get it" 3 'the key is from: the first process of the job' err
    done
    [ -z "$MPICH" ] || {
        by mpich
        slurm="srun --quiet -N 4 --mpi=pmi2"
        passes "mpich, srun" 4 messages
    }
    slurm=
}
# slurm_start: starts the daemons, on this host and on those of the clusters, and waits until all are known
slurm_start() {
    export SLURM_CONF="$DIR/slurm.conf"
    cat >slurm.conf <<'END'
ClusterName=lab
SlurmctldHost=head
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=/tmp/slurm
SlurmdSpoolDir=/tmp/slurm
SlurmctldPidFile=/tmp/slurm/slurmctld.pid
SlurmdPidFile=/tmp/slurm/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SlurmdParameters=config_overrides
# from here to each host directly: in a tree, hosts of one cluster would have to reach those of the other cluster
TreeWidth=1000
NodeName=red[0-1],blue[0-1] CPUs=2
PartitionName=all Nodes=ALL Default=YES
END
    mkdir /tmp/slurm
    for host in red0 red1 blue0 blue1; do
        "$MADLAB_AGENT" $host sh -c "mkdir /tmp/slurm && exec slurmd -D -N $host -f $SLURM_CONF" \
            >slurmd.$host.err 2>&1 </dev/null &
    done
    slurmctld -D -i >slurmctld.err 2>&1 </dev/null &
    all_idle() { [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 4 ]; }
    wait_for all_idle
}

inside() {
    cd "$DIR" || exit 1
    cp "$MADLAB_TOPOLOGY" /tmp/only_here.conf # where no other host sees it
    export BUILD
    components=$(own_components)
    for t in $TESTS; do
        "test_$t"
    done
    [ $failures = 0 ]
}

if [ -n "$MADLAB_AGENT" ]; then inside; else outside; fi

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The key of a job, over each plug-in.  If no mpirun has given random bits (srun --mpi=pmix and other direct launches; here
# the variable is removed, and mpirun is only the PMIx server), Open MPI's own key is the number of the job.  A stranger that
# knows this number is refused, and the job runs all the same, also a job that it starts.  Keys that can be guessed are
# refused.
. "$(dirname "$0")/plugs.sh"
limit=60
bare="env -u OMPI_MCA_orte_precondition_transports"

# ---- A job without mpirun's variable, and one that is started by it
test_runs() {
    # shellcheck disable=SC2086
    mpi 4 $bare ./groups >out 2>err
    check "$way: without a key of mpirun's: exit code" 0 $?
    check_lines "$way: without a key of mpirun's: all is right" 4 '^ok ' out
    mpi 4 ./later.sh >out 2>err
    check "$way: jobs that start jobs: exit code" 0 $?
    check_lines "$way: jobs that start jobs: all is right" 2 '^ok ' out
}

# ---- A process without a launcher, and a job that it starts
test_single() {
    case $over in
    btl) with="OMPI_MCA_pml=ob1 OMPI_MCA_btl=mad,self OMPI_MCA_mca_base_component_path=$BUILD/.libs:$own" ;;
    pml) with="OMPI_MCA_pml=mad OMPI_MCA_mca_base_component_path=$BUILD/.libs:$own" ;;
    ofi) with="OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=mad" ;;
    esac
    # shellcheck disable=SC2086
    within $limit env $with OMPI_MCA_rmaps_base_oversubscribe=1 \
        PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe ./single >out 2>err
    check "$way: alone: exit code" 0 $?
    check_has "$way: alone: talks to what it has started" "sum 3" out
}

# ---- A stranger
# attacked NAME KEY [COMMAND...]: attacks a job of two, started by this command, with KEY, or if KEY is "" with keys that
# follow from its number.  ./verdict names the ranks that accepted the stranger; out and err are the job's
attacked() {
    name=$1 key=$2
    shift 2
    rm -f stop out
    MAD_DRIVERS=self,tcp MAD_TCP_INTERFACES=lo mpi 2 "$@" ./keyed "$modex" "$dir/stop" >out 2>err &
    job=$!
    there() { [ "$(grep -c '^rank ' out 2>/dev/null)" = 2 ] || ! kill -0 $job 2>/dev/null; }
    wait_for there
    # shellcheck disable=SC2086
    within $limit python3 "$here/key_attack.py" out $key >verdict 2>&1 || not_ok "$name: the attack runs" "$(cat verdict)"
    : >stop
    wait $job
    check "$name: the job goes on: exit code" 0 $?
    check_has "$name: the job goes on" "sum 2" out
}
test_attack() {
    case $over in btl) modex=btl.mad.4.1 ;; pml) modex=pml.mad.4.1 ;; ofi) modex=mtl.ofi.4.1 ;; esac
    # shellcheck disable=SC2086
    attacked "$way: the number of the job" "" $bare
    check_lines "$way: the number of the job is no key" 2 '^rank [01]: refused' verdict
    check_has "$way: ... and this is said" "the caller does not hold the job's key" err
    # the same stranger gets in if it has the key: so it is the key that keeps it out
    key=9f03c1d27be54a680d7725b8e1f4963a
    MADELEINE_KEY=$key attacked "$way: the right key" $key
    check_lines "$way: with the right key it joins" 2 '^rank [01]: joined' verdict
}

# ---- Keys that can be guessed
test_refused() {
    for key in 00000000000000000000000000000001 000102030405060708090a0b0c0d0e0f deadbeefdeadbeefdeadbeefdeadbeef; do
        MADELEINE_KEY=$key mpi 2 ./groups >out 2>err
        check "$way: MADELEINE_KEY=$key is refused" 1 $(($? != 0))
        check_has "$way: ... and this is said" "no key: MADELEINE_KEY holds a text that can be guessed" err
    done
    MADELEINE_KEY=0123 mpi 2 ./groups >out 2>err
    check_has "$way: a short one, too" "MADELEINE_KEY has 4 characters, where a key is an even number of hexadecimal digits" err
}

# ---- No log has a key
test_silent() {
    flags="--mca btl_base_verbose 100 --mca pml_base_verbose 100"
    key=9f03c1d27be54a680d7725b8e1f4963a text="Horses.eat/many%oats"
    export FI_LOG_LEVEL=debug FI_LOG_PROV=mad MAD_LOG=debug
    MADELEINE_KEY=$key mpi 2 ./groups >out 2>err
    check "$way: the most is logged: exit code" 0 $?
    check_lines "$way: no log has MADELEINE_KEY" 0 "$key" err
    check_has "$way: ... but where it is from" "the key is from: MADELEINE_KEY" err
    if [ "$over" = ofi ]; then
        FI_MAD_KEY=$text mpi 2 ./groups >out 2>err
        check "$way: the most is logged: exit code" 0 $?
        check_lines "$way: no log has FI_MAD_KEY" 0 "Horses" err
        check_has "$way: ... but where it is from" "the key is from: a text" err
    fi
    unset FI_LOG_LEVEL FI_LOG_PROV MAD_LOG
    flags=
}

# ---- On this host, and on two hosts of a lab
test_hosts() {
    cat >hosts.conf <<'END'
networks = { net = { driver = "tcp"; interface = "eth0"; hosts = "head, n[0-1]"; }; };
END
    within 30 "$BUILD/madlab" run hosts.conf --quiet -- true >out 2>&1 ||
        { echo "# no lab here, so no test on two hosts: $(tail -1 out)"; return; }
    # without what plugs_start has set: directories of one host would make one host of all
    DIR=$dir within 300 env -u MAD_SHM_DIR -u TMPDIR "$BUILD/madlab" run hosts.conf --quiet --on head --share "$dir" \
        --share "$here/../.." --share "$BUILD" --timeout 290 -- sh "$here/key_test.sh" >lab.out 2>&1
    rc=$?
    cat lab.out
    failures=$((failures + $(grep -c '^not ok' lab.out)))
    [ $rc = 0 ] || grep -q '^not ok' lab.out || not_ok "two hosts: exit code $rc"
}

if [ -n "$MADLAB_AGENT" ]; then
    cd "$DIR" || exit 1
    plugs=$PLUGS own=$(own_components)
    export OMPI_MCA_plm_rsh_agent="$MADLAB_SSH" PRTE_MCA_plm_ssh_agent="$MADLAB_SSH" OMPI_MCA_osc=pt2pt
    export OMPI_MCA_mpi_yield_when_idle=1 # both hosts share a few cores, which Open MPI cannot know
    flags="--host n0:2,n1:2 -x FI_PROVIDER_PATH"
    for over in $plugs; do
        way="two hosts, $over"
        test_runs
    done
    [ $failures = 0 ]
    exit
fi

plugs_start openmpi-bin /usr/bin/mpirun.openmpi
compile groups later
cat >single.c <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, other, both;
    int one = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    other = parent;
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(other, parent != MPI_COMM_NULL, &both);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
    if (parent == MPI_COMM_NULL)
        printf("sum %d\n", sum);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
}
END
$mpicc -o single single.c || not_ok "compile single.c"
cat >later.sh <<END
#!/bin/sh
# The processes that it starts do not have the variable either.
unset OMPI_MCA_orte_precondition_transports
exec "$dir/later" "$dir/later.sh"
END
chmod +x later.sh
include=$(pkg-config --variable=pkgincludedir ompi 2>/dev/null)
if [ -f "$include/opal/mca/pmix/pmix.h" ]; then
    $mpicc -std=gnu11 -O1 -o keyed "$here/keyed.c" -isystem "$include" -isystem "$(dirname "$include")" -lopen-pal ||
        not_ok "compile keyed.c"
    each_plug test_attack
else
    echo "# Open MPI's internal headers are not there: no attack"
fi
each_plug test_runs
each_plug test_single
export PLUGS="$plugs"
test_hosts
each_plug test_refused
each_plug test_silent
[ $failures = 0 ]

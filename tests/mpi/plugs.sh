# SPDX-License-Identifier: BSD-3-Clause
# Sourced first by the tests of all plug-ins.  They run over each plug-in that was built (btl: the component of Open
# MPI; pml: its point-to-point layer; ofi: the provider of libfabric), and over Open MPI's own tcp if there is something
# to compare.
. "$(dirname "$0")/openmpi.sh"
limit=${LONG:+900}
limit=${limit:-300}
flags=

# plugs_start PACKAGE FILE: skips the test if FILE of PACKAGE does not exist, or no plug-in was built; else like
# openmpi_start
plugs_start() {
    [ -e "$2" ] || { echo "$2 is not there ($1 is not installed)"; exit 77; }
    plugs=
    [ -f "$BUILD/.libs/mca_btl_mad.so" ] && plugs="btl"
    [ -f "$BUILD/.libs/mca_pml_mad.so" ] && plugs="$plugs pml"
    [ -f "$BUILD/.libs/libmad-fi.so" ] && ompi_info --parsable 2>/dev/null | grep -q '^mca:mtl:ofi:' && plugs="$plugs ofi"
    [ -n "$plugs" ] || { echo "no plug for Open MPI was built: configure says why"; exit 77; }
    openmpi_start "a plug"
    export FI_PROVIDER_PATH="$BUILD/.libs" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
    own=$(own_components)
}

# mpi N COMMAND...: runs the command on N processes, over $over, with $flags.  (Open MPI's osc ucx takes windows, and
# fails, where it has no network.)
mpi() {
    n=$1
    shift
    case $over in
    btl) set -- --mca pml ob1 --mca btl mad,self --mca mca_base_component_path "$BUILD/.libs:$own" "$@" ;;
    pml) set -- --mca pml mad --mca mca_base_component_path "$BUILD/.libs:$own" "$@" ;;
    ofi) set -- --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mad "$@" ;;
    tcp) set -- --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo "$@" ;;
    esac
    # shellcheck disable=SC2086
    within $limit mpirun.openmpi --oversubscribe -np "$n" --mca osc ^ucx $flags "$@" </dev/null
}

# each_plug COMMAND...: runs the command over each plug-in; the long form also over TCP.  $way is the name for both
each_plug() {
    for over in $plugs; do
        way=$over
        "$@"
        [ -n "$LONG" ] || continue
        way=${over}_tcp
        export MAD_DRIVERS=self,tcp
        "$@"
        unset MAD_DRIVERS
    done
}

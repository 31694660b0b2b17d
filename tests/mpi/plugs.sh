# SPDX-License-Identifier: BSD-3-Clause
# Sourced first by the tests of what goes through all plugs.  They run over each plug that was built (btl: the component of
# Open MPI; pml: its point-to-point layer; ofi: the provider of libfabric), and over Open MPI's own tcp where there is
# something to compare.
. "$(dirname "$0")/openmpi.sh"
limit=${LONG:+900}
limit=${limit:-300}
flags=

# plugs_start PACKAGE FILE: skip where PACKAGE's FILE is not there, or no plug was built; else as openmpi_start
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

# mpi N COMMAND...: on N processes, over $over, with $flags.  (Open MPI's osc ucx takes windows, and fails, where it has no network.)
mpi() {
    n=$1
    shift
    case $over in
    btl) set -- --mca pml ob1 --mca btl mad,self --mca mca_base_component_path "$BUILD/.libs:$own" "$@" ;;
    pml) set -- --mca pml mad --mca mca_base_component_path "$BUILD/.libs:$own" "$@" ;;
    ofi) set -- --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mad "$@" ;;
    tcp) set -- --mca pml ob1 --mca btl tcp,self "$@" ;;
    esac
    # shellcheck disable=SC2086
    within $limit mpirun.openmpi --oversubscribe -np "$n" --mca osc ^ucx $flags "$@" </dev/null
}

# each_plug COMMAND...: over each of them; the long form does it over TCP as well.  $way says which
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

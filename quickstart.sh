#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install what is needed, build, run the ping-pong over every driver, and print a table.  Then run it across two
# clusters of a lab, through a gateway.  Then (unless --no-peers) run it over every driver and over other libraries, and
# draw plots of all.  Then run an MPI program over the plug-ins.  --no-peers also installs no MPI library, but uses an
# installed one.
set -eu
export LC_ALL=C.UTF-8 # so that numbers have a point
cd "$(dirname "$0")"
peers=yes
case "${1-}" in
--no-peers) peers=no ;;
"") ;;
*) echo "usage: ./quickstart.sh [--no-peers]"; exit 2 ;;
esac
. tests/packages.sh
say() {
    echo "== $*"
}
loud() { # loud COMMAND...: runs it, and shows its output only if it fails
    "$@" >build/quickstart.log 2>&1 || { tail -20 build/quickstart.log >&2; echo "quickstart: failed: $*" >&2; exit 1; }
}
mkdir -p build
[ $peers = yes ] || mpi_packages=
# shellcheck disable=SC2086
install_packages $build_packages $mpi_packages
say "building (in the folder build)"
[ -x configure ] || loud ./autogen.sh
loud configure_in build
loud make -C build -j"$(nproc)"

sizes=8,64,1K,8K,64K,1M,4M
: >build/quickstart.json
failed=0
for driver in self shm tcp; do
    say "ping-pong over $driver"
    n=2
    [ $driver = self ] && n=1
    build/madrun --no-label -n $n build/mad_perf pingpong --driver $driver --sizes $sizes --json >>build/quickstart.json ||
        { echo "quickstart: no ping-pong over $driver: see build/mad_info doctor" >&2; failed=1; }
done
# Drivers over the libraries of other networks, if they were built and work on this host.
drivers="self shm tcp"
for driver in ofi ucx mpi; do
    [ -e build/drivers/.libs/$driver.so ] || continue
    say "ping-pong over $driver"
    launch="build/madrun --no-label -n 2"
    [ $driver != mpi ] || launch="mpirun.openmpi --oversubscribe -n 2"
    # shellcheck disable=SC2086
    if OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MAD_DRIVERS=self,$driver MAD_MODULES=$PWD/build/drivers/.libs \
        $launch build/mad_perf pingpong --driver $driver --sizes $sizes --json >build/driver.json 2>build/quickstart.log; then
        cat build/driver.json >>build/quickstart.json
        drivers="$drivers $driver"
    else
        say "$driver is left out: $(head -1 build/quickstart.log)"
    fi
done
# table DRIVERS FILE: prints one line a size: microseconds one way, and MB/s, of the best batch over each driver
table() {
    awk -F'[{}:," ]+' -v columns="$1" '
    { delete field
      for (i = 1; i < NF; i++) field[$i] = $(i + 1)
      size = field["size"]; driver = field["driver"]
      if (!(size in seen)) { seen[size] = 1; order[++n] = size }
      us[size, driver] = field["latency_us_best"]; rate[size, driver] = field["bandwidth_MBs_best"] }
    END { m = split(columns, drivers, " ")
      printf "\n%10s", "bytes"
      for (d = 1; d <= m; d++) printf " %11s us %9s", drivers[d], "MB/s"
      for (s = 1; s <= n; s++) {
          printf "\n%10d", order[s]
          for (d = 1; d <= m; d++)
              if ((order[s], drivers[d]) in us) printf " %14.3f %9.0f", us[order[s], drivers[d]], rate[order[s], drivers[d]]
              else printf " %14s %9s", "-", "-"
      }
      print "\n\nOne way, best batch.\n" }' "$2"
}
table "$drivers" build/quickstart.json

# Two clusters that share no network, and a gateway: on hosts that madlab makes, or else as processes of this host
# without a driver in common.  build/clusters.json: the ping-pong inside a cluster, and across.
cluster_sizes=8,1K,8K,64K,1M
: >build/clusters.json
cat >build/clusters.conf <<'END'
networks = {
    red = { driver = "tcp"; hosts = "red[0-1], gate"; bandwidth = "1Gbit/s"; };
    blue = { driver = "tcp"; hosts = "gate, blue[0-1]"; bandwidth = "1Gbit/s"; };
};
virtual_channels = { wide = { over = "red, blue"; }; };
END
cat >build/here.conf <<'END'
networks = { red = { driver = "shm"; hosts = "red0, gate"; }; blue = { driver = "tcp"; hosts = "gate, blue0"; }; };
virtual_channels = { wide = { over = "red, blue"; }; };
END
cat >build/here.sh <<'END'
case $PMI_RANK in
0) MAD_HOST=red0 MAD_DRIVERS=self,shm,virtual ;;
1) MAD_HOST=blue0 MAD_DRIVERS=self,tcp,virtual ;;
*) MAD_HOST=gate MAD_DRIVERS=self,shm,tcp,virtual ;;
esac
export MAD_HOST MAD_DRIVERS
exec "$@"
END
pingpong="build/mad_perf pingpong --channel wide --sizes $cluster_sizes --batches 20 --json"
# shellcheck disable=SC2086,SC2016
if build/madlab run build/clusters.conf --quiet -- true >build/quickstart.log 2>&1; then
    say "ping-pong in a lab (madlab): inside a cluster, and across two by way of a gateway"
    for to in red1 blue0; do
        build/madlab run build/clusters.conf --quiet --timeout 60 -- sh -c 'exec build/madrun --no-label -n 2 \
            --topology "$MADLAB_TOPOLOGY" --hosts "red0,$0" --launch-agent "$MADLAB_AGENT" "$@"' $to $pingpong --iters 20 \
            >>build/clusters.json || failed=1
    done
else
    say "ping-pong by way of a gateway; no lab here ($(tail -1 build/quickstart.log)), so all on this host"
    MAD_TOPOLOGY=build/here.conf build/madrun --no-label -n 3 sh build/here.sh $pingpong >>build/clusters.json || failed=1
fi
table "tcp virtual" build/clusters.json
sed -n 's/.*"route": "\([^"]*\)", "gateways": \[\(.*\)\].*/virtual: \1/p' build/clusters.json | sort -u

if [ $peers = yes ]; then
    # shellcheck disable=SC2086
    install_packages $peer_packages
    say "the same beside raw interfaces and peers, and plots (about three minutes)"
    command -v python3 >/dev/null || { echo "quickstart: python3 is not installed" >&2; exit 1; }
    # A figure that misses its target does not make this script fail.
    bench/figures --quick --build build --plots build/plots --draw build/clusters.json shm-small shm-large tcp || [ $? -eq 1 ]
    say "plots: build/plots/figures.html and build/plots/*.svg"
fi

# An MPI program, compiled with Open MPI's mpicc: over Open MPI's own shared memory, over each plug-in that was built, and
# across the two clusters of a lab by way of their gateway: build/mpi.json.
mpi_show() { # WAY WORDS COMMAND...: runs the program, and keeps its rows under the name WAY
    way=$1 words=$2
    shift 2
    say "an MPI program $words"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_mad_report=1 OMPI_MCA_pml_mad_report=1 \
        PMIX_MCA_mca_base_component_show_load_errors=none "$@" >build/mpi.out 2>build/mpi.err &&
        [ -s build/mpi.out ] || { cat build/mpi.err >&2; echo "quickstart: no MPI program $words" >&2; failed=1; }
    sed "s/^{/{\"driver\": \"$way\", /" build/mpi.out >>build/mpi.json
    ways="$ways $way"
}
mpi_here() { # WAY WORDS ARGUMENT OF MPIRUN...: two processes of this host
    way=$1 words=$2
    shift 2
    mpi_show "$way" "$words" mpirun.openmpi --oversubscribe -n 2 "$@" "$PWD/build/mpi_pingpong" --sizes $mpi_sizes --json
}
mpi_used() { # WAY NAME: the plug-in's report says that messages went over it
    grep -q "^$2: sent [1-9]" build/mpi.err || { echo "quickstart: the $1 was not used" >&2; failed=1; }
}
cat >build/mpi.conf <<'END'
networks = {
    red = { driver = "tcp"; interface = "eth0"; hosts = "head, gate, red0"; bandwidth = "1Gbit/s"; };
    blue = { driver = "tcp"; interface = "eth1"; hosts = ("head", "gate", { hosts = "blue0"; interface = "eth0"; });
             bandwidth = "1Gbit/s"; };
};
gateways = ( "gate" );
END
cat >build/mpi_across.sh <<'END'
# Directories that are common to all hosts of the lab would make one host of them.
unset MAD_SHM_DIR TMPDIR
export OMPI_MCA_plm_rsh_agent="$MADLAB_SSH" PRTE_MCA_plm_ssh_agent="$MADLAB_SSH" OMPI_MCA_mpi_yield_when_idle=1
exec build/madrun --topology "$MADLAB_TOPOLOGY" --launch-agent "$MADLAB_AGENT" --around \
    mpirun.openmpi --host red0,blue0 --oversubscribe --bind-to none -n 2 "$@"
END
mpi_sizes=8,1K,64K,1M
ways=
: >build/mpi.json
if ! command -v mpirun.openmpi >/dev/null || ! command -v mpicc.openmpi >/dev/null; then
    say "the MPI program is left out: Open MPI is not installed (openmpi-bin, libopenmpi-dev)"
else
    loud mpicc.openmpi -std=gnu11 -D_GNU_SOURCE -O2 -o build/mpi_pingpong bench/raw/peer_mpi.c bench/engine.c bench/buffers.c
    own_memory=sm
    ! ompi_info --parsable 2>/dev/null | grep -q '^mca:btl:vader:' || own_memory=vader
    mpi_here own "over Open MPI's own shared memory" --mca pml ob1 --mca btl $own_memory,self
    path="$PWD/build/.libs:$(ompi_info --path pkglibdir --parsable | cut -d: -f3)"
    if [ -f build/.libs/mca_pml_mad.so ]; then
        mpi_here layer "over Open MPI's point-to-point layer mad" --mca pml mad --mca mca_base_component_path "$path"
        mpi_used layer "pml mad"
    fi
    if [ -f build/.libs/mca_btl_mad.so ]; then
        mpi_here component "over Open MPI's component btl mad" --mca pml ob1 --mca btl mad,self --mca mca_base_component_path "$path"
        mpi_used component "btl mad"
    fi
    if [ -f build/.libs/libmad-fi.so ]; then
        export FI_PROVIDER_PATH="$PWD/build/.libs"
        mpi_here provider "over libfabric's provider mad" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mad
    fi
    case $ways in
    " own layer component provider") ;;
    *) say "a plug for MPI is left out: configure had no libopenmpi-dev (layer, component) or no libfabric-dev (provider)" ;;
    esac
    # Open MPI itself has no way across: the two processes share no network.
    if [ ! -f build/.libs/mca_pml_mad.so ]; then
        :
    elif build/madlab run build/mpi.conf --quiet --on head -- true >build/quickstart.log 2>&1; then
        mpi_show across "over the layer, between two clusters of a lab by way of a gateway" \
            build/madlab run build/mpi.conf --quiet --timeout 90 --on head -- sh build/mpi_across.sh \
            --mca pml mad --mca mca_base_component_path "$path" \
            "$PWD/build/mpi_pingpong" --sizes $mpi_sizes --json --iters 20 --batches 20
        mpi_used "layer across the clusters" "pml mad"
    else
        say "the MPI program is not run across two clusters: no lab here ($(tail -1 build/quickstart.log))"
    fi
    table "$ways" build/mpi.json
    say "own: Open MPI's shared memory; across: the layer, through a gateway, over links of 1 Gbit/s"
fi
exit $failed

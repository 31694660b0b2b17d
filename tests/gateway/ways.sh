# SPDX-License-Identifier: BSD-3-Clause
# Sourced after start.sh: one gateway between two hosts, a and b.  All of them are processes on this host, whose networks
# differ in what each process may use:
#   tcp-tcp   a -(tcp over IPv4 loopback)- g -(tcp over IPv6 loopback)- b
#   shm-tcp   a -(shared memory)- g -(tcp)- b          tcp-shm   the same reversed
#   ofi-tcp   a -(libfabric over tcp)- g -(tcp)- b     ucx-tcp   a -(UCX over tcp)- g -(tcp)- b
#   verbs-tcp   a -(verbs over a device in software)- g -(tcp)- b
#   mpi-tcp   a -(Open MPI)- g -(tcp)- b, started by mpirun: b initialises MPI, too, and does not use it
# Sets $ways to those that work on this host, and $fabric_ways to those of the last three lines.

cat >"$dir/as" <<'END'
#!/bin/sh
# as WAY A B COMMAND...: runs as host a for ranks A (FIRST-LAST), as host b for ranks B, else as g
rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}
in_range() { [ "$rank" -ge "${1%-*}" ] && [ "$rank" -le "${1#*-}" ]; }
way=$1 MAD_HOST=g
! in_range "$2" || MAD_HOST=a
! in_range "$3" || MAD_HOST=b
shift 3
tcp="self,tcp,virtual" shm="self,shm,virtual" MAD_TCP_INTERFACES=lo
case $way:$MAD_HOST in
mpi-tcp:*) MAD_DRIVERS=self,mpi,tcp,virtual ;;
tcp-tcp:a) MAD_DRIVERS=$tcp ;;
tcp-tcp:b) MAD_DRIVERS=$tcp MAD_TCP_INTERFACES=lo/6 ;;
tcp-tcp:g) MAD_DRIVERS=$tcp MAD_TCP_INTERFACES=lo,lo/6 ;;
shm-tcp:a | tcp-shm:b) MAD_DRIVERS=$shm ;;
shm-tcp:b | tcp-shm:a | *-tcp:b) MAD_DRIVERS=$tcp ;;
*-tcp:a) MAD_DRIVERS=self,${way%-*},virtual ;;
ofi-tcp:g | ucx-tcp:g | verbs-tcp:g) MAD_DRIVERS=self,${way%-*},tcp,virtual ;;
*) MAD_DRIVERS=self,shm,tcp,virtual ;;
esac
MAD_TOPOLOGY=${0%/*}/$way.cfg
[ "$way" != verbs-tcp ] || export LD_LIBRARY_PATH="${0%/*}/soft"
export MAD_OFI_PROVIDERS=tcp+rxm UCX_TLS=tcp
export MAD_HOST MAD_DRIVERS MAD_TCP_INTERFACES MAD_TOPOLOGY
exec "$@"
END
chmod +x "$dir/as"
for way in tcp-tcp shm-tcp tcp-shm ofi-tcp ucx-tcp verbs-tcp mpi-tcp; do
    echo "networks = { x = { driver = \"${way%-*}\"; hosts = \"a,g\"; }; y = { driver = \"${way#*-}\"; hosts = \"g,b\"; }; };" \
        >"$dir/$way.cfg"
done

with_encryption "$dir"/*.cfg

needs_topology "$dir/tcp-tcp.cfg" a
ways="tcp-tcp shm-tcp tcp-shm"
if ! has_loopback6; then
    echo "# no IPv6 loopback here: tcp-tcp is left out"
    ways="shm-tcp tcp-shm"
fi
export MAD_MODULES="${MAD_MODULES-$BUILD/drivers/.libs}"
fabric_ways=
for driver in ofi ucx; do
    [ ! -e "$MAD_MODULES/$driver.so" ] || fabric_ways="$fabric_ways $driver-tcp"
done

[ ! -e "$MAD_MODULES/mpi.so" ] || ! command -v mpirun.openmpi >/dev/null || fabric_ways="$fabric_ways mpi-tcp"
if [ -e "$MAD_MODULES/verbs.so" ] && [ -e "$BUILD/tests/.libs/soft_verbs.so" ]; then
    mkdir "$dir/soft" && cp "$BUILD/tests/.libs/soft_verbs.so" "$dir/soft/libibverbs.so.1" && fabric_ways="$fabric_ways verbs-tcp"
fi

# on WAY N COMMAND...: runs N processes; rank 0 is on a and rank 1 on b, or the ranks of $ways_a and $ways_b are
ways_a=0-0 ways_b=1-1
on() {
    way=$1 n=$2
    shift 2
    # shellcheck disable=SC2086
    case $way in
    mpi-*) set -- within 120 mpirun.openmpi --oversubscribe --bind-to none -n "$n" "$dir/as" "$way" "$ways_a" "$ways_b" "$@" ;;
    *) set -- within 120 "$BUILD/madrun" --no-label $opt -n "$n" "$dir/as" "$way" "$ways_a" "$ways_b" "$@" ;;
    esac
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@" </dev/null
}

# SPDX-License-Identifier: BSD-3-Clause
# Sourced after start.sh: a way is a chain of networks between two hosts, a and b, named after the networks' drivers.  All
# hosts are processes on this host, whose networks differ in what each process may use:
#   shm-tcp       a -(shared memory)- g -(tcp)- b
#   tcp-tcp       a -(tcp over IPv4 loopback)- g -(tcp over IPv6 loopback)- b
#   ofi-tcp-ucx   a -(libfabric over tcp)- g -(tcp)- h -(UCX over tcp)- b
#   verbs-eth     a -(verbs over a device in software)- g -(Ethernet)- b, inside the namespace of ethernet.sh only
#   mpi-tcp       a -(Open MPI)- g -(tcp)- b, started by mpirun: b initialises MPI, too, and does not use it
# Sets $ways to those over the library's own drivers that work on this host, and $fabric_ways to others over tcp.

cat >"$dir/as" <<'END'
#!/bin/sh
# as WAY A B COMMAND...: runs as host a for ranks A (FIRST-LAST), as host b for ranks B, else as g; on a way of three
# networks the last rank is h
rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK} size=${OMPI_COMM_WORLD_SIZE-$PMI_SIZE}
in_range() { [ "$rank" -ge "${1%-*}" ] && [ "$rank" -le "${1#*-}" ]; }
way=$1 MAD_HOST=g place=1
case $way in *-*-*) far=3 ;; *) far=2 ;; esac
[ "$far$rank" != "3$((size - 1))" ] || MAD_HOST=h place=2
! in_range "$2" || MAD_HOST=a place=0
! in_range "$3" || MAD_HOST=b place=$far
shift 3
drivers= interfaces= net=0 next=lo
for driver in $(echo "$way" | tr - ' '); do
    # Host number N is on networks N - 1 and N.
    if [ $net = $place ] || [ $((net + 1)) = $place ]; then
        drivers=$drivers,$driver
        [ $driver != tcp ] || interfaces=$interfaces,$next
        [ $driver != verbs ] || export LD_LIBRARY_PATH="${0%/*}/soft"
    fi
    [ $driver != tcp ] || next=lo/6
    net=$((net + 1))
done
case $way in *mpi*) drivers=,mpi$drivers ;; esac
MAD_DRIVERS=self$drivers,virtual MAD_TCP_INTERFACES=${interfaces#,} MAD_TOPOLOGY=${0%/*}/$way.cfg
MAD_ETH_INTERFACES=port$rank
export MAD_OFI_PROVIDERS=tcp+rxm UCX_TLS=tcp
export MAD_HOST MAD_DRIVERS MAD_TCP_INTERFACES MAD_TOPOLOGY MAD_ETH_INTERFACES
exec "$@"
END
chmod +x "$dir/as"
# way_file WAY: writes the topology file of a way, $dir/WAY.cfg
way_file() {
    case $1 in *-*-*) set -- "$1" x=a,g y=g,h z=h,b ;; *) set -- "$1" x=a,g y=g,b ;; esac
    way_of_file=$1
    {
        echo "networks = {"
        for driver in $(echo "$way_of_file" | tr - ' '); do
            shift
            echo "${1%=*} = { driver = \"$driver\"; hosts = \"${1#*=}\"; };"
        done
        echo "};"
    } >"$dir/$way_of_file.cfg"
    with_encryption "$dir/$way_of_file.cfg"
}
for way in tcp-tcp shm-tcp tcp-shm ofi-tcp ucx-tcp verbs-tcp mpi-tcp; do
    way_file $way
done

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
! soft_verbs_make || fabric_ways="$fabric_ways verbs-tcp"

# on WAY N COMMAND...: runs N processes; rank 0 is on a and rank 1 on b, or the ranks of $ways_a and $ways_b are
ways_a=0-0 ways_b=1-1
on() {
    way=$1 n=$2
    shift 2
    # shellcheck disable=SC2086
    case $way in
    *mpi*) set -- within ${within_s:-120} mpirun.openmpi --oversubscribe --bind-to none -n "$n" "$dir/as" "$way" "$ways_a" "$ways_b" "$@" ;;
    *) set -- within ${within_s:-120} "$BUILD/madrun" --no-label $opt -n "$n" "$dir/as" "$way" "$ways_a" "$ways_b" "$@" ;;
    esac
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@" </dev/null
}

# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts at the top: packages by Debian name.  install_packages NAME... installs what is missing when
# it can, else says what is missing and goes on.
build_packages="gcc make autoconf automake libtool pkg-config libhwloc-dev libssl-dev libjansson-dev libpmix-dev libconfig-dev"
test_packages="check git valgrind iproute2 openssh-client openssh-server python3 openmpi-bin libopenmpi-dev mpich clang
    netpipe-openmpi python3-mpi4py hpcc lammps scalapack-mpi-test libfabric-bin libfabric-dev libclang-rt-dev g++ man-db
    mandoc slurmctld slurmd slurm-client spin tcc xz-utils gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    python3-prometheus-client locales"
peer_packages="openmpi-bin libopenmpi-dev mpich libmpich-dev libucx-dev ucx-utils libfabric-bin libfabric-dev
    netpipe-openmpi netpipe-tcp netbase gnuplot-nox python3 valgrind binutils iproute2 socat libzmq3-dev"

install_packages() {
    missing=
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing packages (install them as root: apt-get install$missing)" >&2
        return 0
    fi
    echo "installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    said=$(apt-get update 2>&1 && apt-get install -y --no-install-recommends $missing 2>&1) ||
        { echo "$said" | tail -5 >&2; echo "some packages could not be installed; going on" >&2; }
}

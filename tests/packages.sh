# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts in the top folder: the needed packages, by their Debian names.  install_packages NAME...
# installs missing packages if it may; otherwise it reports them and continues.  (iproute2: madlab makes networks with
# ip.)
build_packages="gcc make autoconf automake libtool pkg-config libhwloc-dev libssl-dev libjansson-dev libpmix-dev libconfig-dev
    libseccomp-dev iproute2"
case $(uname -m) in x86_64) build_packages="$build_packages libipsec-mb-dev" ;; esac # it exists for no other processor
# With these, configure builds the plug-ins for MPI programs.
mpi_packages="openmpi-bin libopenmpi-dev libfabric-dev"
deb_packages="build-essential debhelper dpkg-dev fakeroot lintian"
test_packages="$mpi_packages build-essential check gdb git valgrind openssh-client openssh-server python3 mpich clang
    clang-format clang-tidy lintian netpipe-openmpi python3-mpi4py hpcc lammps scalapack-mpi-test libfabric-bin
    libucx-dev libibverbs-dev librdmacm-dev libclang-rt-dev g++ man-db mandoc slurmctld slurmd slurm-client spin tcc xz-utils gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
    libc6-dev-arm64-cross qemu-user python3-prometheus-client locales libc++-dev libc++abi-dev"
peer_packages="mpich libmpich-dev libucx-dev ucx-utils libfabric-bin
    netpipe-openmpi netpipe-tcp netbase gnuplot-nox python3 valgrind binutils socat libzmq3-dev"
# Packages of make check-rdma and of its short form, besides those of the other tests.  tests/lab/image.sh also fetches
# Debian's kernel.
rdma_packages="qemu-system-x86 busybox-static kmod rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest libibverbs-dev
    librdmacm-dev"

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

# packages_now: prints which packages are installed, of those that configure looks for
packages_now() {
    # shellcheck disable=SC2086
    dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' $build_packages $test_packages 2>/dev/null | grep '^installed' |
        sort -u || :
}

# Otherwise configure looks for bash, in which libtool takes 0.68 s of processors for a file of C, and 0.45 s in dash.
export CONFIG_SHELL="${CONFIG_SHELL:-/bin/sh}"

# configure_in FOLDER ARGUMENT...: configures a build there.  If packages were installed, removed or changed since, it
# configures the build again, with its former arguments.
configure_in() {
    folder=$1
    shift
    if [ ! -x "$folder/config.status" ] || [ ! -f "$folder/Makefile" ]; then
        mkdir -p "$folder"
        (cd "$folder" && ../configure "$@") || return
    elif [ ! -f "$folder/packages" ] || [ "$(packages_now)" != "$(cat "$folder/packages")" ]; then
        (cd "$folder" && ./config.status --recheck && ./config.status) || return
    fi
    packages_now >"$folder/packages"
}

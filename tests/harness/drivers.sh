# SPDX-License-Identifier: BSD-3-Clause
# Sourced by scripts that run a program over one driver after the other (conformance/run.sh names the drivers).  They have set
# $here, a folder beside this one, $BUILD, and $soft, an empty folder.
#   environment DRIVER SEED     prints the variables that select the driver; SEED is for fault
#   launcher DRIVER PROCESSES   prints the words before the program; $madrun_options are options of madrun
# Sets $ofi, $ucx, $verbs and $mpi to the drivers over libraries of others that work here.
harness=$here/../harness
export MAD_MODULES="${MAD_MODULES-$BUILD/drivers/.libs}" # datagram, eth, mpi, ofi, ucx and verbs are modules

# environment DRIVER SEED: prints the variables that select the driver
environment() {
    case $1 in
    self) ;;
    eth) echo "MAD_DRIVERS=self,eth MAD_PREFER=eth" ;;
    rails) echo "MAD_DRIVERS=self,skeleton,pipes MAD_PREFER=skeleton" ;;
    skeleton | pipes | datagram) echo "MAD_DRIVERS=$1 MAD_PREFER=$1" ;;
    verbs) echo "MAD_DRIVERS=self,verbs MAD_PREFER=verbs" ;;
    verbs-soft) echo "MAD_DRIVERS=self,verbs MAD_PREFER=verbs LD_LIBRARY_PATH=$soft" ;;
    verbs-iwarp) echo "MAD_DRIVERS=self,verbs MAD_PREFER=verbs LD_LIBRARY_PATH=$soft SOFT_VERBS_IWARP=$own_address" ;;
    fault:verbs-soft) echo "MAD_DRIVERS=fault MAD_FAULT=verbs MAD_PREFER=fault MAD_FAULT_SEED=$2 LD_LIBRARY_PATH=$soft" ;;
    fault:verbs-iwarp) echo "MAD_DRIVERS=fault MAD_FAULT=verbs MAD_PREFER=fault MAD_FAULT_SEED=$2 LD_LIBRARY_PATH=$soft SOFT_VERBS_IWARP=$own_address" ;;
    ofi-*) echo "MAD_DRIVERS=self,ofi MAD_PREFER=ofi MAD_OFI_PROVIDERS=${1#ofi-}" ;;
    fault:ofi-*) echo "MAD_DRIVERS=fault MAD_FAULT=ofi MAD_PREFER=fault MAD_FAULT_SEED=$2 MAD_OFI_PROVIDERS=${1#fault:ofi-}" ;;
    ucx-*) echo "MAD_DRIVERS=self,ucx MAD_PREFER=ucx UCX_TLS=${1#ucx-}" ;;
    fault:ucx-*) echo "MAD_DRIVERS=fault MAD_FAULT=ucx MAD_PREFER=fault MAD_FAULT_SEED=$2 UCX_TLS=${1#fault:ucx-}" ;;
    mpi-*) echo "MAD_DRIVERS=self,mpi MAD_PREFER=mpi MAD_MPI_THREADS=${THREADS_OF_MPI:-serialized}" ;;
    fault:mpi-*) echo "MAD_DRIVERS=fault MAD_FAULT=mpi MAD_PREFER=fault MAD_FAULT_SEED=$2" ;;
    seal) echo "MAD_PREFER=tcp MAD_TCP_SECURITY=seal" ;;
    fault:rails) echo "MAD_DRIVERS=fault MAD_FAULT=self,skeleton,pipes MAD_PREFER=fault MAD_FAULT_SEED=$2" ;;
    fault:seal) echo "MAD_DRIVERS=fault MAD_FAULT=tcp MAD_PREFER=fault MAD_FAULT_SEED=$2 MAD_TCP_SECURITY=seal" ;;
    fault:*) echo "MAD_DRIVERS=fault MAD_FAULT=${1#fault:} MAD_PREFER=fault MAD_FAULT_SEED=$2" ;;
    *) echo "MAD_PREFER=$1" ;;
    esac
}

root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
# launcher DRIVER PROCESSES
launcher() {
    case $1:$2 in
    self:* | fault:self:*) ;;
    *mpi-openmpi:*) echo "mpirun.openmpi $root --oversubscribe --bind-to none -n $2" ;;
    *mpi-mpich:*) echo "mpiexec.mpich -n $2" ;;
    *eth:1) echo "sh $harness/on_port.sh" ;;
    *eth:*) echo "$BUILD/madrun $madrun_options -n $2 sh $harness/on_port.sh" ;;
    *:1) ;;
    *) echo "$BUILD/madrun $madrun_options -n $2" ;;
    esac
}

# Drivers of vendors' libraries, if they were built; the libraries of ofi and ucx are then there, too.
ofi=
[ -e "$MAD_MODULES/ofi.so" ] && ofi=ofi-tcp
ucx=
[ -e "$MAD_MODULES/ucx.so" ] && ucx='ucx-tcp ucx-posix'
verbs=
[ -e "$MAD_MODULES/verbs.so" ] && cp "$BUILD/tests/.libs/soft_verbs.so" "$soft/libibverbs.so.1" 2>/dev/null &&
    ln -s libibverbs.so.1 "$soft/librdmacm.so.1" && verbs=verbs-soft
# A device of iWARP needs an address that is not loopback's.
own_address=$(ip -o -4 address show scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
[ -z "$verbs" ] || [ -z "$own_address" ] || verbs="$verbs verbs-iwarp"

mpi=
for library in openmpi mpich; do
    grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && continue # MPI libraries leak
    [ -e "$MAD_MODULES/mpi.so" ] && command -v "mpirun.$library" >/dev/null && mpi="$mpi mpi-$library"
done

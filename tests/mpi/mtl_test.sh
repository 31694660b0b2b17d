#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI over libfabric's provider mad (pml cm, mtl ofi): own programs that check every byte, over shared memory, over TCP,
# and behind faults; a process that is killed.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -f "$BUILD/.libs/libmad-fi.so" ] || { echo "no provider for libfabric was built: configure says why"; exit 77; }
command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null ||
    { echo "mpirun.openmpi or mpicc.openmpi is not installed (openmpi-bin, libopenmpi-dev)"; exit 77; }
ompi_info --parsable 2>/dev/null | grep -q '^mca:mtl:ofi:' || { echo "this Open MPI has no mtl ofi"; exit 77; }
grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { echo "libfabric cannot load a provider with a sanitizer"; exit 77; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
export MAD_SHM_DIR="$dir/shm" TMPDIR="$dir" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export FI_PROVIDER_PATH="$BUILD/.libs"
limit=120

# passes NAME N PROGRAM: on N processes; each of its checks is told, and it ends well
passes() {
    within $limit mpirun.openmpi --oversubscribe -np "$2" --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mad \
        "./$3" </dev/null >out 2>err
    rc=$?
    sed "s/^\(not ok\|ok\) /&$1_/" out
    if [ $rc = 0 ] && grep -q '^ok' out && ! grep -q '^not ok' out; then
        ok "$1_$3"
    else
        not_ok "$1_$3: exit code $rc" "$(head -c 3000 err)"
    fi
}
for p in messages types groups threads; do
    mpicc.openmpi -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -o $p "$here/$p.c" -pthread || not_ok "compile $p.c"
    passes shm 3 $p
    MAD_DRIVERS=self,tcp passes tcp 3 $p
done
MAD_DRIVERS=self,fault MAD_FAULT=shm passes fault_shm 2 messages
MAD_DRIVERS=self,fault MAD_FAULT=tcp passes fault_tcp 2 messages
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The commands for MPI programs in the documents, exactly as printed, with the installed files of `make install`.
. "$(dirname "$0")/plugs.sh"
plugs_start openmpi-bin /usr/bin/mpirun.openmpi
top=$(cd "$here/../.." && pwd)
make -s -C "$BUILD" install DESTDIR="$dir/root" >log 2>&1 || { not_ok "make install" "$(tail -5 log)"; exit 1; }
libs=$(dirname "$(find "$dir/root" -name libmadeleine.so)")
unset FI_PROVIDER_PATH
# Settings that users need not give on hosts of their own: the folder of the libraries, permission for four processes,
# the identity of root
mkdir bin && ln -s "$(command -v mpirun.openmpi)" bin/mpirun
PATH="$dir/bin:$PATH"
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # Open MPI 4 and 5
export PATH LD_LIBRARY_PATH="$libs" OMPI_MCA_btl_mad_report=1 OMPI_MCA_pml_mad_report=1 MAD_LOG=info

cat >program.c <<'END_OF_C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d sum %d\n", rank, sum);
    MPI_Finalize();
    return 0;
}
END_OF_C
mpicc.openmpi -o program program.c || not_ok "compile"

# The command in quickstart.sh names all sources of its MPI program.
command=$(sed -n 's/^ *loud \(mpicc.openmpi .*\)/\1/p' "$top/quickstart.sh" | sed "s| -o [^ ]*| -o quick|; s| bench/| $top/bench/|g")
# shellcheck disable=SC2086
$command >log 2>&1
check "quickstart.sh: its MPI program compiles" 0 $?

# typed DOCUMENT PLUG WORD: runs the indented block of DOCUMENT with WORD that ends in mpirun, if PLUG was built
typed() {
    case " $plugs " in *" $2 "*) ;; *) return ;; esac
    awk -v word="$3" '
        /^    / { block = block substr($0, 5) "\n"; next }
        { if (block ~ word && block ~ /(^|\n)mpirun/) printf "%s", block; block = "" }' "$top/$1" |
        sed "s|/usr/local/lib/|$libs/|g" >commands
    check_lines "$1, $2: three commands" 3 '^(export|mpirun) ' commands
    within $limit sh -e commands >out 2>err </dev/null
    check "$1, $2: exit code" 0 $?
    check_lines "$1, $2: what the program says" 4 '^rank [0-3] sum 6$' out
    check_has "$1, $2: over Madeleine" "$4" err
}
typed README.md btl btl=mad "btl mad: sent"
typed doc/mpi.md btl btl=mad "btl mad: sent"
typed doc/mpi.md pml pml=mad "pml mad: sent"
typed doc/mpi.md ofi mtl=ofi " is used"
[ $failures = 0 ]

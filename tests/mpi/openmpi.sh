# SPDX-License-Identifier: BSD-3-Clause
# Sourced first by the tests with Open MPI, and by others with MPI libraries.  They define how a command runs: mpi N
# COMMAND...: on N processes.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
limit=120

mpicc=mpicc.openmpi

# openmpi_start WHAT: skips the test if Open MPI is not installed; then like mpi_start
openmpi_start() {
    command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null ||
        { echo "mpirun.openmpi or mpicc.openmpi is not installed (openmpi-bin, libopenmpi-dev)"; exit 77; }
    mpi_start "$1"
}

# mpi_start WHAT: skips the test if WHAT was built with a sanitizer, since no MPI library can load it then.  Makes a
# folder of the test's own, $dir, and changes to it.
mpi_start() {
    grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { echo "$1 with a sanitizer cannot be loaded"; exit 77; }
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 143' TERM INT HUP
    cd "$dir" || exit 1
    export MAD_SHM_DIR="$dir/shm" TMPDIR="$dir" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_btl_vader_backing_directory="$dir" # so that killed processes leave nothing in /dev/shm
    # Open MPI 5 gives our folder to PMIx, too, which warns of each file
    export PMIX_MCA_mca_base_component_show_load_errors=none
}

# own_components: prints the folder of Open MPI's own components
own_components() {
    own=$(ompi_info --path pkglibdir --parsable 2>/dev/null | sed 's/.*://')
    [ -d "$own" ] || own=$(dirname "$(find /usr/lib -name mca_pml_ob1.so 2>/dev/null | head -1)")
    echo "$own"
}

# btl_moved NAME BYTES: checks that the reports of all processes (in err) equal what MPI sent, and headers: less than a
# hundredth and 10,000
btl_moved() {
    awk -v want="$2" '
        /^btl mad:/ { sent += $6; received += $11; got += $16 }
        END {
            printf "sent %d received %d got %d wanted %d\n", sent, received, got, want
            exit !(sent == received && sent + got >= want && sent + got <= want * 1.01 + 10000)
        }' err >sums && ok "$1: what Madeleine moved is what MPI sent" ||
        not_ok "$1: what Madeleine moved" "$(cat sums; tail -n 20 err)"
}

# compile PROGRAM...: compiles programs of this folder
compile() {
    for program; do
        $mpicc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -o "$program" "$here/$program.c" -pthread ||
            not_ok "compile $program.c"
    done
}

# passes NAME N PROGRAM [ARGUMENT...]: checks that the program prints each of its checks, and ends well
passes() {
    name=$1 processes=$2 program=$3
    shift 3
    mpi "$processes" "./$program" "$@" >out 2>err
    rc=$?
    sed "s/^\(not ok\|ok\) /&${name}_/" out
    if [ $rc = 0 ] && grep -q '^ok' out && ! grep -q '^not ok' out; then
        ok "${name}_$program"
    else
        not_ok "${name}_$program: exit code $rc" "$(head -c 3000 err)"
    fi
}

# two_keys LABEL CODE LINE: checks a job whose ranks have two keys: it has ended by itself, with an error and its reason
# in err, and out has no line LINE of something received
two_keys() {
    [ "$2" != 0 ] && [ "$2" != 124 ] && ok "$1: two keys: the job ends" ||
        not_ok "$1: two keys: exit code $2" "$(head -c 3000 err)"
    check_has "$1: two keys: and the cause is said" "key" err
    check_lines "$1: two keys: nothing passes" 0 "$3" out
}

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MPI programs of bench/figures: each runs over our channels, and reports a value for each figure.  There are very
# few iterations, because the values do not matter here.
. "$(dirname "$0")/openmpi.sh"
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
for module in mca_btl_mad.so libmad-fi.so; do
    [ -f "$BUILD/.libs/$module" ] || { echo "$module was not built: configure says why"; exit 77; }
done
openmpi_start "a module"
ompi_info --parsable 2>/dev/null | grep -q '^mca:mtl:ofi:' || { echo "this Open MPI has no mtl ofi"; exit 77; }
command -v fi_pingpong >/dev/null || { echo "fi_pingpong (libfabric-bin) is not installed"; exit 77; }

# values FIGURE...: prints a line for each figure whose name begins like this: its value, or why there is none
values() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../../bench XDG_CACHE_HOME=$dir within $limit python3 - "$BUILD" "$@" <<'EOF'
import sys
from figlib import mpi, rows
from figlib.context import Context, Missing

context = Context(sys.argv[1], False)
context.cache = "peers"
context.fewer = ["--iters", "2", "--batches", "2"]
mpi.TRANSFERS = 20
found = {}
for figure in rows.FIGURES:
    if not figure.name.startswith(tuple(sys.argv[2:])):
        continue
    try:
        if figure.ours not in found:
            sizes = [f.size for f in rows.FIGURES if f.ours == figure.ours]
            found[figure.ours] = rows.SOURCES[figure.ours](context, sizes)
        print(figure.name, rows.value(figure, found, figure.ours), flush=True)
    except Missing as why:
        print(figure.name, "is missing:", why, flush=True)
EOF
}

# have N FIGURE...
have() {
    n=$1
    shift
    values "$@" >out 2>err || cat err
    check_lines "$*: values" "$n" '^[a-z_]+(-[0-9A-Za-z]+)+ [0-9.]+(e-[0-9]+)?$' out
    check_lines "$*: none is missing" 0 'missing|None' out
}

have 8 mpi-shm- mpi-tcp-
have 8 mpi-ofi-shm- mpi-ofi-tcp-
have 20 mpi-rate- mpi-ofi-rate-
have 4 mpi-overlap- mpi-ofi-overlap-
have 4 mpi-unexpected mpi-posted mpi-ofi-unexpected mpi-ofi-posted
have 21 mpi-barrier- mpi-bcast- mpi-allreduce- mpi-alltoall-
have 24 mpi-put- mpi-get- mpi-accumulate- mpi-ofi-put- mpi-ofi-get- mpi-ofi-accumulate-
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../../bench \
    python3 -c 'from figlib import mpi_gateway; print(mpi_gateway.TOPOLOGY)' >lab.conf
if within 30 "$BUILD/madlab" run lab.conf --quiet -- true >out 2>&1; then
    have 6 mpi-gateway- mpi-ofi-gateway-
    have 7 mpi-hosts-
else
    echo "skipped: between hosts: no lab here: $(tail -1 out)"
fi
have 6 libfabric-
have 4 fi_pingpong-
[ $failures = 0 ]

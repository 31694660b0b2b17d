#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Who may include whom: include <- base <- {engine, marcel, topology} <- core <- {drivers, boot} <- {tools, bench, examples}.
# engine and marcel, one library, know these headers of each other and no more.  The core knows the polling server and the
# accept thread, and nothing of marcel; a driver the contract (and seal.h) and nothing else of the core, and no other driver.
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"

# includes FILES...: "FILE HEADER" for each #include of ours.
includes() {
    grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"|include[[:space:]]+<(madeleine|marcel)' "$@" /dev/null |
        sed -E 's/:.*include[[:space:]]+["<]([^">]*)[">].*/ \1/'
}

# only NAME ALLOWED FILES...: every header that these files include is named by the pattern.
only() {
    name=$1 allowed=$2
    shift 2
    bad=$(includes "$@" | grep -vE " ($allowed)\$")
    if [ -z "$bad" ]; then
        ok "arrows of $name"
    else
        not_ok "arrows of $name: these includes are not allowed:" "$bad"
    fi
}

public='madeleine\.h|madeleine/[a-z]+\.h|marcel\.h'
cd "$src" || exit 1
only include "$public" $(find include -name '*.h')
only base "base/.*|$public" $(find src/base -name '*.[ch]')
only topology "base/.*|topology/.*|$public" $(find src/topology -name '*.[ch]')
only gateway "(base|core|gateway|topology)/.*|$public" $(find src/gateway -name '*.[ch]')
only boot "(base|boot)/.*|$public" $(find src/boot -name '*.[ch]')
# Waits poll on the schedulers' stacks; schedulers with nothing to run wait, and lead.
engine="(base|engine)/.*|marcel/(marcel|monitor|party|sched|watch|worker)\.h|$public"
marcel="(base|marcel)/.*|engine/(accept_thread|engine|helper|leader|waiter)\.h|$public"
only engine "$engine" $(find src/engine -name '*.[ch]')
only marcel "$marcel" $(find src/marcel -name '*.[ch]')
# The core asks the launcher through its one interface.
only core "(base|core)/.*|boot/boot\.h|topology/(topology|route)\.h|engine/(accept_thread|engine|wait_policy)\.h|$public" $(find src/core -name '*.[ch]')
only drivers "base/.*|core/(driver|security/seal|wire/wire)\.h|drivers/.*|$public" $(find src/drivers -name '*.[ch]')
for d in src/drivers/*/; do
    d=${d%/}
    only "${d##*/}" "base/.*|core/(driver|security/seal|wire/wire)\.h|drivers/${d##*/}/.*|$public" $(find "$d" -name '*.[ch]')
done
only tools "(base|tools|topology)/.*|core/(inspect/(counters|query)|security/secret)\.h|gateway/daemon\.h|$public" $(find src/tools -name '*.[ch]')
only bench "(../)?[a-z_]+\.h|bench/.*|$public" $(find bench -name '*.[ch]')
# Modules below src/mpi are outside the library, of which the wait policy needs no symbol.
only openmpi "base/foreign\.h|mpi/openmpi/thresholds\.h|engine/wait_policy\.h|(btl_mad|job_key)\.h|mpi/key\.h|$public" $(find src/mpi/openmpi -name '*.[ch]')
only pml "engine/wait_policy\.h|pml_mad\.h|mpi/key\.h|mpi/openmpi/job_key\.h|mpi/device/device\.h|$public" $(find src/mpi/pml -name '*.[ch]')
only ofi "engine/wait_policy\.h|(ofi|key)\.h|mpi/key\.h|mpi/device/device\.h|$public" $(find src/mpi/ofi -name '*.[ch]')
only device "base/foreign\.h|mpi/device/thresholds\.h|engine/wait_policy\.h|(device|inside|match)\.h|$public" $(find src/mpi/device -name '*.[ch]')
only examples "$public" $(find examples -name '*.[ch]')
only conformance "conform\.h|\.\./harness/test\.h|harness/test\.h|$public" $(find tests/conformance -name '*.[ch]')

# The check can fail.
trial=$(mktemp) || exit 1
# found NAME ALLOWED HEADER: an include of that header is found to be wrong.
found() {
    echo "#include \"$3\"" >"$trial"
    if [ "$(only trial "$2" "$trial" | head -1 | cut -c1-6)" = "not ok" ]; then
        ok "a wrong arrow is found: $1"
    else
        not_ok "a wrong arrow is found: $1"
    fi
}
found "base to core" "base/.*" core/core.h
found "engine to slots" "$engine" marcel/slot.h
found "engine to core" "$engine" core/core.h
found "marcel to follower" "$marcel" engine/follower.h
rm -f "$trial"
[ $failures = 0 ]

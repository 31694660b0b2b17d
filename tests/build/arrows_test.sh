#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Check the includes.  Allowed are: include <- base <- {engine, marcel, topology, boot} <- core <- {drivers, gateway} <-
# {tools, bench, examples}, and core <- coll.  engine and marcel are one library: they may include the headers of each
# other that are listed below, and no others.  The core may include the polling server and the accept thread, and nothing of marcel.  A
# driver may include driver.h and seal.h, but nothing else of the core, and no other driver, except what drivers share
# (drivers/fabric).
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"

# includes FILES...: prints "FILE HEADER" for each #include of a header of ours
includes() {
    grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"|include[[:space:]]+<(madeleine|marcel)' "$@" /dev/null |
        sed -E 's/:.*include[[:space:]]+["<]([^">]*)[">].*/ \1/'
}

# only NAME ALLOWED FILES...: passes if the pattern ALLOWED matches every header that these files include
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

public='madeleine\.h|madeleine/[a-z0-9_]+\.h|marcel\.h'
cd "$src" || exit 1
only include "$public" $(find include -name '*.h')
only base "base/.*|$public" $(find src/base -name '*.[ch]')
only topology "base/.*|topology/.*|$public" $(find src/topology -name '*.[ch]')
only gateway "(base|core|gateway|topology)/.*|$public" $(find src/gateway -name '*.[ch]')
only coll "(base|coll|core)/.*|engine/wait_policy\.h|$public" $(find src/coll -name '*.[ch]')
only boot "(base|boot)/.*|$public" $(find src/boot -name '*.[ch]')
# Waits poll on the stacks of schedulers, and schedulers with nothing to run wait and lead, so both folders need headers
# of each other.
engine="(base|engine)/.*|marcel/(marcel|fd_watch|monitor|plain_thread|sched|worker)\.h|$public"
marcel="(base|marcel)/.*|engine/(accept_thread|engine|helper|leader|waiter)\.h|$public"
only engine "$engine" $(find src/engine -name '*.[ch]')
only marcel "$marcel" $(find src/marcel -name '*.[ch]')
# Inside the engine: threads of the library's own, and the waiting.  Only the progress thread and engine.c include
# headers of both.  A header of the waiting includes only headers of lower parts, in this order: waiter, park and
# engine, leader, follower.
engine_files() {
    files=
    for n in "$@"; do files="$files $(find src/engine -name "$n")"; done
}
inside="base/.*|marcel/[a-z_]+\.h|engine/wait_policy\.h|$public"
threads="$inside|engine/(accept_thread|helper)\.h"
waiting="$inside|engine/(engine|follower|leader|park|wait_policy|waiter)\.h"
engine_files 'helper.[ch]' 'accept_thread.[ch]'
only "engine: threads" "$threads" $files
engine_files 'waiter.[ch]' 'leader.[ch]' 'follower.[ch]' park.h engine.h
only "engine: waiting" "$waiting" $files
only "engine: progress_thread" "$waiting|engine/(helper|numa)\.h" src/engine/progress_thread.c
only "engine: numa" "$inside|engine/(leader|numa)\.h" src/engine/numa.c src/engine/numa.h
only "engine: waiter.h" "$inside" src/engine/waiter.h
only "engine: park.h, engine.h" "$inside|engine/waiter\.h" src/engine/park.h src/engine/engine.h
only "engine: leader.h" "$inside|engine/(engine|waiter)\.h" src/engine/leader.h
only "engine: follower.h" "$inside|engine/(engine|leader|waiter)\.h" src/engine/follower.h

# The core uses the launcher only through boot.h.
outside="base/.*|boot/boot\.h|topology/(topology|route)\.h|engine/(accept_thread|engine|numa|wait_policy)\.h|$public"
only core "core/.*|$outside" $(find src/core -name '*.[ch]')
# Inside the core each folder includes its own headers and those of lower folders, and nothing includes core.h, which is
# for the gateway and for tests.  Below all folders are driver.h, and tables that include nothing of the core.
below='core/(driver|driver_objects|forward|rails|inspect/counters|module|link/(ledger|trace)|send/(policy|share))\.h'
only "core: tables" "base/.*|core/send/policy\.h" src/core/inspect/counters.h src/core/link/ledger.h src/core/link/trace.h src/core/send/policy.h src/core/send/share.h
only "core: driver.h, forward.h, module.h, rails.h" "$below|core/wire/wire\.h|$outside" src/core/driver.h src/core/driver_objects.h src/core/forward.h src/core/module.h src/core/rails.h
lower=object
only "core: forget.c" "$below|core/(object|security|wire|link|conn|send|recv|connect)/.*|core/inspect/query\.h|$outside" src/core/connect/forget.c
for d in object security wire link conn 'send recv' connect dispatch.c rails progress api memory inspect session; do
    for folder in $d; do
        allowed="$below|core/($lower|$folder)/.*|$outside"
        eval "allowed_$(echo "$folder" | tr -d .)=\$allowed"
        # An exception: forget.c includes a header of a higher folder, because it keeps the counters of a released gate
        # (stats.c).
        only "core: $folder" "$allowed" $(find "src/core/$folder" -name '*.[ch]' ! -path src/core/connect/forget.c)
    done
    lower="$lower|$(echo "$d" | tr ' ' '|')"
done
only drivers "base/.*|core/(driver|module|security/seal|wire/wire)\.h|drivers/.*|$public" $(find src/drivers -name '*.[ch]')
for d in src/drivers/*/; do
    d=${d%/}
    only "${d##*/}" "base/.*|core/(driver|module|security/seal|wire/wire)\.h|drivers/(fabric|${d##*/})/.*|$public" $(find "$d" -name '*.[ch]')
done
only tools "coll/choose\.h|(base|tools|topology)/.*|core/(inspect/(counters|query)|security/secret)\.h|gateway/daemon\.h|$public" $(find src/tools -name '*.[ch]')
only bench "(../)?[a-z_]+\.h|bench/.*|$public" $(find bench -name '*.[ch]')
# Modules below src/mpi are outside the library.  They may include wait_policy.h, which needs no symbol of the library.
only openmpi "base/foreign\.h|mpi/openmpi/(thresholds|exchange|open_mpi|tally)\.h|engine/wait_policy\.h|(btl_mad|job_key)\.h|mpi/(key|oldest_first)\.h|$public" $(find src/mpi/openmpi -name '*.[ch]')
only coll-mad "engine/wait_policy\.h|coll_mad\.h|mpi/oldest_first\.h|mpi/openmpi/btl_mad\.h|mpi/pml/pml_mad\.h|$public" $(find src/mpi/coll -name '*.[ch]')
only pml "engine/wait_policy\.h|pml_mad\.h|mpi/(key|oldest_first)\.h|mpi/openmpi/(job_key|open_mpi)\.h|mpi/device/(device|quick)\.h|$public" $(find src/mpi/pml -name '*.[ch]')
only ofi "engine/wait_policy\.h|(ofi|key)\.h|mpi/(key|oldest_first)\.h|mpi/device/device\.h|$public" $(find src/mpi/ofi -name '*.[ch]')
only device "base/foreign\.h|mpi/oldest_first\.h|mpi/device/thresholds\.h|engine/wait_policy\.h|(device|inside|match|quick)\.h|$public" $(find src/mpi/device -name '*.[ch]')
only examples "$public" $(find examples -name '*.[ch]')
only conformance "conform\.h|\.\./harness/test\.h|harness/test\.h|$public" $(find tests/conformance -name '*.[ch]')

# The check itself is tested: it must be able to fail.
trial=$(mktemp) || exit 1
# found NAME ALLOWED HEADER: passes if an include of that header is reported
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
found "leader to accept thread" "$waiting" engine/accept_thread.h
found "accept thread to leader" "$threads" engine/leader.h
found "wire to link" "$allowed_wire" core/link/link.h
found "recv to send" "$allowed_recv" core/send/send.h
found "connect to session" "$allowed_connect" core/session/session.h
found "a folder to core.h" "$allowed_session" core/core.h
rm -f "$trial"
[ $failures = 0 ]

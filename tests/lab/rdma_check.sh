#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Drivers over RDMA networks made by software, in guests (guests.sh): rdma_check.sh [PART...]
#
#   devices    the lab itself: soft-RoCE, by programs of libibverbs and librdmacm
#   short      a few tests of the suite over verbs, in one guest; make check-all runs this
#   madlab     the command madlab --rdma
#   siw        like devices, but soft-iWARP
#   ofi        the conformance suite between two guests over libfabric's provider verbs;ofi_rxm
#   ucx        the conformance suite between two guests over UCX's rc_verbs and ud_verbs
#   verbs      the conformance suite between two guests over the driver verbs
#   verbs-cm   the same with connections by rdma_cm
#   verbs-siw  the same over soft-iWARP
#   ofi-loss, ucx-loss, verbs-loss   some tests of the suite, on a network that loses 3 % of all frames, and delays and reorders
#   verbs-cache   memory stays registered in the guests' kernel, and none that was unmapped is used
#   verbs-space   an RDMA device in another network namespace
#   ofi-gateway, ucx-gateway, verbs-gateway   the conformance suite between a guest on soft-RoCE alone and one on TCP
#              alone, through a gateway on both
#   ofi-kill, ucx-kill, verbs-kill   a guest stops in the middle of a transfer, and the other one reports that
#   siw-kill   like verbs-kill, over soft-iWARP
#
# Without arguments: all.  BUILD: the build folder.  TESTS="A B": these tests, or groups of tests, instead of the whole suite.
# LIMIT=N: seconds of each part (600).  LOGS=FOLDER: the logs of the guests go to FOLDER/PART.
# A part that cannot run here is skipped, with the reason.  make check-rdma runs this.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
LIMIT=${LIMIT:-600}
output=$(mktemp) || exit 1
guests=
clean() {
    [ -z "$guests" ] || { kill "$guests" && wait "$guests"; }
    rm -f "$output"
}
trap clean EXIT

# part NAME OPTIONS-OF-GUESTS COMMAND...: runs the command in guests
part() {
    name=$1 options=$2
    shift 2
    # In the background, since a signal has to end it.
    # shellcheck disable=SC2086
    sh "$here/guests.sh" $options --timeout "$LIMIT" ${LOGS:+--logs "$LOGS/$name"} -- \
        env BUILD="$BUILD" LIMIT="$LIMIT" "$@" >"$output" 2>&1 &
    guests=$!
    wait $guests
    status=$?
    guests=
    case $status in
    77) tail -n 1 "$output" | sed "s/^/$name: /" ;;
    *)
        cat "$output"
        bad=$(grep -c '^not ok ' "$output")
        [ $status = 0 ] || [ "$bad" -gt 0 ] || not_ok "$name (exit status $status)"
        failures=$((failures + bad))
        ran=1
        ;;
    esac
}
# module NAME PART: true if the driver is a module here
module() {
    [ -e "$BUILD/drivers/.libs/$1.so" ] || { echo "$2: skipped: the driver $1 is not a module here"; return 1; }
}
# tools NAME...: true if the commands are there
tools() {
    for tool; do
        command -v "$tool" >/dev/null || { echo "$part: skipped: no $tool (Debian packages ibverbs-utils, rdmacm-utils)"; return 1; }
    done
}

# madlab_rdma: a user's command in a guest
madlab_rdma() {
    MADLAB_GUESTS=$here timeout -k 5 "$LIMIT" "$BUILD/madlab" --rdma --guests 1 --timeout "$LIMIT" -- \
        'rdma link show rxe_n1/1; exit 3' >"$output" 2>&1
    status=$?
    [ $status = 77 ] && { tail -n 1 "$output" | sed "s/^/madlab: /"; return; }
    ran=1
    if [ $status = 3 ] && grep -q 'link rxe_n1/1 state ACTIVE' "$output"; then
        ok "madlab --rdma"
    else
        not_ok "madlab --rdma" "exit status $status" "$(tail -n 12 "$output")"
    fi
}

ran=
for part in ${*:-devices short madlab siw ofi ucx verbs verbs-cm verbs-siw verbs-cache verbs-space verbs-loss ofi-loss ucx-loss ofi-gateway ucx-gateway verbs-gateway ofi-kill ucx-kill verbs-kill siw-kill}; do
    driver=${part%-*}
    case $part in
    devices) tools ibv_rc_pingpong rping && part devices "--guests 2 --net rxe" sh "$here/rdma_devices.sh" rxe ;;
    short) module verbs short && part short "--guests 1 --net rxe" sh "$here/rdma_short.sh" ;;
    madlab) madlab_rdma ;;
    siw) tools rping && part siw "--guests 2 --net siw" sh "$here/rdma_devices.sh" siw ;;
    ofi | ucx | verbs) module "$part" "$part" && part "$part" "--guests 2 --net rxe" sh "$here/rdma_conform.sh" "$part" $TESTS ;;
    verbs-cm) module verbs "$part" && part "$part" "--guests 2 --net rxe" sh "$here/rdma_conform.sh" "$part" $TESTS ;;
    verbs-siw) module verbs "$part" && part "$part" "--guests 2 --net siw" sh "$here/rdma_conform.sh" "$part" $TESTS ;;
    ofi-loss | ucx-loss | verbs-loss)
        module "$driver" "$part" && part "$part" "--guests 2 --net rxe" sh "$here/rdma_conform.sh" "$part" \
            ${TESTS:-requests_order blocks_pieces}
        ;;
    verbs-cache) module verbs "$part" && part "$part" "--guests 2 --net rxe" sh "$here/rdma_cache.sh" ;;
    verbs-space) module verbs "$part" && part "$part" "--guests 1 --net rxe" sh "$here/rdma_space.sh" ;;
    ofi-kill | ucx-kill | verbs-kill)
        module "$driver" "$part" && part "$part" "--guests 2 --net rxe" sh "$here/rdma_kill.sh" "$driver"
        ;;
    siw-kill) module verbs "$part" && part "$part" "--guests 2 --net siw" sh "$here/rdma_kill.sh" verbs ;;
    *-gateway)
        module "$driver" "$part" && part "$part" "--guests 3 --net rxe:1,2 --net tcp:2,3 --on 2" \
            sh "$here/rdma_gateway.sh" "$driver" $TESTS
        ;;
    *) sed -n '3,/^here/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 2 ;;
    esac
done
[ -n "$ran" ] || [ $failures -gt 0 ] || exit 77
[ $failures = 0 ]

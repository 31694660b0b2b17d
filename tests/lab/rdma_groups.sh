# SPDX-License-Identifier: BSD-3-Clause
# Sourced in a guest, with tests/harness/checks.sh.
#
# rdma_settings ofi|ucx|verbs: exports the variables that the driver needs over soft-RoCE.  $rdma_environment becomes the
# options by which madrun passes variables of libfabric and UCX on to other hosts; it passes on MAD_* itself.
#
# rdma_suite NAME PROCESSES HOSTS [TEST...]: runs the conformance suite on these hosts, each group of tests (modes, blocks, ...)
# in a job of its own, so that the output says how far it is.  TEST: a group or a test; without these: all.
# BUILD: the build folder; LIMIT: seconds after $LAB_BEGAN (guests.sh) when all has to be done.
rdma_settings() {
    MAD_MODULES=$BUILD/drivers/.libs MAD_COSTS=none
    export MAD_MODULES MAD_COSTS
    case $1 in
    ofi)
        MAD_OFI_PROVIDERS=verbs # with the layer ofi_rxm
        export MAD_OFI_PROVIDERS
        # ofi_rxm makes its completion queue for this number of peers; with the default, 256, rxe's longest is too short.
        rdma_variables="FI_UNIVERSE_SIZE=16"
        ;;
    ucx)
        # Connected queue pairs are made by datagrams (ud).  rxe drops those that UCX sends to the addresses of IPv4.
        rdma_variables="UCX_TLS=rc_verbs,ud_verbs UCX_IB_GID_INDEX=0"
        ;;
    verbs) rdma_variables= ;;
    esac
    rdma_environment=
    for variable in CONFORM_DEADLINE=150 $rdma_variables; do
        export "${variable?}"
        rdma_environment="$rdma_environment --env $variable"
    done
}

# rdma_left: prints how many seconds are left, less 5 to end
rdma_left() {
    echo $((LIMIT - $(date +%s) + LAB_BEGAN - 5))
}

rdma_suite() {
    suite=$1 processes=$2 hosts=$3
    shift 3
    log=$(mktemp) || exit 1
    # All tests of two processes, but those that have to run alone.
    listed=$("$BUILD/tests/conform" --list | awk '$2 == 2 && $3 == "" { print $1 }')
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(echo "$listed" | sed 's/_.*//' | sort -u)
    for group; do
        tests=$(echo "$listed" | grep -E "^$group(_|\$)")
        left=$(rdma_left)
        if [ "$left" -lt 1 ]; then
            not_ok "$suite-$group" "not begun: $LIMIT s were over"
            continue
        fi
        # shellcheck disable=SC2086
        within "$left" "$BUILD/madrun" -n "$processes" --hosts "$hosts" --launch-agent "$LAB_AGENT" $rdma_environment \
            "$BUILD/tests/conform" $tests >"$log" 2>&1
        status=$?
        if [ $status = 0 ]; then
            ok "$suite-$group"
        else
            not_ok "$suite-$group (exit status $status)" "$(tail -n 15 "$log")"
        fi
        echo "# $((left - $(rdma_left))) s"
    done
}

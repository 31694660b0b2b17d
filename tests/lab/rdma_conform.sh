#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest (guests.sh): the conformance suite over an RDMA network between guest1, where this runs, and guest2.
# rdma_conform.sh ofi|ucx|verbs|verbs-cm|verbs-siw|ofi-loss|ucx-loss|verbs-loss [TEST...]     rdma_groups.sh has the variables
#   verbs-cm: rdma_cm connects queue pairs, on a network rxe;  verbs-siw: the network is siw
#   -loss: both guests lose 3 % of the frames that they send, delay the others by 5 ms, and some of them not
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
what=$1 driver=${1%-*}
shift
rdma_settings "$driver"
[ "$what" != verbs-cm ] || export MAD_VERBS_CM=yes
case $what in
*-loss)
    # By its path: in the shell that runs commands for other guests, tc is a part of busybox.
    damage="/sbin/tc qdisc add dev n1 root netem loss 3% delay 5ms reorder 10%"
    # shellcheck disable=SC2086
    if ! $LAB_AGENT guest2 sh -c "/sbin/modprobe sch_netem && $damage" || ! modprobe sch_netem || ! $damage; then
        not_ok "conform-$what: the network can be damaged"
        exit 1
    fi
    ;;
esac
MAD_DRIVERS="self,$driver" MAD_PREFER=$driver
export MAD_DRIVERS MAD_PREFER
rdma_suite "conform-$what" 2 guest1,guest2 "$@"
[ "$failures" = 0 ]

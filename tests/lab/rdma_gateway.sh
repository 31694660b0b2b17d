#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In guest2 (guests.sh), which is on a network rxe with guest1 and on a network tcp with guest3: the conformance suite
# between these two, which share no network, through a gateway here.
# rdma_gateway.sh ofi|ucx|verbs [TEST...]     rdma_groups.sh has the variables
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
driver=$1
shift
cat >/lab/clusters.conf <<END
networks = {
    fabric = { driver = "$driver"; hosts = "guest[1-2]"; };
    ethernet = { driver = "tcp"; hosts = "guest[2-3]"; interface = "n2"; };
};
END
rdma_settings "$driver"
MAD_TCP_INTERFACES=n2 # so that tcp does not use the network of rxe; a host without n2 has no tcp
MAD_DRIVERS="self,$driver,tcp,virtual" MAD_TOPOLOGY=/lab/clusters.conf MAD_PREFER=virtual
export MAD_TCP_INTERFACES MAD_DRIVERS MAD_TOPOLOGY MAD_PREFER
rdma_suite "conform-$driver-rxe-gateway-tcp" 3 guest1,guest3,guest2 "$@"
[ "$failures" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest (guests.sh): the conformance suite over a network rxe between guest1, where this runs, and guest2.
# rdma_conform.sh ofi|ucx|verbs [TEST...]     rdma_groups.sh has the variables
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
driver=$1
shift
rdma_settings "$driver"
MAD_DRIVERS="self,$driver" MAD_PREFER=$driver
export MAD_DRIVERS MAD_PREFER
rdma_suite "conform-$driver-rxe" 2 guest1,guest2 "$@"
[ "$failures" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest of its own (guests.sh), with a network rxe: a few tests of the conformance suite over the driver verbs, between two
# processes.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
rdma_settings verbs
MAD_DRIVERS=self,verbs MAD_PREFER=verbs
export MAD_DRIVERS MAD_PREFER
log=$(mktemp) || exit 1
if within "$(rdma_left)" "$BUILD/madrun" -n 2 "$BUILD/tests/conform" blocks_pieces direct_posts requests_order >"$log" 2>&1; then
    ok "rdma-short: blocks and requests over soft-RoCE"
else
    not_ok "rdma-short: blocks and requests over soft-RoCE" "$(tail -n 15 "$log")"
fi
[ "$failures" = 0 ]

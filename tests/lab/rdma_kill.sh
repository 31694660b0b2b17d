#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In guest1 (guests.sh), which is on a network rxe or siw with guest2: guest2 stops for good in the middle of a transfer, and the
# process here ends with an error within MAD_PEER_TIMEOUT and some seconds.
# rdma_kill.sh ofi|ucx|verbs     rdma_groups.sh has the variables
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
driver=$1
rdma_settings "$driver"
MAD_DRIVERS="self,$driver" MAD_PEER_TIMEOUT=5000 MAD_LOG=info
export MAD_DRIVERS MAD_PEER_TIMEOUT MAD_LOG
log=$(mktemp) || exit 1
# shellcheck disable=SC2086
within "$(rdma_left)" "$BUILD/madrun" --keep-going -n 2 --hosts guest1,guest2 --launch-agent "$LAB_AGENT" $rdma_environment \
    "$BUILD/mad_perf" pingpong --driver "$driver" --sizes 64K --iters 10 --batches 100000 >"$log" 2>&1 &
job=$!
limit=60
wait_for grep -q "peer 1: .* is used" "$log" || not_ok "rdma-kill-$driver: the transfer begins" "$(tail -n 15 "$log")"
before=$(rdma_left)
$LAB_AGENT guest2 sh -c 'echo o >/proc/sysrq-trigger' >/dev/null 2>&1 &
agent=$!
# shellcheck disable=SC2034
limit=30
if wait_for grep -q 'the peer died or its connection was lost' "$log"; then
    ok "rdma-kill-$driver: the death of a guest is reported"
else
    not_ok "rdma-kill-$driver: the death of a guest is not reported" "$(tail -n 15 "$log")"
fi
echo "# $((before - $(rdma_left))) s: $(grep -m 1 'the peer died' "$log")"
kill "$agent" "$job" 2>/dev/null
[ "$failures" = 0 ]

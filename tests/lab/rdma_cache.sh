#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In guest1 (guests.sh), which is on a network rxe with guest2: memory of blocks stays registered with the device, by the
# kernel's userfaultfd, and none that was unmapped is used (remap.c, MAD_REGISTER_CHECK).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
rdma_settings verbs
MAD_DRIVERS=self,verbs MAD_LOG=info MAD_REGISTER_CHECK=yes
export MAD_DRIVERS MAD_LOG MAD_REGISTER_CHECK
log=$(mktemp) || exit 1

# remaps NAME
remaps() {
    # shellcheck disable=SC2086
    within "$(rdma_left)" "$BUILD/madrun" -n 2 --hosts guest1,guest2 --launch-agent "$LAB_AGENT" $rdma_environment \
        "$BUILD/tests/remap" >"$log" 2>&1
    code=$?
    if [ $code = 0 ] && ! grep -qE 'was replaced|blocks are registered for each transfer' "$log"; then
        ok "rdma-cache: $1"
    else
        not_ok "rdma-cache: $1 (exit status $code)" "$(tail -n 15 "$log")"
    fi
}
remaps "blocks in memory that comes and goes"
MAD_REGISTER_CACHE=256K
export MAD_REGISTER_CACHE
remaps "the same with a small cache"
[ "$failures" = 0 ]

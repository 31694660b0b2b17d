#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest of its own (guests.sh), with a network rxe: what the driver verbs does where the RDMA device, or its interface, is
# in another network namespace.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/rdma_groups.sh"
rdma_settings verbs
MAD_PREFER=verbs MAD_LOG=info
export MAD_PREFER MAD_LOG
log=$(mktemp) || exit 1
# shellcheck disable=SC2034
limit=10

# runs DRIVERS [COMMAND...]: ping between two processes, by the command
runs() {
    drivers=$1
    shift
    within 40 "$@" env MAD_DRIVERS="$drivers" "$BUILD/madrun" --no-label -n 2 "$BUILD/examples/ping" >"$log" 2>&1
    code=$?
}
# went NAME DRIVER TEXT: what ran went over that driver, and the log has the text
went() {
    if [ $code = 0 ] && grep -q 'the number came back as 5' "$log" && grep -q "$2 on .* is used" "$log" && grep -qF -- "$3" "$log"; then
        ok "rdma-space: $1"
    else
        not_ok "rdma-space: $1" "exit status $code, wanted: $2, $3" "$(tail -n 15 "$log")"
    fi
}
# space_add: makes another namespace.  (rxe ends with an interface that goes there, so the interface stays.)
space_add() {
    ip netns add other && ip netns exec other ip link set lo up
}

# Usually every namespace sees the device, but only this one has its interface.
space_add || exit 1
runs self,verbs,tcp ip netns exec other
went "the interface is in another namespace" tcp "no GID of RoCE version 2 of rxe_n1:1 is an IP address of this host"
runs self,verbs
went "the interface is in this namespace" verbs "roce:10.1.0.0/24"

# The kernel takes this word only while there is no other namespace.
ip netns del other
if wait_for rdma system set netns exclusive 2>"$log" && space_add; then
    runs self,verbs,tcp ip netns exec other
    went "the device is in another namespace" tcp "this host has no RDMA device"
    runs self,verbs
    went "the device is in this namespace" verbs "roce:10.1.0.0/24"
else
    not_ok "rdma-space: each device is in one namespace" "$(tail -n 3 "$log")"
fi
[ "$failures" = 0 ]

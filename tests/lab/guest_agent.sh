#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest: runs a command in another one, as ssh does: agent GUEST COMMAND [ARGUMENT...].  Input and output go over TCP;
# what is executed, its errors and its exit status are in files of the folder that all guests share.  (ssh takes many seconds
# in an emulated guest.)  Errors appear when the command has ended.
guest=$1
shift
call=/lab/call.$LAB_GUEST.$$
for word; do printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"; done >"$call"

nc=
# When this ends, nobody else reads the input.
clean() {
    [ -z "$nc" ] || kill $nc 2>/dev/null
    [ ! -s "$call.input" ] || kill "$(cat "$call.input")" 2>/dev/null
}
trap clean EXIT
trap 'exit 143' INT TERM HUP
exec 3<&0 # a process in the background has no other
{
    echo "$call"
    busybox sh -c 'echo $$ >"$0"; exec cat <&3' "$call.input"
} | busybox nc "$guest" 7000 &
nc=$!
exec 3<&-
wait $nc
nc=
[ ! -s "$call.errors" ] || cat "$call.errors" >&2
[ -s "$call.status" ] || exit 255
exit "$(cat "$call.status")"

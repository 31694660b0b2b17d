#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest: the other end of guest_agent.sh, for one connection.  The first line of the input names the file of the call.
read -r call
sh "$call" 2>"$call.errors"
echo $? >"$call.status"

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In a guest (guests.sh): shows that the lab's own RDMA devices work, by programs of libibverbs and librdmacm alone, between
# guest1, where this runs, and guest2.  rdma_devices.sh rxe|siw
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
kind=$1
log=$(mktemp) || exit 1

# between NAME SERVER CLIENT: runs a server in guest2, and its client here, which fails while the server does not listen yet
between() {
    # shellcheck disable=SC2086
    $LAB_AGENT guest2 timeout 40 $2 >"$log.server" 2>&1 &
    server=$!
    if wait_for sh -c "timeout 20 $3 >'$log' 2>&1"; then
        ok "$1"
    else
        not_ok "$1" "$(tail -n 5 "$log" "$log.server")"
    fi
    wait $server
}
# shellcheck disable=SC2034
limit=20
if [ "$kind" = rxe ]; then # siw connects by librdmacm only
    pingpong="-d rxe_n1 -g 0 -n 20 -s 1024"
    between "libibverbs: connected queue pairs (ibv_rc_pingpong)" "ibv_rc_pingpong $pingpong" "ibv_rc_pingpong $pingpong guest2"
    between "libibverbs: datagrams (ibv_ud_pingpong)" "ibv_ud_pingpong $pingpong" "ibv_ud_pingpong $pingpong guest2"
fi
between "librdmacm: a connection by address (rping)" "rping -s -a 10.1.0.2 -C 5" "rping -c -a 10.1.0.2 -C 5"
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collective operations of two clusters and their gateway, which is a member, too.  An operation crosses the gateway once in
# each direction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/start.sh"

. "$here/ways.sh"
seed=${SEED:-$(($(date +%s) % 10000))}
echo "# seed $seed"

# pairs WAY N COMMAND...: runs N processes at each end, and the gateway
pairs() {
    way=$1 ways_a=0-$(($2 - 1)) ways_b=$2-$((2 * $2 - 1))
    n=$((2 * $2 + 1))
    shift 2
    on "$way" $n "$@" >"$dir/out" 2>&1
}
for way in shm-tcp tcp-tcp; do
    pairs $way 2 "$BUILD/tests/coll_each" each
    check "each, $way" 0 $?
    pairs $way 3 "$BUILD/tests/coll_each" random "$seed"
    check "random, $way" 0 $?
done
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A waiting process acknowledges the orderly end of its peer at once, on a plain link and on a sealed link.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
export MAD_DRIVERS=tcp,self MAD_TCP_INTERFACES=lo
for security in auth seal; do
    said=$(MAD_TCP_SECURITY=$security within 300 "$BUILD/madrun" -n 2 "$BUILD/tests/farewell" 2>&1)
    check "farewell-$security" "0 " "$? $said"
done
[ $failures = 0 ]

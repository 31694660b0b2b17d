#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The contract of drivers states the lock, waiting, owner and errors of each operation, and its table of locks is
# complete.
src=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$src/tests/harness/checks.sh"
header=$src/src/core/driver.h

# contract FILE: prints what is missing
contract() {
    python3 "$src/tests/build/driver_contract.py" "$1" >"$work/log" 2>&1
}

# refused NAME SED: passes if the check finds the error that this change of the header makes
refused() {
    sed "$2" "$header" >"$work/driver.h"
    if cmp -s "$header" "$work/driver.h"; then
        not_ok "driver: the change for '$1' does not apply"
    elif contract "$work/driver.h"; then
        not_ok "driver: finds $1"
    else
        ok "driver: finds $1"
    fi
}

if contract "$header"; then ok "driver: the contract is complete"; else not_ok "driver: the contract is complete" "$(cat "$work/log")"; fi
refused "an operation that the table of locks leaves out" 's/acknowledge host_silent moves$/acknowledge host_silent/'
refused "an operation under another lock" '0,/Lock: any\./s//Lock: tx./'
refused "an operation without its line" '0,/Lock: tx\./s///'
refused "an operation that no diagram shows" 's/-> forget$/-> drop/'
refused "a function of the core without a lock" 's/madi_link_writable madi_link_holds/madi_link_writable/'
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ten thousand peers without communication, and one peer that never answers.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"
line=$(within 60 "$BUILD/mad_scale" 10000) || exit 1
echo "# $line"
# value NAME: prints the value, rounded down
value() { echo "$line" | sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p'; }
check "a silent peer: at most 100 bytes beyond its address" 1 $(($(value bytes_per_peer_beyond_address) <= 100))
check "a peer that never answers: not before its deadline" 1 $(($(value connect_ms) >= $(value connect_timeout_ms) - 1))
check "a peer that never answers: bounded" 1 $(($(value connect_ms) < 10000))
echo "$line" >"$BUILD/scale.out"
check_has "a peer that never answers: status" '"connect_status": "MAD_ERR_PEER"' "$BUILD/scale.out"
check_has "a peer that never answers: explained" "within MAD_CONNECT_TIMEOUT (500 ms)" "$BUILD/scale.out"
rm -f "$BUILD/scale.out"
for value in 0 -1 5x '' 99999999999; do
    said=$(within 60 "$BUILD/mad_scale" "$value" 2>&1)
    check "peers '$value'" \
        "2 mad_scale: '$value' is not valid: give how many peers, from 1 to 10000000, and nothing else" "$? $said"
done
within 60 "$BUILD/mad_scale" --help | grep -q '^usage: mad_scale' && ok "the help" || not_ok "the help"
within 60 "$BUILD/mad_scale" --version | grep -q '^mad_scale (Madeleine) [0-9]' && ok "the version" || not_ok "the version"
[ $failures = 0 ]

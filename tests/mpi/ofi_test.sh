#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# libfabric's provider mad: its calls, libfabric's own programs, keys.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
[ -f "$BUILD/.libs/libmad-fi.so" ] || { echo "no provider for libfabric was built: configure says why"; exit 77; }
grep -q '^MAD_CFLAGS = .*fsanitize' "$BUILD/Makefile" && { echo "libfabric cannot load a provider with a sanitizer"; exit 77; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
export MAD_SHM_DIR="$dir/shm" FI_PROVIDER_PATH="$BUILD/.libs" HOME="$dir" FI_MAD_KEY=a-key-for-these-tests
limit=120

# told NAME WHAT PROGRAM [ARGUMENT]: all that the program looks at is told
told() {
    name=$1 what=$2 program=$3
    shift 3
    within $limit "$BUILD/tests/$program" "$@" >"$dir/out" 2>"$dir/err"
    rc=$?
    sed "s/^\(not ok\|ok\) /&$name: /" "$dir/out"
    [ $rc = 0 ] && ok "$what $name" || not_ok "$what $name: exit code $rc" "$(head -c 3000 "$dir/err")"
}
calls() { name=$1; shift; told "$name" "calls over" ofi_calls "$@"; }
told "" "names" ofi_names
calls "all networks"
calls "all networks, memory" basic
MAD_DRIVERS=self,tcp calls tcp
MAD_DRIVERS=self,fault MAD_FAULT=shm calls "shm behind faults"
MAD_DRIVERS=self,fault MAD_FAULT=tcp calls "tcp behind faults"

# What stands in a queue, in which order; a peer that is killed.
told shm "the order of entries," ofi_order
MAD_DRIVERS=self,tcp told tcp "the order of entries," ofi_order
told shm "a lost peer," ofi_lost
MAD_DRIVERS=self,tcp told tcp "a lost peer," ofi_lost

# ---- Keys: without any, a file of this user's is made; one that others may read is not taken
unset FI_MAD_KEY
within $limit "$BUILD/tests/ofi_calls" >"$dir/out" 2>"$dir/err"
check "without a key one is made: exit code" 0 $?
check "... which only this user may read" 600 "$(stat -c %a "$dir/.madeleine-key")"
chmod 644 "$dir/.madeleine-key"
FI_LOG_LEVEL=warn within $limit "$BUILD/tests/ofi_calls" >"$dir/out" 2>"$dir/err"
check "a key that others may read is refused" 1 $(($? != 0))
check_has "... and this is said" "is not a file that only its owner can read" "$dir/err"
export FI_MAD_KEY=short
FI_LOG_LEVEL=warn within $limit "$BUILD/tests/ofi_calls" >"$dir/out" 2>"$dir/err"
check "a short key is refused" 1 $(($? != 0))
check_has "... and this is said" "FI_MAD_KEY has less than 16 characters" "$dir/err"
export FI_MAD_KEY=a-key-for-these-tests

# ---- Programs of libfabric
if ! command -v fi_info >/dev/null; then
    echo "# fi_info is not installed (libfabric-bin): left out"
    [ $failures = 0 ]
    exit
fi
within $limit fi_info -p mad >"$dir/out" 2>&1
check_has "fi_info -p mad" "type: FI_EP_RDM" "$dir/out"

# pingpong OPTION...: a server on a port that is free, a client as soon as it listens
listens() { grep -q ":$(printf %04X "$port") .* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null || ! kill -0 "$server" 2>/dev/null; }
pingpong() {
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
    within $limit fi_pingpong -p mad -e rdm -c "$@" -B "$port" >"$dir/server" 2>&1 &
    server=$!
    wait_for listens
    within $limit fi_pingpong -p mad -e rdm -c "$@" -P "$port" 127.0.0.1 >"$dir/client" 2>&1
    check "fi_pingpong $*: exit code" 0 $?
    wait $server
    check "fi_pingpong $*: exit code of the server" 0 $?
}
lengths() { check_lines "... $1 lengths" "$1" '^(0|[0-9]+k?m?) +[0-9]' "$dir/client"; }
for mode in tagged msg; do
    pingpong -m $mode
    lengths 6
    pingpong -m $mode -S 0 -I 50
    lengths 1
done
pingpong -m tagged -S all -I 3
MAD_DRIVERS=self,tcp pingpong -m msg -I 20
lengths 6

# No other type of endpoints
for type in dgram msg; do
    within $limit fi_pingpong -p mad -e $type 127.0.0.1 >"$dir/out" 2>&1
    check "fi_pingpong -e $type is refused" 1 $(($? != 0))
done
[ $failures = 0 ]

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

# told NAME WHAT PROGRAM [ARGUMENT]: runs a program that prints each of its checks
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

# Entries of a queue, and their order; a killed peer.
told shm "the order of entries," ofi_order
MAD_DRIVERS=self,tcp told tcp "the order of entries," ofi_order
told shm "a lost peer," ofi_lost
MAD_DRIVERS=self,tcp told tcp "a lost peer," ofi_lost

# ---- Keys: without a key, a file of this user is made; a file that others may read, or may have written, is refused
unset FI_MAD_KEY
file=$dir/.madeleine-key
opens() { within $limit "$BUILD/tests/ofi_calls" >"$dir/out" 2>"$dir/err"; }
# refused WHAT TEXT
refused() {
    opens
    check "$1 is refused" 1 $(($? != 0))
    check_has "... and this is said" "mad: libfabric: error: no key: $2" "$dir/err"
}
opens
check "without a key one is made: exit code" 0 $?
check "... which only this user may read" 600 "$(stat -c %a "$file")"
check "... of 32 bytes" 32 "$(stat -c %s "$file")"
chmod 644 "$file"
refused "a key that others may read" "$file is not a file that only its owner can read (chmod 600)"
chmod 600 "$file"
mv "$file" "$dir/elsewhere"
ln -s "$dir/elsewhere" "$file"
refused "a link" "$file: is a symbolic link; name the file that it leads to"
rm "$file"
mkfifo -m 600 "$file"
refused "a pipe" "$file is no plain file; name one"
rm "$file"
(umask 077 && printf 0123456789abcde >"$file")
refused "a short text in a file" "$file has 15 characters, and a key has 16 to 1024"
printf 'passwordpassword\n' >"$file"
refused "a text in a file that can be guessed" "$file holds a text that can be guessed: its 16 characters have"
head -c 32 /dev/zero >"$file"
refused "a file of zeros" "$file holds a text that can be guessed: its 32 bytes have 0 bits of entropy at most"
head -c 8 "$dir/elsewhere" >"$file"
refused "a file that is too short" "$file holds"
if [ "$(id -u)" = 0 ]; then
    cp "$dir/elsewhere" "$file"
    chown 1 "$file"
    refused "a file of another user" "$file belongs to another user"
fi
rm -f "$file"
FI_MAD_KEY_FILE=$dir/missing/key refused "a file that cannot be made" "$dir/missing/key is not there and cannot be made"
FI_MAD_KEY_FILE=$dir/elsewhere opens
check "a file of another name: exit code" 0 $?
export FI_MAD_KEY=short
refused "a short key" "FI_MAD_KEY has 5 characters, and a key has 16 to 1024"
export FI_MAD_KEY=aaaaaaaaaaaaaaaaaaaa
refused "a key that can be guessed" "FI_MAD_KEY holds a text that can be guessed: its 20 characters have"
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

# No other type of endpoints is supported
for type in dgram msg; do
    within $limit fi_pingpong -p mad -e $type 127.0.0.1 >"$dir/out" 2>&1
    check "fi_pingpong -e $type is refused" 1 $(($? != 0))
done
[ $failures = 0 ]

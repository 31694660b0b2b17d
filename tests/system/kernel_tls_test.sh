#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Kernel TLS: sealed links on a kernel with TLS; where the kernel has none, kernel_tls.c plays its part.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
kernel=${BUILD:?}/tests/.libs/kernel_tls.so
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP
[ -f "$kernel" ] || { echo "$kernel is missing: make check builds it"; exit 1; }
export MAD_TCP_SECURITY=seal MAD_PREFER=tcp

# says NAME WORDS: checks what mad_info doctor reports about the protection of loopback
says() {
    LD_PRELOAD=$kernel "$BUILD/mad_info" doctor 2>/dev/null | grep 'security .*tcp on lo:' >"$log"
    if grep -q "the job's key$2\$" "$log"; then ok "$1"; else not_ok "$1" "$(cat "$log")"; fi
}

says "a kernel that has TLS is used" ", sent by the kernel"
KERNEL_TLS=old says "one that cannot change keys is not" ""
KERNEL_TLS=wrong says "one whose records do not open is not" ""
MAD_SEAL_KERNEL=no says "none is if MAD_SEAL_KERNEL says so" ""

within 120 "$BUILD/madrun" -n 2 env LD_PRELOAD="$kernel" "$BUILD/tests/conform" all >"$log" 2>&1
rc=$?
records=$(sed -n 's/.*kernel_tls: \([0-9]*\) records.*/\1/p' "$log" | sort -n | tail -1)
if [ $rc -eq 0 ] && [ "${records:-0}" -gt 1000 ]; then
    ok "the conformance suite over it ($records records)"
else
    not_ok "the conformance suite over it (exit status $rc, $records records)" "$(grep -v 'message: warning' "$log" | tail -20)"
fi
[ $failures = 0 ]

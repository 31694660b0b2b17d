#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The built files have the protections of compiler and linker against memory errors (configure: hardening), and the
# switch between stacks works with control-flow protection.
src=$(cd "$(dirname "$0")/../.." && pwd)
bin=${BUILD:?}
. "$src/tests/harness/checks.sh"
command -v readelf >/dev/null || { echo "skipped: readelf is not here (package binutils)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP
flags=$(sed -n 's/^HARDEN_CFLAGS = //p; s/^HARDEN_LDFLAGS = //p; s/^HARDEN_PIE = //p' "$bin/Makefile" | tr '\n' ' ')

has() { case " $flags " in *" $1 "*) ;; *) return 1 ;; esac; }

# faults FILE: prints a word for each protection that the file lacks
faults() {
    {
        readelf -lW "$1"
        readelf -dW "$1"
        readelf -hW "$1"
        readelf --dyn-syms -W "$1"
    } >"$work/elf" 2>/dev/null
    grep -q 'GNU_RELRO' "$work/elf" || echo no-relro
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' "$work/elf" || echo not-bound-at-once
    grep -qE 'GNU_STACK.* RW ' "$work/elf" || echo executable-stack
    grep -qE 'Type: +DYN' "$work/elf" || echo fixed-address
    ! grep -q TEXTREL "$work/elf" || echo relocated-text
}
# uses FILE PATTERN: true if the file calls a function that matches
uses() { readelf --dyn-syms -W "$1" | grep -qE "UND $2(@| |\$)"; }

if [ -z "${flags# }" ]; then
    echo "skipped: configured without hardening"
    exit 77
fi
for name in libmarcel.so libmadeleine.so libmad-fi.so mca_btl_mad.so madrun madgw madlab mad_info mad_perf; do
    file=$bin/.libs/$name
    [ -e "$file" ] || file=$bin/$name
    [ -e "$file" ] || { case $name in *.so) continue ;; esac; not_ok "$name is not built"; continue; }
    check "$name" "" "$(faults "$file")"
    case $name in mca*) continue ;; esac # too small: nothing in it has to call them
    ! has -fstack-protector-strong || check "$name: checks its stack" yes "$(uses "$file" __stack_chk_fail && echo yes)"
    ! has -D_FORTIFY_SOURCE=2 || check "$name: checked string functions" yes "$(uses "$file" '__[a-z_]+_chk' && echo yes)"
done

# The check itself is tested: it must be able to fail.
cc=$(sed -n 's/^CC = //p' "$bin/Makefile")
echo 'int main(void) { return 0; }' >"$work/bare.c"
$cc -no-pie -Wl,-z,norelro -Wl,-z,lazy -Wl,-z,execstack -o "$work/bare" "$work/bare.c" 2>/dev/null
check "a program without is found" "no-relro not-bound-at-once executable-stack fixed-address" "$(faults "$work/bare" | tr '\n' ' ' | sed 's/ $//')"

# Control-flow protection.  It is built also where the C library does not support it, so that it works where the C
# library does.
[ "$(uname -m)" = x86_64 ] || exit $failures
for file in switch_x86_64.S switch_aarch64.S carrier.c; do
    $cc -O2 -D_GNU_SOURCE -I"$src/include" -I"$src/src" -fexceptions -fPIC -fcf-protection -c -o "$work/$file.o" "$src/src/marcel/$file" ||
        { not_ok "control-flow protection: $file is not compiled"; exit 1; }
done
promise() { readelf -n "$work/$1.o" | sed -n 's/.*x86 feature: //p'; }
check "control-flow protection: of the switch" IBT "$(promise switch_x86_64.S)"
check "control-flow protection: of the other machine's" "IBT, SHSTK" "$(promise switch_aarch64.S)"
# Each place at which a context continues after a jump must begin with a landing instruction.
objdump -d --no-show-raw-insn "$work/carrier.c.o" >"$work/code"
jumps=$(grep -c 'jmp .*\*%rcx' "$work/code")
check "control-flow protection: $jumps switches land" "$jumps" "$(grep -A1 'jmp .*\*%rcx' "$work/code" | grep -c endbr64)"
check "control-flow protection: there are switches" yes "$([ "$jumps" -gt 0 ] && echo yes)"
[ $failures = 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Drivers that are modules: which modules are found, loaded and skipped, and the reasons; in the build folder, and
# installed.
src=$(cd "$(dirname "$0")/../.." && pwd)
. "$src/tests/harness/checks.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP
built=${BUILD:?}/drivers/.libs
cc=$(sed -n 's/^CC = //p' "$BUILD/Makefile")
[ -f "$built/datagram.so" ] || { echo "skipped: no driver is a module here (configure --with-modules)"; exit 77; }
mkdir "$work/m"
cp "$built/datagram.so" "$built/datagram.need" "$work/m"

# reason MODULE [VARIABLE=VALUE...]: prints why the module is not loaded, or "loaded"
reason() {
    module=$1
    shift
    env MAD_MODULES="$work/m" "$@" "$BUILD/mad_info" --json 2>"$work/err" | python3 -c '
import json, sys
for m in json.load(sys.stdin)["modules"]:
    if m["module"] == sys.argv[1]:
        print("loaded" if m["loaded"] else m["reason"])' "$module"
}

# module NAME ABI SIZE: makes a module that writes a file as soon as its code runs
module() {
    cat >"$work/$1.c" <<END
#define MADI_AS_MODULE
#include "core/module.h"
#include <stdio.h>
static const madi_driver_t driver = {.abi = $2, .name = "$1"};
__attribute__((constructor)) static void ran(void) { fclose(fopen("$work/$1.ran", "w")); }
extern const madi_module_t madi_module;
const madi_module_t madi_module = {$2, $3, sizeof(madi_adapter_t), sizeof(madi_link_t), &driver, ${4:-&madi_module_core}};
END
    # shellcheck disable=SC2086
    $cc -D_GNU_SOURCE -I"$src/include" -I"$src/src" -shared -fPIC -o "$work/m/$1.so" "$work/$1.c" -L"$BUILD/.libs" -lmadeleine ||
        not_ok "the module $1 cannot be made"
}
abi=$(sed -n 's/^#define MADI_DRIVER_ABI //p' "$src/src/core/driver.h")
whole='sizeof(madi_driver_t)'

# ---- Which are loaded -------------------------------------------------------------------------------------------

check "a module on request is not loaded" "used only when MAD_DRIVERS names it" "$(reason datagram)"
check "and is when it is named" "loaded" "$(reason datagram MAD_DRIVERS=self,datagram)"
check "or wrapped" "loaded" "$(reason datagram MAD_DRIVERS=fault MAD_FAULT=datagram)"
module other "$abi" "$whole"
check "one that MAD_DRIVERS excludes is not loaded" "not named in MAD_DRIVERS" "$(reason other MAD_DRIVERS=self,tcp)"
[ ! -e "$work/other.ran" ] && ok "and none of its code runs" || not_ok "an excluded module's code has run"
echo "$work/absent" >"$work/m/other.need"
check "without its hardware a module is not loaded" "this host has not what it needs: $work/absent" "$(reason other)"
[ ! -e "$work/other.ran" ] && ok "nor does its code run" || not_ok "the code of a module without hardware has run"
rm "$work/m/other.need" "$work/m/other.so"

# ---- Which are refused ------------------------------------------------------------------------------------------

module old $((abi - 1)) "$whole"
module short "$abi" 16
echo "int nothing = 1;" >"$work/plain.c"
$cc -shared -fPIC -o "$work/m/plain.so" "$work/plain.c"
echo "int far_away(void); int (*call)(void) = far_away;" >"$work/far.c"
$cc -shared -fPIC -o "$work/far_away.so" -Wl,-soname,libfar_away.so.7 "$work/plain.c"
$cc -shared -fPIC -o "$work/m/far.so" "$work/plain.c" -Wl,--no-as-needed "$work/far_away.so"
module copy "$abi" "$whole" "&driver"
cp "$work/m/short.so" "$work/m/tcp.so"
cp "$built/datagram.so" "$work/m/renamed.so"
check "another interface" "it is for version $((abi - 1)) of the interface of drivers, and this library has $abi" "$(reason old)"
check "another size" "its structures have other sizes: it is of another release" "$(reason short)"
check "no driver" "it has no symbol madi_module: it is no driver" "$(reason plain)"
reason far >"$work/out"
check_has "a library that is missing" "libfar_away.so.7: cannot open shared object file" "$work/out"
check "another copy of the library" "it is linked with another copy of libmadeleine" "$(reason copy)"
check "linked in" "the library has this driver linked in" "$(reason tcp)"
check "another name" "its driver is called datagram" "$(reason renamed)"
MAD_MODULES=$work/m "$BUILD/mad_info" >"$work/out" 2>&1
check_has "mad_info shows all of them" "module, not loaded: $work/m/far.so: libfar_away" "$work/out"
MAD_MODULES=$work/m MAD_DRIVERS=self,far "$BUILD/mad_info" >"$work/out" 2>&1
check_has "one that is named is reported in the log" "far: warning: the module $work/m/far.so is not loaded: libfar" "$work/out"

# ---- Use --------------------------------------------------------------------------------------------------------

out=$(MAD_MODULES=$built MAD_DRIVERS=self,datagram MAD_PREFER=datagram within 30 "$BUILD/madrun" --no-label -n 2 "$BUILD/examples/ping" 2>&1)
check "messages go over a module in the build folder" "the number came back as 5" "$(echo "$out" | tail -1)"
make -s -C "$BUILD" install DESTDIR="$work/root" >"$work/log" 2>&1 || not_ok "make install" "$(tail -3 "$work/log")"
libs=$(dirname "$(find "$work/root" -name 'libmadeleine.so')")
bin=$(dirname "$(find "$work/root" -name madrun -type f)")
for f in so need; do
    [ -f "$libs/madeleine/drivers/datagram.$f" ] && ok "datagram.$f is installed" || not_ok "datagram.$f is not installed"
done
cp "$BUILD/examples/ping" "$work/ping"
out=$(LD_LIBRARY_PATH=$libs MAD_MODULES=$libs/madeleine/drivers MAD_DRIVERS=self,datagram MAD_PREFER=datagram \
    within 30 "$bin/madrun" --no-label -n 2 "$work/ping" 2>&1)
check "and over one that is installed" "the number came back as 5" "$(echo "$out" | tail -1)"
folder=$(strings "$libs/libmadeleine.so" | grep -x '/.*/madeleine/drivers')
check "which is where the library looks" "$(sed -n 's/^driverdir = //p' "$BUILD/Makefile" | sed "s|\$(libdir)|$(sed -n 's/^configured_libdir = //p' "$BUILD/Makefile")|")" "$folder"

# ---- From outside -----------------------------------------------------------------------------------------------

# A driver whose source is not in this tree needs only what is installed.
flags() { PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$libs/pkgconfig pkg-config "$@" madeleine-driver; }
mkdir "$work/outside"
sed 's/datagram/mynet/g' "$src/src/drivers/datagram/datagram.c" >"$work/outside/mynet.c"
# shellcheck disable=SC2046
if (cd "$work/outside" && $cc -Wall -Wextra -Werror $(flags --cflags) -fPIC -shared -Wl,-z,defs -o mynet.so mynet.c $(flags --libs)) \
    >"$work/out" 2>&1; then
    ok "a driver is built with the installed headers"
else
    not_ok "a driver is not built with the installed headers" "$(head -5 "$work/out")"
fi
check "for the interface that pkg-config names" "$abi" "$(flags --variable=abi)"
echo on-request >"$work/outside/mynet.need"
cp "$work/outside/mynet.so" "$work/outside/mynet.need" "$work/root$(flags --variable=driverdir | sed "s|^$work/root||")"
out=$(LD_LIBRARY_PATH=$libs MAD_MODULES=$libs/madeleine/drivers MAD_DRIVERS=self,mynet MAD_PREFER=mynet \
    within 30 "$bin/madrun" --no-label -n 2 "$work/ping" 2>&1)
check "and messages go over it" "the number came back as 5" "$(echo "$out" | tail -1)"

# A program with privileges that its caller lacks does not take the folder of modules from the environment.
if [ "$(id -u)" = 0 ]; then
    case "$(findmnt -no OPTIONS -T "$work" 2>/dev/null)" in *nosuid*) nosuid=1 ;; *) nosuid= ;; esac
    module other "$abi" "$whole"
    cat >"$work/privileged.c" <<END
#include <madeleine.h>
int main(int argc, char **argv) { mad_session_t *s; return mad_init(&argc, &argv, &s) ? 1 : (mad_exit(s), 0); }
END
    $cc -I"$src/include" -o "$work/privileged" "$work/privileged.c" -L"$libs" -Wl,--disable-new-dtags -Wl,-rpath,"$libs" -lmadeleine
    rm -f "$work/other.ran"
    MAD_MODULES=$work/m within 20 "$work/privileged" >"$work/out" 2>&1
    [ -e "$work/other.ran" ] && ok "a program takes the folder from the environment" || not_ok "MAD_MODULES has no effect" "$(cat "$work/out")"
    rm -f "$work/other.ran"
    chmod 755 "$work" && chmod -R a+rwX "$work/root" "$work/m" && chown 65534 "$work/privileged" && chmod 4755 "$work/privileged"
    chmod 777 "$work"
    if [ -n "$nosuid" ]; then
        echo "# not tried: a setuid program, since $work is mounted nosuid"
    else
        MAD_MODULES=$work/m within 20 "$work/privileged" >"$work/out" 2>&1
        check_has "a setuid program ignores it" "variables are ignored" "$work/out"
        [ ! -e "$work/other.ran" ] && ok "and loads nothing of its caller's" || not_ok "a setuid program has loaded a module of its caller"
    fi
fi
[ $failures = 0 ]

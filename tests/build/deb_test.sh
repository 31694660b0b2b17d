#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `make deb` makes packages with the right files.  Unpacked into a folder, they suffice to compile a program and to run
# it.
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$here/tests/harness/checks.sh"
. "$here/tests/packages.sh"
# shellcheck disable=SC2086
install_packages $deb_packages
command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null || { echo "dpkg-dev and debhelper are missing"; exit 77; }

timeout 1500 make -s -C "$BUILD" deb >"$work/log" 2>&1 || { tail -40 "$work/log"; not_ok "make deb"; exit 1; }
for p in libmadeleine0 libmarcel0 libmadeleine-dev madeleine-tools madeleine-openmpi madeleine-eth madeleine-libfabric madeleine-mpi madeleine-ofi madeleine-ucx madeleine-verbs; do
    set -- "$BUILD"/deb/"$p"_*.deb
    [ -f "$1" ] || { not_ok "$p is not made"; continue; }
    dpkg-deb -c "$1" | awk '{print $6}' >"$work/$p.list"
    dpkg-deb -x "$1" "$work/root"
done
has() {
    grep -q "$2" "$work/$1.list" || not_ok "$1 lacks $2"
}
has libmadeleine0 '/libmadeleine\.so\.0$'
has libmarcel0 '/libmarcel\.so\.0$'
has libmadeleine-dev '/usr/include/madeleine\.h$'
has libmadeleine-dev '/usr/include/madeleine/legacy\.h$'
has libmadeleine-dev '/libmadeleine\.so$'
has libmadeleine-dev '/pkgconfig/madeleine\.pc$'
has libmadeleine-dev '/man3/mad_pack\.3\.gz$'
has libmadeleine-dev '/examples/ping\.c'
has libmadeleine-dev '/tutorial\.md'
has madeleine-tools '/usr/bin/madrun$'
has madeleine-tools '/usr/bin/mad_perf$'
has madeleine-tools '/usr/bin/madgw$'
has madeleine-tools '/man1/madrun\.1\.gz$'
has madeleine-tools '/man7/madeleine-knobs\.7\.gz$'
has madeleine-openmpi '/madeleine/openmpi/mca_btl_mad\.so$'
has madeleine-libfabric '/madeleine/libfabric/libmad-fi\.so$'
has libmadeleine0 '/madeleine/drivers/datagram\.so$'
has madeleine-eth '/madeleine/drivers/eth\.so$'
has madeleine-eth '/madeleine/drivers/eth\.need$'
has madeleine-ofi '/madeleine/drivers/ofi\.so$'
has madeleine-ofi '/madeleine/drivers/ofi\.need$'
has madeleine-mpi '/madeleine/drivers/mpi\.so$'
has madeleine-mpi '/madeleine/drivers/mpi\.need$'
has madeleine-ucx '/madeleine/drivers/ucx\.so$'
has madeleine-ucx '/madeleine/drivers/ucx\.need$'
has madeleine-verbs '/madeleine/drivers/verbs\.so$'
has madeleine-verbs '/madeleine/drivers/verbs\.need$'
grep -q '\.la$' "$work"/*.list && not_ok "a libtool file is packaged"
dpkg-deb -f "$BUILD"/deb/madeleine-tools_*.deb Depends | grep -q libhwloc || not_ok "madeleine-tools does not depend on hwloc"
dpkg-deb -f "$BUILD"/deb/madeleine-ofi_*.deb Depends | grep -q libfabric1 || not_ok "madeleine-ofi does not depend on libfabric"
for p in libmadeleine0 libmarcel0 libmadeleine-dev madeleine-tools; do
    dpkg-deb -f "$BUILD/deb/$p"_*.deb Depends Recommends | grep -q libfabric && not_ok "$p needs libfabric"
done
[ $failures = 0 ] && ok "the packages hold what they should"

root=$work/root
libs=$(dirname "$(find "$root" -name 'libmadeleine.so')")
flags=$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$libs/pkgconfig pkg-config --cflags --libs madeleine)
# shellcheck disable=SC2086
if gcc -o "$work/ping" "$here/examples/ping.c" $flags "-Wl,-rpath-link,$libs" >"$work/log" 2>&1; then
    out=$(LD_LIBRARY_PATH=$libs timeout 30 "$root/usr/bin/madrun" --no-label -n 2 "$work/ping" 2>&1)
    [ "$out" = "the number came back as 5" ] && ok "a program built with the packages runs" || not_ok "a program built with the packages: $out"
else
    cat "$work/log"
    not_ok "a program does not compile with the packages ($flags)"
fi
if command -v lintian >/dev/null; then
    lintian --fail-on error --tag-display-limit 0 "$BUILD"/deb/*.deb >"$work/lintian" 2>&1 && ok "lintian finds no error" ||
        { cat "$work/lintian"; not_ok "lintian"; }
fi
[ $failures = 0 ]

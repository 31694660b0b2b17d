#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The kernel and the modules that guests (guests.sh) boot: image.sh [--siw] prints the folder that holds them, and makes it
# first if need be.
#
#   vmlinux     Debian's kernel.  Its package is fetched and unpacked, not installed.
#   modules     the names of the modules that a guest loads at its start, in order
#   release     the release of the kernel
#   initramfs   these modules and busybox; guests.sh appends the guest's first process
#   root        the unpacked package, with all modules
#
# --siw also compiles soft-iWARP, which Debian's kernels lack: 150 MB are fetched for it.
# The folder is $LAB_CACHE (~/.cache/madeleine/lab); remove it to have a newer kernel.
# Exit status 77: there can be no guests here; the reason is printed to standard error.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cache=${LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/madeleine/lab}
PATH=$PATH:/usr/sbin:/sbin
# The cloud kernel (linux-image-cloud-amd64) has neither rdma_rxe nor 9p.
meta=linux-image-amd64
# First those for the root file system and the networks; rxe needs a checksum that it does not name as a dependency.
wanted="virtio_pci 9pnet_virtio 9p overlay virtio_net crc32c_generic crc32_generic rdma_rxe siw ib_uverbs rdma_ucm"

impossible() {
    echo "skipped: $*" >&2
    exit 77
}

# fetch PACKAGE...: gets the packages' files into the folder debs
fetch() {
    mkdir -p "$new/debs" && (cd "$new/debs" && apt-get -qq -o APT::Sandbox::User=root download "$@" >&2) ||
        impossible "apt-get download $* failed"
}
# unpack PACKAGE FOLDER
unpack() {
    dpkg-deb -x "$new/debs/$1"_*.deb "$2" || exit 1
}

# siw_compile: makes siw.ko from the sources of Debian's kernel, outside the tree
siw_compile() {
    common=linux-headers-${release%-amd64}-common
    fetch linux-source-6.1 "linux-headers-$release" "$common" linux-kbuild-6.1
    src=$new/src
    for p in linux-source-6.1 "linux-headers-$release" "$common" linux-kbuild-6.1; do unpack "$p" "$src"; done
    tar -C "$src" -xf "$src/usr/src/linux-source-6.1.tar.xz" linux-source-6.1/drivers/infiniband/sw/siw || exit 1
    # The headers' makefiles name each other by the places where they would be installed.
    sed -i "s,/usr/src/,$src/usr/src/,g" "$src/usr/src/linux-headers-$release/Makefile"
    make -s -C "$src/usr/src/linux-headers-$release" M="$src/linux-source-6.1/drivers/infiniband/sw/siw" \
        CONFIG_RDMA_SIW=m modules >"$new/siw.log" 2>&1 || { tail "$new/siw.log" >&2; impossible "siw does not compile here"; }
    mkdir -p "$new/root/lib/modules/$release/extra"
    strip -g -o "$new/root/lib/modules/$release/extra/siw.ko" "$src/linux-source-6.1/drivers/infiniband/sw/siw/siw.ko" || exit 1
    rm -rf "$src"
}

initramfs() {
    tree=$new/initramfs.d
    mkdir -p "$tree/bin" "$tree/modules"
    cp "$(command -v busybox)" "$tree/bin/busybox" || exit 1
    # Each module behind those that it needs.
    for m in $wanted; do modprobe -d "$new/root" -S "$release" --show-depends "$m" 2>/dev/null; done |
        awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$new/list"
    : >"$new/modules"
    while read -r file; do
        cp "$file" "$tree/modules/" && basename "$file" >>"$new/modules" || exit 1
    done <"$new/list"
    rm "$new/list"
    cp "$new/modules" "$tree/modules/order"
    (cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) >"$new/initramfs" || exit 1
    rm -rf "$tree"
}

case ${1:-} in
'' | --siw) siw=${1:-} ;;
*) sed -n '3,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
[ "$(uname -m)" = x86_64 ] || impossible "guests are made for x86_64 only"
for tool in apt-get apt-cache dpkg-deb busybox depmod modprobe python3 flock; do
    command -v $tool >/dev/null || impossible "no $tool (Debian packages: apt, dpkg, busybox-static, kmod, python3, util-linux)"
done
mkdir -p "$cache" && cache=$(cd "$cache" && pwd) || exit 1
exec 9>"$cache/lock"
flock 9
for old in "$cache"/new.*; do [ ! -d "$old" ] || rm -rf "$old"; done # of a run that was killed: we have the lock
done=$cache/image
[ -z "$siw" ] || done=$cache/image-siw
if [ ! -f "$done/initramfs" ]; then
    new=$cache/new.$$
    trap 'rm -rf "$new"' EXIT
    trap 'exit 143' INT TERM HUP
    package=$(apt-cache depends $meta 2>/dev/null | awk '/Depends:/ { print $2; exit }')
    [ -n "$package" ] || impossible "apt knows no package $meta (apt-get update)"
    release=${package#linux-image-}
    fetch "$package"
    unpack "$package" "$new/root"
    python3 "$here/vmlinux.py" "$new/root/boot/vmlinuz-$release" "$new/vmlinux" || exit 1
    [ -z "$siw" ] || siw_compile
    depmod -b "$new/root" "$release" || exit 1
    initramfs
    echo "$release" >"$new/release"
    rm -rf "$new/debs" "$done"
    mv "$new" "$done" || exit 1
fi
echo "$done"

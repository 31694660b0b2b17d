# SPDX-License-Identifier: BSD-3-Clause
# Sourced first by the test scripts of this folder that need a folder of their own, $dir, which is removed at the end.
# They have set $here.  Provides checks.sh, and checks of this host that several of them need.
BUILD=$(cd "${BUILD:-$here/../../build}" && pwd) || exit 1
. "$here/../harness/checks.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP

# needs_topology FILE HOST: skips the test if topology files cannot be read
needs_topology() {
    MAD_TOPOLOGY=$1 MAD_HOST=$2 "$BUILD/tests/world" listen >"$dir/out" 2>&1
    if grep -q 'without libconfig\|not supported' "$dir/out"; then
        echo "skipped: this build cannot read topology files (package libconfig-dev)"
        exit 77
    fi
}
[ "$1" != encrypt ] || ENCRYPT=1
# with_encryption FILE...: has an effect if ENCRYPT is set, or if the script's argument is encrypt.  Adds to these
# topologies a virtual channel over all of their networks that is encrypted from end to end, and that carries channels
# without an entry in a file.
with_encryption() {
    for with_file in ${ENCRYPT:+"$@"}; do
        over=$(grep -o '[a-z0-9]* *= *{ *driver' "$with_file" | sed 's/ *=.*/,/' | tr -d '\n' | sed 's/,$//')
        echo "virtual_channels = { all_of_them = { over = \"$over\"; encrypt = \"end-to-end\"; }; };" >>"$with_file"
    done
}
# has_loopback6: true if IPv6 can serve as the second network of this host
has_loopback6() { ip -6 addr show dev lo 2>/dev/null | grep -q '::1'; }
needs_loopback6() { has_loopback6 || { echo "skipped: no IPv6 loopback here"; exit 77; }; }
# soft_verbs_make: makes $dir/soft, a folder with the libibverbs of tests/system/soft_verbs.c; false if it cannot be used here
soft_verbs_make() {
    [ -e "${MAD_MODULES-$BUILD/drivers/.libs}/verbs.so" ] && mkdir -p "$dir/soft" &&
        cp "$BUILD/tests/.libs/soft_verbs.so" "$dir/soft/libibverbs.so.1" 2>/dev/null
}

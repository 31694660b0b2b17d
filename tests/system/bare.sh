#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The README's two commands on a fresh Debian 12: a fresh clone (of committed files) in a tree made by debootstrap, in which
# nothing else is installed.  bare.sh [STEP...] runs these steps; without arguments all of them, in this order:
#   bare    ./quickstart.sh by a user that may not install anything: it reports what is missing, and why it ends
#   check   ./check.sh by root       quick   ./quickstart.sh by root
#   user    ./quickstart.sh --no-peers by that user, with the packages that are now installed
# With SUITE=trixie (Debian 13: gcc 14, clang 19, libfabric 2) or another suite, only this step:
#   compilers    all programs with gcc and with clang, without a warning; the unit tests, and those of libfabric
# Needs root, debootstrap, and a mirror (MIRROR=URL, else debootstrap's own).  Takes half an hour, and 5 GB below TMPDIR
# (/var/tmp), so it is run by hand: make check-bare.  BARE=DIRECTORY: use the tree there, or make it there, and keep it.
# All mounts are in a namespace of its own: however this script ends, nothing stays mounted, and no process remains.
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
for tool in debootstrap git unshare setpriv pivot_root; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: only root can make such a tree"; exit 77; }
[ -e "$top/.git" ] || { echo "skipped: there is nothing to clone: this is no checkout"; exit 77; }
if [ -n "$BARE" ]; then
    work=$BARE
    mkdir -p "$work" || exit 1
else
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/bare.XXXXXX") || exit 1
    trap 'rm -rf --one-file-system "$work"' EXIT
    trap 'exit 143' TERM INT HUP
fi
root=$work/root
suite=${SUITE:-bookworm}

# apart SECONDS COMMAND...: runs the command in namespaces of its own; it ends with this script, however the script ends
apart() {
    seconds=$1
    shift
    setpriv --pdeathsig KILL timeout -k 5 "$seconds" setpriv --pdeathsig KILL unshare -m -p --fork --kill-child "$@"
}

# inside SECONDS COMMAND...: runs the command in the tree, as root, with /proc, /sys, /dev and a /dev/shm of its own
inside() {
    seconds=$1
    shift
    # shellcheck disable=SC2016 # expanded there
    apart "$seconds" sh -c '
        mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev &&
            mount -t tmpfs -o mode=1777 shm dev/shm && mkdir -p old && pivot_root . old || exit 1
        shift
        exec chroot . sh -c "umount -l /old && rmdir /old && cd / && exec \"\$@\"" sh "$@"' sh "$root" env -i \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
}

# tree: makes the tree, with one user, and with what an installation writes besides the packages
tree() {
    [ ! -e "$work/ready" ] || return 0
    echo "# making the tree"
    apart 600 --mount-proc debootstrap --variant=minbase "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$work/tree.log" 2>&1 &&
        printf '127.0.0.1 localhost %s\n::1 localhost\n' "$(hostname)" >"$root/etc/hosts" &&
        inside 60 useradd -m user && : >"$work/ready"
}

# clone NAME OWNER: makes a fresh clone
clone() {
    rm -rf "${root:?}/$1" && git -c safe.directory='*' clone -q --no-hardlinks "$top" "$root/$1" && inside 60 chown -R "$2": "/$1"
}

# packages: prints the number of installed packages
packages() { inside 60 dpkg-query -W -f '.\n' | wc -l; }

step_bare() {
    before=$(packages)
    clone home/user/bare user
    inside 300 su user -c 'cd ~/bare && ./quickstart.sh' >"$work/bare.log" 2>&1
    check "bare: exit code" 1 $?
    check_lines "bare: says what is missing" 1 '^missing packages \(install them as root: apt-get install .*gcc' "$work/bare.log"
    check_lines "bare: says why it ends" 1 '^quickstart: ' "$work/bare.log"
    check "bare: nothing was installed" "$before" "$(packages)"
}

step_check() {
    [ -d "$root/srv/check" ] || clone srv/check root
    inside 3600 sh -c 'cd /srv/check && ./check.sh' >"$work/check.log" 2>&1
    check "check: exit code" 0 $?
    check_lines "check: no test failed" 1 '^[1-9][0-9]* passed, 0 failed' "$work/check.log"
    sed -n '/^skipped/s/^/# /p; $s/^/# /p' "$work/check.log"
}

# table NAME FOLDER: checks that every size was measured over every driver
table() {
    check_lines "$1: the table" 7 '^ +[0-9]+( +[0-9.]+){6}$' "$2"
    check_lines "$1: the table of clusters" 5 '^ +[0-9]+( +[0-9.]+ +[0-9.]+| +- +-) +[0-9.]+ +[0-9.]+$' "$2"
    ways='own us +MB/s +layer us +MB/s +component us +MB/s +provider us +MB/s'
    check_lines "$1: an MPI program over each plug" 1 "^ +bytes +$ways( +across us +MB/s)?\$" "$2"
    check_lines "$1: the table of MPI" 4 '^ +[0-9]+( +[0-9.]+){8}( +[0-9.]+ +[0-9.]+)?$' "$2"
    check_lines "$1: the way across" 1 '^virtual: red0 > gate > blue0$' "$2"
}

step_quick() {
    clone srv/quick root
    begin=$(date +%s)
    inside 1200 sh -c 'cd /srv/quick && ./quickstart.sh' >"$work/quick.log" 2>&1
    check "quick: exit code" 0 $?
    echo "# quick: $(($(date +%s) - begin)) s, with the installation"
    table quick "$work/quick.log"
    check_lines "quick: nothing is left out" 0 'is left out|not measured' "$work/quick.log"
    for plot in latency-shm latency-tcp latency-self latency-gateway latency-clusters \
        bandwidth-shm bandwidth-tcp bandwidth-self bandwidth-gateway bandwidth-clusters; do
        check_lines "quick: plot $plot" 1 '^</svg>' "$root/srv/quick/build/plots/$plot.svg"
    done
    check_lines "quick: the page holds the plots" 10 '^</svg>' "$root/srv/quick/build/plots/figures.html"
}

step_user() {
    clone home/user/user user
    inside 600 su user -c 'cd ~/user && ./quickstart.sh --no-peers' >"$work/user.log" 2>&1
    check "user: exit code" 0 $?
    check_lines "user: nothing is missing" 0 '^missing packages' "$work/user.log"
    table user "$work/user.log"
}

# build COMPILER: builds in a folder for this compiler, then runs the tests that need only the build
build() {
    # shellcheck disable=SC2016 # expanded there
    inside 3600 sh -c 'cd /srv/compilers && mkdir -p "build-$1" && cd "build-$1" &&
        ../configure --enable-werror --with-libfabric CC="$1" CFLAGS=-O2 && make -k -j"$(nproc)" programs' sh "$1" \
        >"$work/$1.log" 2>&1
    check "$1: exit code" 0 $?
    check_lines "$1: no warning" 0 '(warning|error): ' "$work/$1.log"
    # shellcheck disable=SC2016
    inside 1200 sh -c 'cd "/srv/compilers/build-$1" && ../tests/run "$PWD" tests/unit/unit tests/unit/marcel \
        tests/unit/shm_ring tests/marcel/beside ../tests/mpi/ofi_test.sh' sh "$1" >"$work/$1.tests.log" 2>&1
    check "$1: the tests" 0 $?
    check_lines "$1: no test failed" 1 '^[1-9][0-9]* passed, 0 failed' "$work/$1.tests.log"
}

step_compilers() {
    clone srv/compilers root
    inside 1200 sh -c '. /srv/compilers/tests/packages.sh
        install_packages $build_packages check clang libfabric-dev libfabric-bin git iproute2 procps python3 &&
        cd /srv/compilers && ./autogen.sh' >"$work/packages.log" 2>&1
    check "compilers: the packages" 0 $?
    build gcc
    build clang
}

tree || { not_ok "the tree" "$(tail -5 "$work/tree.log")"; exit 1; }
[ "$suite" = bookworm ] && steps="bare check quick user" || steps=compilers
for step in ${*:-$steps}; do
    "step_$step"
done
[ $failures = 0 ] || echo "# what was said is in $work, if BARE named it"
[ $failures = 0 ]

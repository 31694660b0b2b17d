#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install what is needed, build, run the ping-pong over every driver; then the same beside peers, with plots.
set -eu
cd "$(dirname "$0")"
peers=yes
case "${1-}" in
--no-peers) peers=no ;;
"") ;;
*) echo "usage: ./quickstart.sh [--no-peers]"; exit 2 ;;
esac
. tests/packages.sh
# shellcheck disable=SC2086
install_packages $build_packages
[ -x configure ] || { echo "making ./configure"; ./autogen.sh >/dev/null; }
mkdir -p build
cd build
[ -f Makefile ] || { echo "configuring"; ../configure >configure.log || { tail -20 configure.log; exit 1; }; }
echo "building"
make -j"$(nproc)" >/dev/null
for driver in self shm tcp; do
    n=2
    [ $driver = self ] && n=1
    ./madrun --no-label -n $n ./mad_perf pingpong --driver $driver --sizes 8,1K,64K,1M
done
[ $peers = yes ] || exit 0
# shellcheck disable=SC2086
install_packages $peer_packages
echo "the same beside raw interfaces and peers"
../bench/figures --rounds 2 --build . --plots plots || true
echo "plots: build/plots"

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install what is needed, build, run the ping-pong over every driver, print a table; then (unless --no-peers) the same
# beside peers, and write plots.
set -eu
cd "$(dirname "$0")"
peers=yes
case "${1-}" in
--no-peers) peers=no ;;
"") ;;
*) echo "usage: ./quickstart.sh [--no-peers]"; exit 2 ;;
esac
. tests/packages.sh
say() {
    echo "== $*"
}
loud() { # run, and show what it said only when it fails
    "$@" >build/quickstart.log 2>&1 || { tail -20 build/quickstart.log >&2; echo "quickstart: failed: $*" >&2; exit 1; }
}
mkdir -p build
# shellcheck disable=SC2086
install_packages $build_packages
say "building (in the folder build)"
[ -x configure ] || loud ./autogen.sh
[ -f build/Makefile ] || loud sh -c 'cd build && ../configure'
loud make -C build -j"$(nproc)"

sizes=8,64,1K,8K,64K,1M,4M
: >build/quickstart.json
failed=0
for driver in self shm tcp; do
    say "ping-pong over $driver"
    n=2
    [ $driver = self ] && n=1
    build/madrun --no-label -n $n build/mad_perf pingpong --driver $driver --sizes $sizes --json >>build/quickstart.json ||
        { echo "quickstart: no ping-pong over $driver: see build/mad_info doctor" >&2; failed=1; }
done
# One line a size: microseconds one way and MB/s of the best batch over each driver.
awk -F'[{}:," ]+' '
    { delete field
      for (i = 1; i < NF; i++) field[$i] = $(i + 1)
      size = field["size"]; driver = field["driver"]
      if (!(size in seen)) { seen[size] = 1; order[++n] = size }
      us[size, driver] = field["latency_us_best"]; rate[size, driver] = field["bandwidth_MBs_best"] }
    END { split("self shm tcp", drivers, " ")
      printf "\n%10s", "bytes"
      for (d = 1; d <= 3; d++) printf " %11s us %9s", drivers[d], "MB/s"
      for (s = 1; s <= n; s++) {
          printf "\n%10d", order[s]
          for (d = 1; d <= 3; d++)
              if ((order[s], drivers[d]) in us) printf " %14.3f %9.0f", us[order[s], drivers[d]], rate[order[s], drivers[d]]
              else printf " %14s %9s", "-", "-"
      }
      print "\n\nOne way, best batch.\n" }' build/quickstart.json
[ $peers = yes ] || exit $failed

# shellcheck disable=SC2086
install_packages $peer_packages
say "the same beside raw interfaces and peers, and plots (about three minutes)"
command -v python3 >/dev/null || { echo "quickstart: python3 is not installed" >&2; exit 1; }
# A figure that misses its target is no failure of this script.
bench/figures --quick --build build --plots build/plots shm-small shm-large tcp || [ $? -eq 1 ]
say "plots: build/plots/figures.html and build/plots/*.svg"
exit $failed

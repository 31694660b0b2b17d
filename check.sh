#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install what the tests need, build in a folder of its own, run every test.
set -eu
export LC_ALL=C.UTF-8
cd "$(dirname "$0")"
. tests/packages.sh
# shellcheck disable=SC2086
install_packages $build_packages $test_packages $rdma_packages
[ -x configure ] || ./autogen.sh >/dev/null
mkdir -p build-check
configure_in build-check --enable-werror CFLAGS="-O2 -g" >build-check/configure.log ||
    { tail -20 build-check/configure.log; exit 1; }
cd build-check
make -j"$(nproc)" programs >/dev/null
exec make -s check-all

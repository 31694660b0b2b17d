#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Near and far adapters: each of two hosts has two interfaces in one subnet, and hwloc gets a description with two NUMA
# nodes, one processor and one interface in each.  BUILD: the folder with the built programs.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
LAB_SOURCE=${LAB_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
export BUILD LAB_SOURCE
. "$LAB_SOURCE/tests/lab/lab.sh"
grep -q '^HWLOC_LIBS = .' "$BUILD/Makefile" || { echo "skipped: built without hwloc"; exit 77; }
taskset -c 0,1 true 2>/dev/null && [ "$(nproc)" -ge 2 ] || { echo "skipped: one processor only"; exit 77; }
lab_start "$0" "$@"
. "$LAB_SOURCE/tests/harness/checks.sh"
. "$LAB_SOURCE/tests/harness/two_nodes.sh"

# talk NAME INTERFACE TEXT PROCESSORS [VARIABLE=VALUE]...: two processes on these processors use this interface, and the
# explanation has the text
talk() {
    name=$1 interface=$2 text=$3 processors=$4
    shift 4
    for v in "$@"; do set -- "$@" --env "$v" && shift; done
    within 60 "$BUILD/madrun" -n 2 --bind none --hosts one,two --launch-agent "$LAB/agent" "$@" \
        taskset -c "$processors" "$BUILD/tests/world" talk >out 2>err </dev/null
    check "$name: exit code" 0 $?
    check_lines "$name: both use $interface" 2 "tcp on $interface \\(10\\.77\\.1\\.0/24\\) used$text" out
    [ "$failures" = 0 ] || sed 's/^/# /' out err
}

for h in one two; do lab_host $h; done
lab_attach one net0=10.77.1.1/24 net0=10.77.1.11/24
lab_attach two net0=10.77.1.2/24 net0=10.77.1.12/24
two_nodes eth0 eth1 >two.xml
two_nodes >bare.xml
rails=MAD_RAILS=1 # the interfaces share a wire, so there are none anyway

talk "on node 0" eth0 ": NUMA node 0, distance 10 from the process" 0 HWLOC_XMLFILE="$LAB/two.xml" $rails
check_lines "on node 0: eth1 is farther" 2 "tcp on eth1 .*comes first .*; NUMA node 1, distance 20" out
talk "on node 1" eth1 ": NUMA node 1, distance 10 from the process" 1 HWLOC_XMLFILE="$LAB/two.xml" $rails
talk "on both nodes" eth0 ": NUMA node 0[^,]" 0,1 HWLOC_XMLFILE="$LAB/two.xml" $rails
talk "not considered" eth0 "[^:]" 1 HWLOC_XMLFILE="$LAB/two.xml" MAD_NUMA=no $rails
talk "interfaces of no known node" eth0 "[^:]" 1 HWLOC_XMLFILE="$LAB/bare.xml" $rails
talk "one node" eth0 "[^:]" 1 $rails

# The near interface is out of order: the far one serves.  Both are in one subnet, where Linux answers ARP for an address of
# either on both.  So the kernels may have learned the wrong one, and would notice after 8 s only.
ip link set one.1 nomaster
ip link set two.1 nomaster
lab_in one ip link set eth1 down
lab_in two ip link set eth1 down
lab_in one ip neigh flush all
lab_in two ip neigh flush all
talk "the near interface is down" eth0 ": NUMA node 0, distance 20 from the process" 1 HWLOC_XMLFILE="$LAB/two.xml" $rails

# The view of mad_info.
HWLOC_XMLFILE=$LAB/two.xml lab_in one taskset -c 1 "$BUILD/mad_info" host >out 2>err
check "mad_info host: exit code" 0 $?
check_lines "mad_info host: the process" 1 '^2 NUMA nodes; this process is on node 1$' out
check_lines "mad_info host: the interface" 1 '^  tcp on eth0: device eth0, node 0, distance 20$' out
[ $failures = 0 ]

# SPDX-License-Identifier: BSD-3-Clause
"""Measure Open MPI between hosts of a lab (madlab).  First across two clusters that share no network, started from a
host that reaches both; compared with Open MPI's own tcp in a lab where the kernel of the gateway's host forwards
packets.  Then with two processes on each of two hosts in one network, compared with Open MPI's own shared memory and
tcp.  Then collective operations of four processes on each side of the gateway, compared with Open MPI's own algorithms
over our layer."""

import os

from . import gateway, lab, mpi

TOPOLOGY = """networks = {
    red = { driver = "tcp"; interface = "eth0"; hosts = (
        { hosts = "head"; address = "10.1.0.1"; }, { hosts = "gate"; address = "10.1.0.2"; },
        { hosts = "red0"; address = "10.1.0.3"; }); };
    blue = { driver = "tcp"; interface = "eth1"; hosts = (
        { hosts = "head"; address = "10.2.0.1"; }, { hosts = "gate"; address = "10.2.0.2"; },
        { hosts = "blue0"; interface = "eth0"; address = "10.2.0.3"; }); };
};
gateways = ( "gate" );
"""
ONE_NETWORK = """networks = { red = { driver = "tcp"; interface = "eth0"; hosts = (
    { hosts = "red0"; address = "10.1.0.1"; }, { hosts = "red1"; address = "10.1.0.2"; }); }; };
"""
# These directories would be common to all hosts, which would then count as one host.
MPIRUN = """unset MAD_SHM_DIR TMPDIR
export OMPI_MCA_plm_rsh_agent="$MADLAB_SSH" PRTE_MCA_plm_ssh_agent="$MADLAB_SSH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
set -- mpirun.openmpi --host %s --oversubscribe --bind-to none -n %d "$@"
"""
YIELDING = "export OMPI_MCA_mpi_yield_when_idle=1\n"  # all hosts share the processors, which Open MPI cannot know
HOSTS = MPIRUN % ("red0:2,red1:2", 4) + YIELDING + 'exec "$@"\n'
MPIRUN_N = MPIRUN
MPIRUN %= ("red0,blue0", 2)
AROUND = """exec "$MADRUN" --topology "$MADLAB_TOPOLOGY" --launch-agent "$MADLAB_AGENT" --around "$@"
"""
CLUSTERS = MPIRUN_N % ("red0:4,blue0:4", 8) + YIELDING + AROUND
GATEWAY = MPIRUN + YIELDING + AROUND
KERNEL = MPIRUN + """on() { "$MADLAB_AGENT" "$@"; }
on gate sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' && on red0 ip route add 10.2.0.0/16 via 10.1.0.2 &&
    on blue0 ip route add 10.1.0.0/16 via 10.2.0.2 && exec "$@"
"""
NETWORKS = ["--mca", "btl_tcp_if_include", "10.0.0.0/8"]

BETWEEN_HOSTS = {
    "mpi-mad-hosts": mpi.WAYS["mpi-mad-shm"],
    "mpi-pml-hosts": mpi.WAYS["mpi-pml-shm"],
    "mpi-ofi-hosts": mpi.WAYS["mpi-ofi-shm"],
    "openmpi-hosts": lambda context: (mpi.OB1 + ["vader,tcp,self"] + NETWORKS, {}),
}
WAYS = {
    "mpi-mad-gateway": (GATEWAY, mpi.WAYS["mpi-mad-shm"]),
    "mpi-ofi-gateway": (GATEWAY, mpi.WAYS["mpi-ofi-shm"]),
    "openmpi-kernel": (KERNEL, lambda context: (mpi.OB1 + ["tcp,self"] + NETWORKS, {})),
}


def short(sizes):
    return gateway.tail(sizes) + ["--iters", "50"]


LIMITED = TOPOLOGY.replace('driver = "tcp";', 'driver = "tcp"; bandwidth = "1Gbit/s";')


def rows_in(context, topology, host, script, settings, program):
    """Run the program, started from this host."""
    arguments, env = settings(context)
    path = os.path.join(context.scratch, "lab-mpi.cfg")
    with open(path, "w") as file:
        file.write(topology)
    return lab.inside(context, path, ["--on", host], script, arguments + program, env)


def between(context, way, program):
    rows = rows_in(context, TOPOLOGY, "head", *WAYS[way], program)
    return {row["size"]: row for row in rows}


def collectives(way):
    def measure(context, sizes):
        options = mpi.tail(context, mpi.SIZES) + ["--iters", "50", "--batches", "10", "--cpus", "-1,-1"]
        rows = rows_in(context, ONE_NETWORK, "red0", HOSTS, BETWEEN_HOSTS[way],
                       [mpi.mpi_perf(context), "collectives"] + options)
        return mpi.by_operation(rows, "latency_us_median")
    return measure


def collectives_across(options):
    """Measure with four processes in each of two clusters."""
    def measure(context, sizes):
        few = ["--iters", "10", "--batches", "10", "--cpus", "-1,-1"]
        arguments, env = mpi.WAYS["mpi-pml-shm"](context)
        rows = rows_in(context, LIMITED, "head", CLUSTERS, lambda context: (arguments + options, env),
                       [mpi.mpi_perf(context), "collectives"] + mpi.tail(context, mpi.SIZES) + few)
        return mpi.by_operation(rows, "latency_us_median")
    return measure


def pingpong(way):
    def measure(context, sizes):
        return between(context, way, [mpi.peer_mpi(context)] + short(sizes))
    return measure


def stream(way):
    """Measure windows of 64 messages."""
    def measure(context, sizes):
        return between(context, way, [mpi.peer_mpi(context), "--test", "rate", "--receive", "posted"] + lab.sized(sizes))
    return measure


def ours(context, sizes):
    return gateway.through(lab.lab(context, lab.OURS, ["pingpong"] + short(sizes)))


SOURCES = {way: pingpong(way) for way in WAYS}
SOURCES.update({way + "-stream": stream(way) for way in WAYS})
SOURCES.update({way: collectives(way) for way in BETWEEN_HOSTS})
SOURCES["mpi-pml-clusters"] = collectives_across([])
SOURCES["mpi-pml-clusters-tuned"] = collectives_across(["--mca", "coll", "^mad"])
SOURCES["lab-pingpong"] = ours

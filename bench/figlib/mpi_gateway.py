# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI across two clusters: between hosts of a lab (madlab) that share no network, started from one that reaches both.
Beside it, in such a lab, Open MPI's own tcp where the kernel of the gateway's host forwards packets."""

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
# Directories that all hosts see would make one host of them.
MPIRUN = """unset MAD_SHM_DIR TMPDIR
export OMPI_MCA_plm_rsh_agent="$MADLAB_SSH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
set -- mpirun.openmpi --host red0,blue0 --bind-to none -n 2 "$@"
"""
# Three processes share the processors, which Open MPI cannot know.
GATEWAY = MPIRUN + """export OMPI_MCA_mpi_yield_when_idle=1
exec "$MADRUN" --topology "$MADLAB_TOPOLOGY" --launch-agent "$MADLAB_AGENT" --around "$@"
"""
KERNEL = MPIRUN + """on() { "$MADLAB_AGENT" "$@"; }
on gate sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' && on red0 ip route add 10.2.0.0/16 via 10.1.0.2 &&
    on blue0 ip route add 10.1.0.0/16 via 10.2.0.2 && exec "$@"
"""
NETWORKS = ["--mca", "btl_tcp_if_include", "10.0.0.0/8"]

WAYS = {
    "mpi-mad-gateway": (GATEWAY, mpi.WAYS["mpi-mad-shm"]),
    "mpi-ofi-gateway": (GATEWAY, mpi.WAYS["mpi-ofi-shm"]),
    "openmpi-kernel": (KERNEL, lambda context: (mpi.OB1 + ["tcp,self"] + NETWORKS, {})),
}


def short(sizes):
    return gateway.tail(sizes) + ["--iters", "50"]


def between(context, way, program):
    script, settings = WAYS[way]
    arguments, env = settings(context)
    path = os.path.join(context.scratch, "lab-mpi.cfg")
    with open(path, "w") as file:
        file.write(TOPOLOGY)
    rows = lab.inside(context, path, ["--on", "head"], script, arguments + program, env)
    return {row["size"]: row for row in rows}


def pingpong(way):
    def measure(context, sizes):
        program = context.peer("peer_mpi", "mpicc.openmpi", suffix=".openmpi")
        return between(context, way, [program] + short(sizes))
    return measure


def stream(way):
    """In windows of 64 messages."""
    def measure(context, sizes):
        return between(context, way, [mpi.mpi_perf(context), "rate"] + lab.sized(sizes))
    return measure


def ours(context, sizes):
    return gateway.through(lab.lab(context, lab.OURS, ["pingpong"] + short(sizes)))


SOURCES = {way: pingpong(way) for way in WAYS}
SOURCES.update({way + "-stream": stream(way) for way in WAYS})
SOURCES["lab-pingpong"] = ours

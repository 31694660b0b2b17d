# SPDX-License-Identifier: BSD-3-Clause
"""Measure Open MPI over our channels (by the component, by our point-to-point layer, and by the provider for libfabric)
and over its own transports; and libfabric's own programs.  The measuring programs are raw/peer_mpi.c and those in the
folder mpi."""

import glob
import json
import os
import re
import shutil
import socket
import subprocess
import time

from .context import Missing, failure, run, run_rows

KIB, MIB = 1 << 10, 1 << 20
OTHERS = 10000  # number of messages or receives that do not match
RANKS = (2, 4, 8)
CROWDS = (2, 16, 64, 96, 128)  # processes
COLLECTIVES = ("bcast", "allreduce", "alltoall")
SIZES = (8, 64 * KIB)  # of collectives
TRANSFERS = 5000  # of fi_pingpong
OB1 = ["--mca", "pml", "ob1", "--mca", "btl"]
OFI = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "mad"]
UCX = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"]
LOOPBACK = ["--mca", "btl_tcp_if_include", "lo"]
TCP = {"MAD_DRIVERS": "self,tcp"}
# One-sided communication.  osc ucx fails here, since it finds no network.  MESSAGES: by messages, as Open MPI chooses
# by itself; STRAIGHT: directly by the provider.
MESSAGES = ["--mca", "osc", "^ucx"]
STRAIGHT = ["--mca", "osc", "rdma", "--mca", "btl", "ofi,self", "--mca", "btl_ofi_provider_include", "mad", "--mca",
            "btl_ofi_progress_mode", "auto"]


def module_folder(context, kind, name):
    """Return the folder of a module that others load: in the build folder, or else installed."""
    prefix = os.path.dirname(context.tools[-1])
    folders = [os.path.join(top, ".libs") for top in context.tools]
    for places in ("lib*", os.path.join("lib*", "*")):  # no deeper, because links below /lib may lead anywhere
        folders += glob.glob(os.path.join(prefix, places, "madeleine", kind))
    for folder in folders:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.realpath(folder)
    raise Missing("%s was not built (configure says why)" % name)


def component(context, name="mca_btl_mad.so"):
    """Return the options by which Open MPI finds our component in addition to its own."""
    folder = module_folder(context, "openmpi", name)
    code, out, err = run(["ompi_info", "--path", "pkglibdir", "--parsable"])
    return ["--mca", "mca_base_component_path", folder + ":" + out.strip().split(":")[-1]]


def provider(context):
    return {"FI_PROVIDER_PATH": module_folder(context, "libfabric", "libmad-fi.so")}


# A way to run Open MPI: (arguments of mpirun, environment).
WAYS = {
    "openmpi-shm": lambda context: (OB1 + ["vader,self"], {}),
    "openmpi-tcp": lambda context: (OB1 + ["tcp,self"] + LOOPBACK, {}),
    # Open MPI's layer for UCX; the UCX may be another one than at its build (--peer ucx=PREFIX).
    "openmpi-ucx-shm": lambda context: (UCX, {"UCX_TLS": "sm,self"}),
    "openmpi-ucx-tcp": lambda context: (UCX, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
    "mpi-mad-shm": lambda context: (OB1 + ["mad,self"] + component(context), {}),
    "mpi-mad-tcp": lambda context: (OB1 + ["mad,self"] + component(context), TCP),
    "mpi-pml-shm": lambda context: (["--mca", "pml", "mad"] + component(context, "mca_pml_mad.so"), {}),
    "mpi-pml-tcp": lambda context: (["--mca", "pml", "mad"] + component(context, "mca_pml_mad.so"), TCP),
    "mpi-ofi-shm": lambda context: (OFI, provider(context)),
    "mpi-ofi-tcp": lambda context: (OFI, dict(provider(context), **TCP)),
}


def command(context, name):
    """Return the path of a command of Open MPI: in the prefix that is measured now, or else the distribution's."""
    prefix = context.prefix("openmpi")
    path = os.path.join(prefix, "bin", name) if prefix else name + ".openmpi"
    if not shutil.which(path):
        raise Missing("%s is not installed" % path)
    return path


def job(context, way, ranks=2, bind="core"):
    """Return the command that starts this number of ranks, and its environment."""
    launch = command(context, "mpirun")
    arguments, env = WAYS[way](context)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    crowd = ["--oversubscribe"] if ranks > 2 else []
    return [launch] + root + crowd + ["--bind-to", bind, "-n", str(ranks)] + arguments, dict(context.library_path(), **env)


def peer_mpi(context):
    return context.peer("peer_mpi", command(context, "mpicc"), suffix=".openmpi")


def mpi_perf(context):
    names = ("mpi_perf", "overlap", "matching", "collectives", "crowd", "rma")
    return context.peer("mpi_perf", command(context, "mpicc"), suffix=".openmpi",
                        files=[os.path.join("mpi", name + ".c") for name in names] + ["overlap.c"])


def tail(context, sizes):
    return context.tail(sizes) + context.fewer


def rows_list(command, env):
    code, out, err = run(command, env)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if code or not rows:
        raise Missing(failure(command, code, err))
    return rows


def pingpong(way, options=()):
    def measure(context, sizes):
        launch, env = job(context, way)
        return run_rows(launch + [peer_mpi(context)] + list(options) + tail(context, sizes), env)
    return measure


def rates(way, options):
    """{size: {form: messages per microsecond}}: all forms in one run, since the start takes longer than a form."""
    def measure(context, sizes):
        launch, env = job(context, way)
        return by_operation(rows_list(launch + [peer_mpi(context), "--test", "rates"] + options + tail(context, sizes), env),
                            "per_us_best")
    return measure


def overlap(way):
    """Measure like mad_perf overlap: rank 0 has a core of its own, and helper threads and a waiting peer have the other
    core.  The worst row counts."""
    def measure(context, sizes):
        launch, env = job(context, way, bind="none")
        if way.startswith("mpi-mad"):
            launch += ["--mca", "btl_mad_async", "1"]
        if way.startswith("mpi-ofi"):
            launch += ["--mca", "mtl_ofi_data_progress", "auto"]
        rows = rows_list(launch + [mpi_perf(context), "overlap"] + tail(context, sizes), env)
        worst = max(rows, key=lambda row: row["exposed_percent"])
        exposed = {w: max(r["exposed_percent"] for r in rows if r["way"] == w) for w in ("send", "receive")}
        worst["note"] = "%.1f %% of a sent message and %.1f %% of a received one are not hidden" % (exposed["send"],
                                                                                                exposed["receive"])
        return {rows[0]["size"]: worst}
    return measure


def matching(way):
    """Return {OTHERS: {test: ratio to the time without others}}."""
    def measure(context, sizes):
        launch, env = job(context, way)
        rows = rows_list(launch + [mpi_perf(context), "matching", "--iters", "50", "--batches", "20"] +
                         tail(context, [0, OTHERS]), env)
        us = {(row["test"], row["size"]): row["latency_us_best"] for row in rows}
        tests = ("unexpected", "posted")
        return {OTHERS: dict({test: us[test, OTHERS] / us[test, 0] for test in tests},
                             note=", ".join("beside %s ones %.3f us, with empty queues %.3f us" %
                                            (t, us[t, OTHERS], us[t, 0]) for t in tests))}
    return measure


def by_operation(rows, field):
    """Return {size: {operation: us}}; barriers have the size 8."""
    found = {}
    for row in rows:
        found.setdefault(row["size"], {})[row["test"]] = row[field]
    return found


def collectives(way, ranks):
    """Measure collectives.  More processes than cores take turns, so there are fewer operations, and the median counts:
    a single batch may have been lucky."""
    def measure(context, sizes):
        launch, env = job(context, way, ranks, "none" if ranks > 2 else "core")
        few = ["--iters", "100", "--batches", "20"] if ranks == 2 else ["--iters", "20", "--batches", "10"]
        # If there are more processes, they are not bound to processors.
        options = tail(context, SIZES) + (["--cpus", "-1,-1"] if ranks > 2 else [])
        rows = rows_list(launch + [mpi_perf(context), "collectives"] + few + options, env)
        return by_operation(rows, "latency_us_best" if ranks == 2 else "latency_us_median")
    return measure


def crowd(way):
    """Return {ranks: row of the first exchange of all pairs, with the seconds of the whole run}."""
    def measure(context, sizes):
        rows = {}
        for ranks in sizes:
            launch, env = job(context, way, ranks, "none")
            began = time.monotonic()
            row = rows_list(launch + [mpi_perf(context), "crowd"] + tail(context, [8]) + ["--cpus", "-1,-1"], env)[0]
            rows[ranks] = dict(row, first_ms=row["latency_us_best"] / 1000, run_s=time.monotonic() - began)
        return rows
    return measure


def rma(way):
    """Return {size: {operation: us}}."""
    def measure(context, sizes):
        launch, env = job(context, way)
        launch += (STRAIGHT if way.startswith("mpi-ofi") else MESSAGES) + [mpi_perf(context), "rma"]
        return by_operation(rows_list(launch + ["--iters", "10", "--batches", "10"] + tail(context, sizes), env),
                            "latency_us_best")
    return measure


# ---- libfabric ----------------------------------------------------------------------------------------------------------

def libfabric(name, settings, wait="poll"):
    """Run peer_ofi; wait: its option --wait."""
    def measure(context, sizes):
        env = dict(provider(context) if name == "mad" else context.library_path(), PEER_OFI_PROVIDER=name, **settings)
        return run_rows([context.peer("peer_ofi", libs=("-lfabric",)), "--wait", wait] + tail(context, sizes), env)
    return measure


def port_free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def fi_pingpong(name, own=None):
    """Run libfabric's own program, which prints one mean for each size; own: the environment of our provider."""
    def measure(context, sizes):
        if not shutil.which("fi_pingpong"):
            raise Missing("fi_pingpong (package libfabric-bin) is not installed")
        env = dict(os.environ, **(dict(provider(context), **own) if own is not None else {}))
        rows = {}
        for size in sizes:
            port = port_free()
            command = ["fi_pingpong", "-p", name, "-e", "rdm", "-m", "tagged", "-S", str(size), "-I", str(TRANSFERS)]
            server = subprocess.Popen(["taskset", "-c", str(context.cpu_list[1])] + command + ["-B", port], env=env,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                rows[size] = client(context, server, command + ["-P", port, "127.0.0.1"], env, size)
            finally:
                server.kill()
                server.wait()
        return rows
    return measure


def client(context, server, command, env, size):
    for _ in range(50):  # try until the server listens, which it does not report
        code, out, err = run(["taskset", "-c", str(context.cpu_list[0])] + command, env, timeout=30)
        said = re.findall(r"^\d\S*\s+\S+\s+=\S+\s+\S+\s+\S+s\s+\S+\s+([\d.]+)", out, re.M)
        if said and not code:
            us = float(said[-1])
            return {"size": size, "latency_us_best": us, "latency_us_median": us}
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise Missing(failure(command, code, err or out))


WAITS = ("sread", "cntr", "fd")

SOURCES = {way: pingpong(way) for way in WAYS}
SOURCES.update({"libfabric-mad-%s-%s" % (network, wait): libfabric("mad", settings, wait)
                for network, settings in (("shm", {}), ("tcp", TCP)) for wait in WAITS})
SOURCES.update({"libfabric-%s-%s" % (short, wait): libfabric(name, {}, wait)
                for short, name in (("sockets", "sockets"), ("tcp", "tcp;ofi_rxm")) for wait in WAITS})
SOURCES.update({way + "-overlap": overlap(way) for way in WAYS})
SOURCES.update({way + "-matching": matching(way) for way in WAYS if way.endswith("-shm")})
SOURCES.update({way + "-rma": rma(way) for way in WAYS})
SOURCES.update({way + "-crowd": crowd(way) for way in WAYS if way.endswith("-shm")})
SOURCES.update({"%s-%d" % (way, n): collectives(way, n) for way in WAYS if way.endswith("-shm") for n in RANKS})
SOURCES.update({
    "libfabric-mad-shm": libfabric("mad", {}),
    "libfabric-mad-tcp": libfabric("mad", TCP),
    "fi_pingpong-mad-shm": fi_pingpong("mad", {}),
    "fi_pingpong-mad-tcp": fi_pingpong("mad", TCP),
    "fi_pingpong-shm": fi_pingpong("shm"),
    "fi_pingpong-tcp": fi_pingpong("tcp;ofi_rxm"),
})

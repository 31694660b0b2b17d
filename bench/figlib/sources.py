# SPDX-License-Identifier: BSD-3-Clause
"""List the programs that measure a latency by size: raw interfaces, ours, peers.  Each source is a function of
(context, sizes) that returns {size: {"latency_us_best": ...}}, or raises Missing if it cannot run here.  To add a peer,
add a row."""

import os
import shutil
import subprocess
import tempfile
import time

from . import mpi
from .context import Missing, failure, run, run_rows


def raw(name, env=None):
    def measure(context, sizes):
        try:
            program = context.program(name)
        except Missing:
            program = context.peer(name)
        return run_rows([program] + context.tail(sizes), env)
    return measure


def copy(context, sizes):
    """Measure copies.  The program looks for the best methods once, and then measures only these in every round."""
    return raw("raw_copy", {"RAW_COPY_KEEP": os.path.join(context.scratch, "copy")})(context, sizes)


def ours(driver, test="pingpong", options=()):
    def measure(context, sizes):
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), test, "--driver", driver, *options)
                        + context.tail(sizes))
    return measure


def user_level(driver):
    """Measure a ping-pong between user-level threads, one in each process."""
    def measure(context, sizes):
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", driver,
                                       "--threads", "marcel") + context.tail(sizes))
    return measure


def over_library(driver, variables):
    """A driver over the library of another network, with the variables that choose its transport."""
    def measure(context, sizes):
        env = dict({"MAD_DRIVERS": "self," + driver}, **variables)
        modules = os.path.join(os.path.dirname(context.program("mad_perf")), "drivers", ".libs")
        if os.path.isdir(modules):  # in the build folder
            env["MAD_MODULES"] = modules
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", driver)
                        + context.tail(sizes), env)
    return measure


def over_mpi(launch):
    """The driver mpi; launch(context) returns the command of MPI's launcher, and its environment."""
    def measure(context, sizes):
        command, env = launch(context)
        env = dict({"MAD_DRIVERS": "self,mpi"}, **env)
        modules = os.path.join(os.path.dirname(context.program("mad_perf")), "drivers", ".libs")
        if os.path.isdir(modules):  # in the build folder
            env["MAD_MODULES"] = modules
        return run_rows(command + [context.program("mad_perf"), "pingpong", "--driver", "mpi"] + context.tail(sizes), env)
    return measure


def alone(context, sizes):
    return run_rows(context.madrun(1, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", "self")
                    + context.tail(sizes))


def linked(name, libs, env, options=()):
    def measure(context, sizes):
        return run_rows([context.peer(name, libs=libs)] + list(options) + context.tail(sizes),
                        dict(context.library_path(), **env))
    return measure


def mpich_launch(context):
    launch = ["mpiexec.mpich", "-bind-to", "core", "-n", "2"]
    if not shutil.which(launch[0]):
        raise Missing(launch[0] + " is not installed")
    return launch, {}


def mpich(context, sizes):
    return run_rows(mpich_launch(context)[0] + [context.peer("peer_mpi", "mpicc.mpich", suffix=".mpich")] + context.tail(sizes))


def netpipe_read(path, size):
    """Read NetPIPE's result file: bytes, Mbit/s, seconds one way."""
    try:
        with open(path) as file:
            fields = file.read().split()
        us = float(fields[2]) * 1e6
    except (OSError, IndexError, ValueError):
        raise Missing("NetPIPE left no result")
    # NetPIPE prints hundredths of a microsecond; its Mbit/s are more precise.
    us = 8 * size / float(fields[1]) if float(fields[1]) else us
    return {"size": size, "latency_us_best": us, "latency_us_median": us}


def netpipe(program, package, size_run):
    """Return a source; size_run(context, command) runs NetPIPE for one size, and returns (exit code, output)."""
    def measure(context, sizes):
        if not shutil.which(program):
            raise Missing("%s (package %s) is not installed" % (program, package))
        rows = {}
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "np.out")
                command = [program, "-p", "0", "-l", str(size), "-u", str(size), "-o", path]
                code, text = size_run(context, command)
                if code:
                    raise Missing(failure(command, code, text))
                rows[size] = netpipe_read(path, size)
        return rows
    return measure


def netpipe_mpi(context, command):
    launch, env = mpi.job(context, "openmpi-shm")
    code, out, err = run(launch + command, env, timeout=60, cpus=context.cpu_list)
    return code, err or out


def netpipe_tcp(context, command):
    receive = ["taskset", "-c", str(context.cpu_list[1])] + command[:-1] + [command[-1] + ".receiver"]
    receiver = subprocess.Popen(receive, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(20):  # try again after a pause until the receiver listens, which it does not report
            code, out, err = run(["taskset", "-c", str(context.cpu_list[0])] + command + ["-h", "127.0.0.1"], timeout=30)
            if not code:
                break
            time.sleep(0.1)
        return code, err or out
    finally:
        receiver.kill()
        receiver.wait()


UCX, OFI = ("-lucp", "-lucs"), ("-lfabric",)
LOOPBACK = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
# Peers that are linked with our programs: (program, libraries, environment).
LINKED = {
    "ucx-posix": ("peer_ucx", UCX, {"UCX_TLS": "posix,self"}),
    "ucx-sm": ("peer_ucx", UCX, {"UCX_TLS": "sm,self"}),
    "ucx-tcp": ("peer_ucx", UCX, LOOPBACK),
    "libfabric-shm": ("peer_ofi", OFI, {"PEER_OFI_PROVIDER": "shm"}),
    "libfabric-sm2": ("peer_ofi", OFI, {"PEER_OFI_PROVIDER": "sm2"}),
    "libfabric-tcp": ("peer_ofi", OFI, {"PEER_OFI_PROVIDER": "tcp;ofi_rxm"}),
    # From libfabric 1.18 on the provider tcp supports messages itself; before, ofi_rxm adds them.
    "libfabric-tcp-rdm": ("peer_ofi", OFI, {"PEER_OFI_PROVIDER": "tcp"}),
}

SOURCES = {
    "line": raw("raw_line"),
    "copy": copy,
    "raw-tcp": raw("raw_tcp"),
    "ours-shm-user": user_level("shm"),
    "ours-shm": ours("shm"),
    "put-shm": ours("shm", "put"),
    "get-shm": ours("shm", "get"),
    "fetch-add-shm": ours("shm", "fetch_add"),
    "put-back-shm": ours("shm", "put_back"),
    "ours-tcp": ours("tcp"),
    "ours-self": alone,
    "ours-ofi-shm": over_library("ofi", {"MAD_OFI_PROVIDERS": "shm"}),
    "ours-ofi-tcp": over_library("ofi", {"MAD_OFI_PROVIDERS": "tcp+rxm"}),
    "ours-ucx-posix": over_library("ucx", {"UCX_TLS": "posix"}),
    "ours-ucx-tcp": over_library("ucx", {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}),
    "ours-mpi-openmpi-shm": over_mpi(lambda context: mpi.job(context, "openmpi-shm")),
    "ours-mpi-openmpi-tcp": over_mpi(lambda context: mpi.job(context, "openmpi-tcp")),
    "ours-mpi-mpich-shm": over_mpi(mpich_launch),
    "ours-shm-cond": ours("shm", "cond"),
    "ours-shm-outside": ours("shm", "outside"),
    "ours-tcp-cond": ours("tcp", "cond"),
    "ours-tcp-outside": ours("tcp", "outside"),
    "mpich-shm": mpich,
    # A longer queue than the default: a usual setting of users that tune UCX for large messages.
    "ucx-posix-fifo": linked("peer_ucx", UCX, {"UCX_TLS": "posix,self", "UCX_POSIX_FIFO_SIZE": "256"}),
    "netpipe-openmpi": netpipe("NPopenmpi", "netpipe-openmpi", netpipe_mpi),
    "netpipe-tcp": netpipe("NPtcp", "netpipe-tcp", netpipe_tcp),
}
SOURCES.update({name: linked(*how) for name, how in LINKED.items()})

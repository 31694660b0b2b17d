# SPDX-License-Identifier: BSD-3-Clause
"""The programs that measure a latency by size: raw interfaces, ours, peers.  Each is a function of (context, sizes)
that gives {size: {"latency_us_best": ...}}, and raises Missing when it cannot run here.  To add a peer, add a row."""

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
    """The ways that were the best are looked for once, then measured in every round."""
    return raw("raw_copy", {"RAW_COPY_KEEP": os.path.join(context.scratch, "copy")})(context, sizes)


def ours(driver):
    def measure(context, sizes):
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", driver)
                        + context.tail(sizes))
    return measure


def waiting(test, driver):
    """Messages that go to a handler, and a program that waits for that: see perf_waits.c."""
    def measure(context, sizes):
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), test, "--driver", driver)
                        + context.tail(sizes))
    return measure


def user_level(driver):
    """The same by a user-level thread of each process."""
    def measure(context, sizes):
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", driver,
                                       "--threads", "marcel") + context.tail(sizes))
    return measure


def alone(context, sizes):
    return run_rows(context.madrun(1, "--bind", "core", context.program("mad_perf"), "pingpong", "--driver", "self")
                    + context.tail(sizes))


def linked(name, libs, env):
    def measure(context, sizes):
        return run_rows([context.peer(name, libs=libs)] + context.tail(sizes), env)
    return measure


def mpich(context, sizes):
    launch = ["mpiexec.mpich", "-bind-to", "core", "-n", "2"]
    if not shutil.which(launch[0]):
        raise Missing(launch[0] + " is not installed")
    return run_rows(launch + [context.peer("peer_mpi", "mpicc.mpich", suffix=".mpich")] + context.tail(sizes))


def netpipe_read(path, size):
    """NetPIPE's result file: bytes, Mbit/s, seconds one way."""
    try:
        with open(path) as file:
            fields = file.read().split()
        us = float(fields[2]) * 1e6
    except (OSError, IndexError, ValueError):
        raise Missing("NetPIPE left no result")
    # It prints whole hundredths of a microsecond; its Mbit/s say more.
    us = 8 * size / float(fields[1]) if float(fields[1]) else us
    return {"size": size, "latency_us_best": us, "latency_us_median": us}


def netpipe(program, package, size_run):
    """size_run(context, command) runs NetPIPE for one size; (exit code, output)."""
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
        for _ in range(20):  # until the receiver listens, which it does not say: it is called again after a pause
            code, out, err = run(["taskset", "-c", str(context.cpu_list[0])] + command + ["-h", "127.0.0.1"], timeout=30)
            if not code:
                break
            time.sleep(0.1)
        return code, err or out
    finally:
        receiver.kill()
        receiver.wait()


UCX = ("-lucp", "-lucs")

SOURCES = {
    "line": raw("raw_line"),
    "copy": copy,
    "raw-tcp": raw("raw_tcp"),
    "ours-shm-user": user_level("shm"),
    "ours-shm": ours("shm"),
    "ours-tcp": ours("tcp"),
    "ours-self": alone,
    "ours-shm-cond": waiting("cond", "shm"),
    "ours-shm-outside": waiting("outside", "shm"),
    "ours-tcp-cond": waiting("cond", "tcp"),
    "ours-tcp-outside": waiting("outside", "tcp"),
    "mpich-shm": mpich,
    "ucx-posix": linked("peer_ucx", UCX, {"UCX_TLS": "posix,self"}),
    # A longer queue than the default one: what a user who tunes UCX for large messages gets.
    "ucx-posix-fifo": linked("peer_ucx", UCX, {"UCX_TLS": "posix,self", "UCX_POSIX_FIFO_SIZE": "256"}),
    "ucx-sm": linked("peer_ucx", UCX, {"UCX_TLS": "sm,self"}),
    "ucx-tcp": linked("peer_ucx", UCX, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
    "libfabric-shm": linked("peer_ofi", ("-lfabric",), {"PEER_OFI_PROVIDER": "shm"}),
    "libfabric-tcp": linked("peer_ofi", ("-lfabric",), {"PEER_OFI_PROVIDER": "tcp;ofi_rxm"}),
    "netpipe-openmpi": netpipe("NPopenmpi", "netpipe-openmpi", netpipe_mpi),
    "netpipe-tcp": netpipe("NPtcp", "netpipe-tcp", netpipe_tcp),
}

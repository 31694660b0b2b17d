# SPDX-License-Identifier: BSD-3-Clause
"""Measure what is not a latency of two processes: waiting, oversubscription, scale, and tests that only pass or
fail."""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time

from .context import HERE, Missing, failure, run, run_rows


def idle(driver):
    """Measure a receiver that waits for a second: its processor time, and how long it takes to wake."""
    def measure(context, sizes):
        return run_rows(context.madrun(2, "--bind", "core", context.program("mad_perf"), "idle", "--driver", driver,
                                       "--json"))
    return measure


@contextlib.contextmanager
def computing(context, n):
    """Run n processes that compute all the time."""
    children = [subprocess.Popen([sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL,
                                 preexec_fn=lambda: os.sched_setaffinity(0, context.cpu_list)) for _ in range(n)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def ring(beside, threads="pthread"):
    """Measure four processes on two cores that pass a token; beside: number of further processes that compute."""
    def measure(context, sizes):
        command = context.madrun(4, "--bind", "none", context.program("mad_perf"), "ring", "--driver", "shm", "--sizes",
                                 "8", "--threads", threads, "--json")
        # Beside computing processes a hop may take long, so do fewer hops, in the same number of batches.
        command += ["--iters", "100"] if beside else []
        with computing(context, beside):
            return run_rows(command, cpus=context.cpu_list)
    return measure


def worst_exposed(command):
    """Return the row with the largest exposed part, of all lengths of computing, and of sending and receiving."""
    code, out, err = run(command)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if code or not rows:
        raise Missing(failure(command, code, err))
    return {rows[0]["size"]: max(rows, key=lambda row: row["exposed_percent"])}


def overlap(driver):
    """Measure overlap: rank 0 computes on a core of its own; its helper thread, and a peer that waits, have the other
    core."""
    def measure(context, sizes):
        return worst_exposed(context.madrun(2, "--bind", "none", context.program("mad_perf"), "overlap", "--driver", driver,
                                            "--json", "--cpus", context.cpus))
    return measure


def overlap_raw(context, sizes):
    """Measure overlap with plain sockets and a thread: the best that the host allows."""
    return worst_exposed([context.program("raw_overlap"), "--json", "--cpus", context.cpus])


def marcel(*tests):
    """Run tests of marcel_perf.  Return {0: {test: ns of the best batch, test_KEY: its other values}}."""
    def measure(context, sizes):
        command = [context.program("marcel_perf")] + list(tests) + ["--alone", "--json"]
        code, out, err = run(command, cpus=context.cpu_list)
        row = {}
        for line in out.splitlines():
            if line.startswith("{"):
                test = json.loads(line)
                name = test.pop("test")
                row[name] = test["ns_best"]
                row.update({name + "_" + key: value for key, value in test.items()})
        if code or not row:
            raise Missing(failure(command, code, err))
        return {0: row}
    return measure


def argobots(context, sizes):
    """Measure the directed switches of Argobots; the program reports the fastest kind."""
    return run_rows([context.peer("peer_abt", libs=("-labt",)), "--cpus", context.cpus, "--json"])


def wake(key):
    """Measure like marcel's test wake, but with plain threads: the time that the kernel takes on this host."""
    def measure(context, sizes):
        return {0: {"wake_ns_median": wake_row(context)[key]}}
    return measure


def wake_row(context):
    code, out, err = run([context.program("marcel_perf"), "wake", "--json"], cpus=context.cpu_list)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if code or not rows:
        raise Missing(failure(["marcel_perf"], code, err))
    return rows[0]


def scale(context, sizes):
    """Run mad_scale, which prints one JSON object: bytes_per_peer, address_bytes, connect_ms, connect_deadline_ms,
    ..."""
    command = [context.program("mad_scale"), "10000"]
    code, out, err = run(command, timeout=120)
    rows = [line for line in out.splitlines() if line.startswith("{")]
    if code or not rows:
        raise Missing(failure(command, code, err))
    row = json.loads(rows[-1])
    row["connect_deadline_ms"] = row["connect_timeout_ms"]
    return {0: row}


START_PROCESSES = 64


def start(command):
    """Measure the start and end of START_PROCESSES processes that do nothing, by a launcher: the median of five
    starts."""
    def measure(context, sizes):
        times = []
        for _ in range(5):
            launch = command(context) + ["true"]
            begin = time.monotonic()
            code, out, err = run(launch)
            times.append((time.monotonic() - begin) * 1000)
            if code:
                raise Missing(failure(launch, code, err))
        return {0: {"ms": statistics.median(times)}}
    return measure


def tests(name, *programs):
    """Run a test script that needs these test programs, and return how many of its lines begin with 'not ok'."""
    def measure(context, sizes):
        build = os.path.dirname(context.program("mad_perf"))
        path = os.path.join(os.path.dirname(HERE), "tests", name)
        if not os.path.exists(path):
            raise Missing(name + " is not there (it belongs to the source tree)")
        for program in programs:
            context.test_program(program)
        code, out, err = run(["sh", path], env={"BUILD": build}, timeout=170)
        if code == 77:
            raise Missing((out.strip().splitlines() or ["skipped"])[-1])
        passed, failed = (len(re.findall(p, out, re.M)) for p in ("^ok ", "^not ok "))
        return {0: {"passed": passed, "failed": failed or (1 if code else 0)}}
    return measure


SOURCES = {
    "idle-tcp": idle("tcp"),
    "idle-shm": idle("shm"),
    "ring-4": ring(0),
    "ring-4-beside": ring(2),
    "ring-4-user": ring(0, "marcel"),
    "ring-4-beside-user": ring(2, "marcel"),
    "overlap-shm": overlap("shm"),
    "overlap-tcp": overlap("tcp"),
    "raw-overlap": overlap_raw,
    "marcel": marcel("yield", "create_join", "lock", "handoff", "handoff_cond", "handoff_cross", "directed", "wake", "memory"),
    "million": marcel("million"),
    "argobots": argobots,
    "futex": wake("pthread_ns_median"),
    "epoll": wake("epoll_ns_median"),
    "scale": scale,
    "start-madrun": start(lambda context: context.madrun(START_PROCESSES)),
    # mpirun of Open MPI 4.1 often hangs if its processes end at once, so it is not measured.
    "start-mpich": start(lambda context: ["mpiexec.mpich", "-n", str(START_PROCESSES)]),
    "worlds": tests("system/worlds_test.sh", "world", "confined"),
    "lost": tests("soak/run.sh", "soak/soak"),
}

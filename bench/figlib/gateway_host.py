# SPDX-License-Identifier: BSD-3-Clause
"""Measure what a gateway costs its host: memory, and the processor time that a program beside it still gets."""

import json
import os
import re
import signal
import subprocess
import time

from . import gateway
from .context import Missing, failure, run

BUDGET_MIB = 16
PAIRS = 12  # half of the budget is reserved for first windows, and those of this number of pairs need most of that
SIZE_MIB = 16  # more than what fits into the buffers of the sockets behind the gateway
STOPPED = 0.7  # seconds; all windows are full long before that
PATIENCE = 15  # seconds until all streams must be open
# A loopback interface of its own, whose sockets hold at most two fragments in each direction: bytes that the kernel
# accepts for a stopped receiver are not in the gateway.
SHORT = ("unshare", "--map-root-user", "--net", "sh", "-c",
         "ip link set lo up && echo 4096 16384 65536 >/proc/sys/net/ipv4/tcp_wmem && "
         "echo 4096 16384 65536 >/proc/sys/net/ipv4/tcp_rmem && exec \"$@\"", "sh")


def beside(context, sizes):
    """Measure a gateway whose program computes: it has one processor, and the two ends share the other one."""
    if context.cpu_list[0] == context.cpu_list[1]:
        raise Missing("there is one processor only")
    rows = gateway.rows_list(gateway.job(context, 1, "beside", "--ms", "2000", "--sizes", ",".join(map(str, sizes)),
                                         "--json", cpus=context.cpus), gateway.DRIVERS)
    for row in rows:
        row["note"] = "forwarding took %.0f %% of the gateway's processor, at %.0f MB/s" % (row["forwarding_percent"],
                                                                               row["bandwidth_MBs_best"])
    return gateway.through(rows)


def forwarding_report(context, pid):
    """Return the gateway's report about its forwarding; {} if it does not answer."""
    _, out, _ = run([context.program("mad_info"), "explain", str(pid), "--json"], timeout=20)
    try:
        return json.loads(out)["sessions"][0]["forwarding"]
    except (ValueError, KeyError, IndexError):
        return {}


def pid_of(context, rank):
    try:
        with open("%s-%d" % (gateway.files(context), rank)) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def resident_mib(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read()).group(1)) / 1024


def until_streaming(context, child, pid):
    """Wait until all streams are open, and bytes flow."""
    until = time.time() + PATIENCE
    while time.time() < until and child.poll() is None:
        report = forwarding_report(context, pid()) if pid() else {}
        if report.get("streams") == PAIRS and report["bytes"] > PAIRS << 20:
            return
        time.sleep(0.02)
    raise Missing("the streams did not begin")


def filled(context):
    """Stop all receivers, so that as many bytes as possible stay in the gateway, and return its memory."""
    gate = pid_of(context, 2 * PAIRS)
    receivers = [pid_of(context, PAIRS + i) for i in range(PAIRS)]
    try:
        for pid in receivers:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        report = forwarding_report(context, gate)
        return {"held_MiB": report["bytes_held_most"] / 2**20, "budget_MiB": report["budget"] / 2**20,
                "resident_MiB": resident_mib(gate)}
    finally:
        for pid in receivers:
            os.kill(pid, signal.SIGCONT)


def memory(context, sizes):
    path = gateway.files(context)
    for rank in range(2 * PAIRS + 1):
        if os.path.exists("%s-%d" % (path, rank)):
            os.unlink("%s-%d" % (path, rank))
    short = run([*SHORT, "true"])[0] == 0
    command = gateway.job(context, PAIRS, "streams", "--pairs", str(PAIRS), "--ms", "3000", "--sizes",
                          "%dM" % SIZE_MIB, "--json")
    if short:
        command = [*SHORT, *command]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, MAD_FORWARD_BUDGET="%dM" % BUDGET_MIB, **gateway.DRIVERS))
    try:
        until_streaming(context, child, lambda: pid_of(context, 2 * PAIRS))
        row = filled(context)
        _, err = child.communicate(timeout=30)
    except (subprocess.TimeoutExpired, OSError, KeyError, AttributeError) as why:
        raise Missing("what the gateway holds is not known: %s" % why)
    finally:
        if child.poll() is None:
            child.terminate()  # madrun then ends the other processes
            child.communicate()
    if child.returncode:
        raise Missing(failure(command, child.returncode, err))
    row["note"] = "%d streams of messages of %d MiB%s; the whole process has %.1f MiB" % (
        PAIRS, SIZE_MIB, " over short socket buffers" if short else "", row["resident_MiB"])
    return {0: row}


SOURCES = {"beside": beside, "gateway-memory": memory}

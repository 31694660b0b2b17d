# SPDX-License-Identifier: BSD-3-Clause
"""Describe what was measured, when and how, on which machine, and with which versions.  Nothing here names a host."""

import os
import re
import shlex
import subprocess
import sys
import time

from . import peers
from .context import HERE, Missing, run

VERSIONS = [("MPICH", ["mpichversion"]),
            ("NetPIPE", ["dpkg-query", "-W", "-f", "${Version}", "netpipe-openmpi"]),
            ("valgrind", ["valgrind", "--version"]), ("compiler", ["cc", "--version"]), ("kernel", ["uname", "-sr"])]


def versions(prefixed=()):
    """Return how the peers were built, as they report it; prefixed: the peers of --peer."""
    found = peers.built_list(prefixed)
    for name, command in VERSIONS:
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20)
            lines = [l.strip("# \t") for l in done.stdout.splitlines() if re.search(r"\d", l)]
            found[name] = re.sub(r"\s+", " ", lines[0]) if lines else "not installed"
        except (OSError, subprocess.TimeoutExpired):
            found[name] = "not installed"
    return found


def measured(context):
    """Return what is measured: the commit, if this is a checkout of ours; else the release."""
    try:
        top = os.path.dirname(HERE)
        code, out, _ = run(["git", "-C", top, "rev-parse", "--show-toplevel"], timeout=20)
        if not code and os.path.realpath(out.strip()) == top:
            code, out, _ = run(["git", "-C", top, "describe", "--tags", "--always", "--dirty", "--abbrev=12"], timeout=20)
            if not code:
                return "commit " + out.strip()
    except Missing:
        pass
    try:
        return "release " + run([context.program("mad_info"), "--version"], timeout=20)[1].split()[-1]
    except (Missing, IndexError):
        return "unknown"


def command_shown(arguments):
    """Return the text without names of folders of this host."""
    return shlex.join(["bench/figures"] + [re.sub(r"^((?:--peer=)?(?:%s))=.*" % "|".join(peers.PACKAGES), r"\1=PREFIX", a)
                                           for a in arguments])


def this_run(context, rounds):
    """Return the facts of a run.  All rows of the run carry them, so that rows of different runs can be
    distinguished."""
    return {"measured": measured(context), "command": command_shown(sys.argv[1:]), "rounds": rounds,
            "began": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "load before": "%.2f" % os.getloadavg()[0]}


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def machine(context):
    info = read("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", info)
    memory = re.search(r"MemTotal:\s*(\d+)", read("/proc/meminfo"))
    caches = []
    folder = "/sys/devices/system/cpu/cpu%d/cache" % context.cpu_list[0]
    for index in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        level, size, kind = (read(os.path.join(folder, index, f)).strip() for f in ("level", "size", "type"))
        if level and kind != "Instruction":
            shared = read(os.path.join(folder, index, "shared_cpu_list")).strip()
            caches.append("L%s %s (processors %s)" % (level, size, shared))
    return {"processor": model.group(1).strip() if model else os.uname().machine,
            "processors": "%d, of which %s are used" % (os.cpu_count(), context.cpus.replace(",", " and ")),
            "virtual machine": "yes" if re.search(r"^flags.*\bhypervisor\b", info, re.M) else "no",
            "caches": ", ".join(caches) or "unknown",
            "memory": "%d MiB" % (int(memory.group(1)) // 1024) if memory else "unknown"}

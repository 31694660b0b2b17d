# SPDX-License-Identifier: BSD-3-Clause
"""Measure failover: how long messages stand still when one of two gateways dies or hangs, and whether all messages
arrive once and in order.  A test program does this under load, again and again, with two ends over loopback as in
gateway.py."""

import os
import re

from .context import Missing, failure, run

DETECT_MS = 500  # MAD_FORWARD_DETECT
TIMES = {"kill": 100, "stop": 40}
QUICK = 4  # quick runs do this part of the times
TOPOLOGY = 'networks = { x = { driver = "tcp"; hosts = "a,g1,g2"; }; y = { driver = "tcp"; hosts = "g1,g2,b"; }; };\n'
HOSTS = {"A": ("a", "lo"), "B": ("b", "lo/6"), "G1": ("g1", "lo,lo/6"), "G2": ("g2", "lo,lo/6")}


def environment(context):
    path = os.path.join(context.scratch, "failover.cfg")
    with open(path, "w") as file:
        file.write(TOPOLOGY)
    env = {"MAD_DRIVERS": "self,tcp,virtual", "MAD_TOPOLOGY": path, "MAD_FORWARD_DETECT": str(DETECT_MS)}
    for role, (host, interfaces) in HOSTS.items():
        env["FAILOVER_MAD_HOST_" + role] = host
        env["FAILOVER_MAD_TCP_INTERFACES_" + role] = interfaces
    return env


def each(context, mode):
    """Return the milliseconds of each failover, and how many of the program's checks failed."""
    command = [context.test_program("failover"), mode, str(max(TIMES[mode] // QUICK, 1) if context.quick else TIMES[mode])]
    code, out, err = run(command, environment(context), timeout=170)
    times = re.search(r"^# %s: each: (.*) ms$" % mode, out, re.M)
    if not times:
        raise Missing(failure(command, code, err))
    return [int(ms) for ms in times.group(1).split()], len(re.findall("^not ok ", out, re.M))


def failover(context, sizes):
    row = {"wrong": 0}
    for mode in TIMES:
        times, wrong = each(context, mode)
        row[mode + "_ms"], row[mode + "_mean_ms"] = max(times), sum(times) / len(times)
        row["wrong"] += wrong
        row["note"] = row.get("note", "") + "%s%d times (signal %s) messages went on, on average after %.0f ms" % (
            ", " if "note" in row else "", len(times), mode, row[mode + "_mean_ms"])
    return {0: row}


SOURCES = {"failover": failover}

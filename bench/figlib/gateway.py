# SPDX-License-Identifier: BSD-3-Clause
"""Through a gateway, three processes on this host: over IPv4 loopback to the gateway, over IPv6 loopback from there.
Beside it a relay that does nothing but copy bytes between two sockets, and whose processes sleep when they wait, as ours
soon do: on two cores three cannot spin."""

import json
import os

from .context import Missing, failure, run

TOPOLOGY = 'networks = { x = { driver = "tcp"; hosts = "a,g"; }; y = { driver = "tcp"; hosts = "g,b"; }; };\n'
AS = """#!/bin/sh
case $PMI_RANK in
0) host=a interfaces=lo ;;
1) host=b interfaces=lo/6 ;;
*) host=g interfaces=lo,lo/6 ;;
esac
MAD_TOPOLOGY=${0%/*}/gateway.cfg MAD_HOST=$host MAD_TCP_INTERFACES=$interfaces exec "$@"
"""


def rows_of(command, env=None):
    """All rows, in order."""
    code, out, err = run(command, env)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if code or not rows:
        raise Missing(failure(command, code, err))
    return rows


def tail(sizes):
    return ["--sizes", ",".join(map(str, sorted(sizes))), "--batches", "12", "--json"]


def files(context):
    path = os.path.join(context.scratch, "gateway-as")
    if not os.path.exists(path):
        with open(os.path.join(context.scratch, "gateway.cfg"), "w") as file:
            file.write(TOPOLOGY)
        with open(path, "w") as file:
            file.write(AS)
        os.chmod(path, 0o755)
    return path


def ours(context, test, sizes):
    rows = rows_of(context.madrun(3, files(context), context.program("mad_perf"), test) + tail(sizes),
                   {"MAD_DRIVERS": "self,tcp,virtual"})
    if any(row.get("driver") != "virtual" for row in rows):
        raise Missing("the messages went another way")
    return {row["size"]: row for row in rows}


def relay(context, test, sizes):
    """{who: {size: row}}, who being raw_direct or raw_relay."""
    found = {}
    for row in rows_of([context.program("raw_relay"), "--wait", "sleep", "--test", test] + tail(sizes)):
        found.setdefault(row["who"], {})[row["size"]] = row
    return found


def difference(far, near):
    return {size: {"size": size, "latency_us_best": far[size]["latency_us_best"] - near[size]["latency_us_best"]}
            for size in far}


def added(context, sizes):
    """What the gateway adds to the same messages over one loopback network."""
    rows = rows_of(context.madrun(2, context.program("mad_perf"), "pingpong", "--driver", "tcp") + tail(sizes),
                   {"MAD_TCP_INTERFACES": "lo"})
    return difference(ours(context, "pingpong", sizes), {row["size"]: row for row in rows})


def relay_added(context, sizes):
    found = relay(context, "pingpong", sizes)
    return difference(found["raw_relay"], found["raw_direct"])


SOURCES = {
    "gateway-added": added,
    "relay-added": relay_added,
    "gateway": lambda context, sizes: ours(context, "bandwidth", sizes),
    "relay": lambda context, sizes: relay(context, "bandwidth", sizes)["raw_relay"],
}

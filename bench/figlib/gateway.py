# SPDX-License-Identifier: BSD-3-Clause
"""Measure messages through a gateway, with three processes on this host: IPv4 loopback to the gateway, IPv6 loopback
from the gateway on.  Relays are measured beside it: one of ours that only copies bytes between two sockets, socat, and
zmq_proxy.  Processes sleep when they wait, as ours soon do, because three processes cannot spin on two cores."""

import json
import os
import shutil
import statistics

from .context import Missing, failure, run, run_rows

KIB, MIB = 1 << 10, 1 << 20
TURNS = 5  # runs of a source in a round, for sources whose difference is measured and whose values vary by as much
PAIRS = (1, 2, 4, 8, 16, 32, 64, 100)
FRAGMENTS = [(4 << i) * KIB for i in range(7)]
TOPOLOGY = 'networks = { x = { driver = "tcp"; hosts = "a,g"; }; y = { driver = "tcp"; hosts = "g,b"; }; };\n'
ENCRYPTED = TOPOLOGY[:-1] + ' virtual_channels = { all = { over = "x, y"; encrypt = "end-to-end"; }; };\n'
# as N CPU COMMAND...: of N pairs, the first N ranks are on one side, the next N on the other, and all further ones are
# gateways.  If CPU is not empty, gateways are bound to its first processor, and the other ranks to its second.
AS = """#!/bin/sh
n=$1 cpu=$2
shift 2
if [ "$PMI_RANK" -lt "$n" ]; then host=a interfaces=lo cpu=${cpu#*,}
elif [ "$PMI_RANK" -lt $((2 * n)) ]; then host=b interfaces=lo/6 cpu=${cpu#*,}
else
    host=g interfaces=lo,lo/6 cpu=${cpu%,*}
fi
echo $$ >"$0-$PMI_RANK"
MAD_TOPOLOGY=${0%/*}/${GATEWAY_FILE:-gateway.cfg} MAD_HOST=$host MAD_TCP_INTERFACES=$interfaces
export MAD_TOPOLOGY MAD_HOST MAD_TCP_INTERFACES
[ -z "$cpu" ] || exec taskset -c "$cpu" "$@"
exec "$@"
"""
DRIVERS = {"MAD_DRIVERS": "self,tcp,virtual"}


def rows_read(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def rows_list(command, env=None):
    """Return all rows, in order."""
    code, out, err = run(command, env)
    rows = rows_read(out)
    if code or not rows:
        raise Missing(failure(command, code, err))
    return rows


def tail(sizes, batches=12):
    return ["--sizes", ",".join(map(str, sorted(sizes))), "--batches", str(batches), "--json"]


def files(context):
    path = os.path.join(context.scratch, "gateway-as")
    if not os.path.exists(path):
        with open(os.path.join(context.scratch, "gateway.cfg"), "w") as file:
            file.write(TOPOLOGY)
        with open(os.path.join(context.scratch, "encrypted.cfg"), "w") as file:
            file.write(ENCRYPTED)
        with open(path, "w") as file:
            file.write(AS)
        os.chmod(path, 0o755)
    return path


def job(context, pairs, *arguments, cpus=""):
    """Return the command for this number of pairs and one gateway."""
    return context.madrun(2 * pairs + 1, "--bind", "none", files(context), str(pairs), cpus, context.program("mad_perf"),
                          *arguments)


def through(rows):
    if any(row.get("driver") != "virtual" for row in rows):
        raise Missing("the messages went another way")
    return {row["size"]: row for row in rows}


def ours(context, test, sizes, fragment=0, more=(), file="gateway.cfg"):
    """Measure ours; later options override earlier ones."""
    return through(rows_list(job(context, 1, test) + tail(sizes) + list(more),
                             dict(DRIVERS, MAD_FORWARD_FRAGMENT=str(fragment), GATEWAY_FILE=file)))


def direct(context, sizes):
    """Measure the same messages over one loopback network, waiting as they do through the gateway: beside a third
    process, which here has nothing to do.  Two processes alone would spin on two cores, and the difference would be
    that between two methods of waiting."""
    return run_rows(context.madrun(3, "--bind", "none", context.program("mad_perf"), "pingpong", "--driver", "tcp") +
                    tail(sizes), {"MAD_TCP_INTERFACES": "lo"})


def relay(context, test, sizes):
    """Return {source: {size: row}} of the sources raw_direct and raw_relay."""
    found = {}
    for row in rows_list([context.program("raw_relay"), "--wait", "sleep", "--test", test] + tail(sizes)):
        found.setdefault(row["who"], {})[row["size"]] = row
    return found


def socat(test, options=""):
    def measure(context, sizes):
        if not shutil.which("socat"):
            raise Missing("socat (package socat) is not installed")
        return run_rows([context.program("raw_relay"), "--wait", "sleep", "--test", test, "--through",
                         "exec socat %s FD:3 FD:4" % options] + tail(sizes))
    return measure


def zmq(test):
    def measure(context, sizes):
        return run_rows([context.peer("peer_zmq", libs=("-lzmq",)), "--test", test] + tail(sizes))
    return measure


def differences(pairs):
    """Return the difference of the medians of these pairs (far, near), which were measured in turn.  Medians, because
    the kernel places three processes on two processors once per run, and only half of the placements are good."""
    return {size: {"size": size, "latency_us_best": statistics.median(far[size]["latency_us_best"] for far, _ in pairs) -
                   statistics.median(near[size]["latency_us_best"] for _, near in pairs)} for size in pairs[0][0]}


def added(context, sizes):
    """Measure the time that the gateway adds."""
    return differences([(ours(context, "pingpong", sizes), direct(context, sizes)) for _ in range(TURNS)])


def relay_added(context, sizes):
    found = [relay(context, "pingpong", sizes) for _ in range(TURNS)]
    return differences([(one["raw_relay"], one["raw_direct"]) for one in found])


# ---- Lengths of fragments, many streams ------------------------------------------------------------------------------


def fragments_turns(one, lengths, turns):
    """Return {length: median}; the lengths are measured in turn."""
    measured = [{length: one(length) for length in lengths} for _ in range(turns)]
    return {length: statistics.median(turn[length] for turn in measured) for length in lengths}


def fragments_judge(one, turns, last):
    """Judge the automatic length; one(length) returns the microseconds of one run, and 0 is the automatic length.  Some
    turns find the best two lengths, and further turns compare these with the automatic one.  The turns that selected a
    length do not count for it: of eight lengths the luckiest would seem better than it is."""
    sweep = fragments_turns(one, FRAGMENTS, turns)
    best = sorted(FRAGMENTS, key=sweep.get)[:2]
    judged = fragments_turns(one, [0] + best, last)
    automatic = judged.pop(0)
    beside = ", ".join("%d KiB %.0f" % (length / KIB, us) for length, us in judged.items())
    return {0: {"behind": automatic / min(judged.values()), "automatic": automatic, "sweep": sweep,
                "note": "a message takes %.0f us; in the same turns, us with fragments of %s; in the turns before, us with "
                        "fragments of " % (automatic, beside) +
                        ", ".join("%d KiB %.0f" % (length / KIB, us) for length, us in sweep.items())}}


def fragments(context, sizes):
    """Do many short runs, because the kernel places three processes once per run."""
    def one(length):
        return ours(context, "bandwidth", {MIB}, length, ["--batches", "6", "--iters", "2"])[MIB]["latency_us_median"]
    return fragments_judge(one, 2, 15)


def streams_row(context, pairs, ms=1000):
    rows = rows_list(job(context, pairs, "streams", "--pairs", str(pairs), "--ms", str(ms), "--sizes", "64K", "--json"),
                     DRIVERS)
    return through(rows)[64 * KIB]


def streams(context, sizes):
    """Return {0: the row of the largest number of streams}."""
    alone, row = streams_row(context, 1), streams_row(context, PAIRS[-1])
    row["note"] = "all streams together have %.0f MB/s in messages of 64 KiB; one stream alone has %.0f MB/s" % (
        row["bandwidth_MBs_best"], alone["bandwidth_MBs_best"])
    return {0: row}


SOURCES = {
    "gateway-added": added,
    "relay-added": relay_added,
    "gateway": lambda context, sizes: ours(context, "bandwidth", sizes),
    "gateway-plain": lambda context, sizes: ours(context, "pingpong", sizes),
    "gateway-e2e": lambda context, sizes: ours(context, "bandwidth", sizes, file="encrypted.cfg"),
    "gateway-e2e-pingpong": lambda context, sizes: ours(context, "pingpong", sizes, file="encrypted.cfg"),
    "relay": lambda context, sizes: relay(context, "bandwidth", sizes)["raw_relay"],
    "socat": socat("bandwidth", "-b 262144"),
    "socat-8K": socat("bandwidth"),
    "zmq_proxy": zmq("bandwidth"),
    "fragments": fragments,
    "streams": streams,
    # For plots.
    "ours-direct": direct,
    "ours-gateway": lambda context, sizes: ours(context, "pingpong", sizes),
    "raw-direct": lambda context, sizes: relay(context, "pingpong", sizes)["raw_direct"],
    "raw-relay": lambda context, sizes: relay(context, "pingpong", sizes)["raw_relay"],
    "socat-relay": socat("pingpong", "-b 262144"),
    "zmq-relay": zmq("pingpong"),
}

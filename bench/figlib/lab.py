# SPDX-License-Identifier: BSD-3-Clause
"""Measure a gateway between hosts that madlab makes: red0, gate, blue0, on networks with and without a bandwidth limit.
In the same lab, sockets of our own are measured beside it: over one of the networks, through the relay on the gateway,
and through the gateway's kernel, which forwards packets."""

import os

from . import gateway
from .context import Missing, failure, run

KIB, MIB = 1 << 10, 1 << 20
RATE = "1Gbit/s"
NETWORK = '    %s = { driver = "tcp"; %shosts = (\n' \
          '        { hosts = "%s"; address = "10.%d.0.1"; }, { hosts = "%s"; address = "10.%d.0.2"; }); };\n'
PORT = "7000"  # a port of the lab's hosts, on which nothing else listens
OURS = """exec "$MADRUN" --no-label -n 3 --bind none --hosts red0,blue0,gate --launch-agent "$MADLAB_AGENT" \\
    --env MAD_TOPOLOGY="$MADLAB_TOPOLOGY" --env MAD_FORWARD_FRAGMENT="${MAD_FORWARD_FRAGMENT:-0}" "$MAD_PERF" "$@"
"""
NEAR = """on() { "$MADLAB_AGENT" "$@"; }
part() { host=$1; shift; on "$host" "$RAW_RELAY" --wait sleep "$@"; }
"""
DIRECT = NEAR + """part gate --listen %s "$@" &
part red0 --to 10.1.0.2:%s "$@" && wait $!
""" % (PORT, PORT)
RELAY = NEAR + """part blue0 --listen %s "$@" &
part gate --listen %s --to 10.2.0.2:%s "$@" &
part red0 --to 10.1.0.2:%s "$@" && wait
""" % (PORT, PORT, PORT, PORT)
KERNEL = NEAR + """on gate sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' && on red0 ip route add 10.2.0.0/16 via 10.1.0.2 &&
    on blue0 ip route add 10.1.0.0/16 via 10.2.0.1 || exit 1
part blue0 --listen %s "$@" &
part red0 --to 10.2.0.2:%s "$@" && wait $!
""" % (PORT, PORT)


def topology(context, rate):
    path = os.path.join(context.scratch, "lab%s.cfg" % ("-limited" if rate else ""))
    limit = 'bandwidth = "%s"; ' % rate if rate else ""
    with open(path, "w") as file:
        file.write("networks = {\n" + NETWORK % ("red", limit, "red0", 1, "gate", 1) +
                   NETWORK % ("blue", limit, "gate", 2, "blue0", 2) + "};\n")
    return path


def inside(context, path, options, script, arguments, env=None):
    """Run the script in the lab that the file describes, and return the rows that it prints."""
    command = [context.program("madlab"), "run", path, "--share", context.scratch] + options
    programs = {name: context.program(name.lower()) for name in ("MADRUN", "MAD_PERF", "RAW_RELAY")}
    for path in programs.values():
        if path.startswith(("/tmp/", "/dev/shm/")):
            command += ["--share", os.path.dirname(path)]
    command += ["--timeout", str(context.limit), "--", "sh", "-c", script, "lab"]
    code, out, err = run(command + list(arguments), dict(programs, **(env or {})))
    if "no tbf" in err:
        raise Missing("this kernel cannot limit a network (module sch_tbf)")
    rows = gateway.rows_read(out)
    if code or not rows:
        raise Missing(failure(command, code, err))
    return rows


def lab(context, script, arguments, rate="", env=None):
    return inside(context, topology(context, rate), [], script, arguments, env)


def sized(sizes):
    """Return options for few windows: at the limited rate a window of 1 MiB takes 0.13 s."""
    return ["--sizes", ",".join(map(str, sorted(sizes))), "--json", "--iters", "1", "--batches", "6"]


def ours(rate):
    def measure(context, sizes):
        return gateway.through(lab(context, OURS, ["bandwidth"] + sized(sizes), rate))
    return measure


def raw(script, rate):
    def measure(context, sizes):
        return {row["size"]: row for row in lab(context, script, ["--test", "bandwidth"] + sized(sizes), rate)}
    return measure


def fragments(context, sizes):
    """Measure lengths of fragments by a ping-pong: while the first fragment travels to the gateway, the second network
    is idle."""
    def one(length):
        return gateway.through(lab(context, OURS, ["pingpong"] + sized({MIB}), RATE,
                                   {"MAD_FORWARD_FRAGMENT": str(length)}))[MIB]["latency_us_best"]
    return gateway.fragments_judge(one, 1, 3)


SOURCES = {
    "limited-gateway": ours(RATE),
    "limited-tcp": raw(DIRECT, RATE),
    "limited-relay": raw(RELAY, RATE),
    "limited-fragments": fragments,
    "lab-gateway": ours(""),
    "lab-relay": raw(RELAY, ""),
    "lab-kernel": raw(KERNEL, ""),
}

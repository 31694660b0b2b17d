# SPDX-License-Identifier: BSD-3-Clause
"""Draw plots by gnuplot: latency and bandwidth over the message size, ours and others, and plots about gateways."""

import itertools
import json
import os
import shutil

from . import failover, gateway, lab, measure, rows
from .context import Missing, failure, run, say

SIZES = [8 << i for i in range(20)]
QUICK_SIZES = SIZES[::3] + [SIZES[-1]]
PLOTS = [
    ("shm", "shared memory", ("ours-shm", "openmpi-shm", "mpich-shm", "ucx-posix", "libfabric-shm")),
    ("tcp", "TCP on loopback", ("ours-tcp", "raw-tcp", "openmpi-tcp", "ucx-tcp", "libfabric-tcp")),
    ("self", "to itself", ("ours-self",)),
    ("gateway", "through a gateway on loopback", ("ours-gateway", "direct-ours", "direct-sockets", "relay-sockets",
                                                  "socat", "zmq_proxy")),
]
MPI = [  # drawn if figures of MPI are measured
    ("mpi-shm", "Open MPI over shared memory", ("ours-component", "ours-libfabric", "openmpi-shm")),
    ("mpi-tcp", "Open MPI over TCP on loopback", ("ours-component-tcp", "ours-libfabric-tcp", "openmpi-tcp")),
]
# Sources whose names in the plots differ from their own names.
NAMED = {"direct-ours": "ours-direct", "direct-sockets": "raw-direct", "relay-sockets": "raw-relay",
         "socat": "socat-relay", "zmq_proxy": "zmq-relay", "ours-component": "mpi-mad-shm", "ours-libfabric": "mpi-ofi-shm",
         "ours-component-tcp": "mpi-mad-tcp", "ours-libfabric-tcp": "mpi-ofi-tcp"}
ROUNDS = 2
OURS = ["3.5 lc rgb '#c02020'", "3.5 lc rgb '#e08030'"]  # lines

SCRIPT = """set terminal svg size 900,560 background 'white' font 'sans,13' enhanced
set output '%s'
set title '%s'
set logscale %s
set logscale x 2
set format x '%s'
set xlabel '%s'
set ylabel '%s'
set grid lc rgb '#dddddd'
set key %s
plot %s
"""


def draw(folder, name, title, unit, key, series, x="message", scale="xy", form="%.0b %BB"):
    path = os.path.join(folder, name + ".svg")
    data, lines, ours = [], [], itertools.cycle(OURS)
    for i, (who, points) in enumerate(series):
        data.append("$d%d << EOD\n%s\nEOD\n" % (i, "\n".join("%d %g" % p for p in points)))
        lines.append("$d%d using 1:2 with linespoints lw %s pt 7 ps 0.5 title '%s'" %
                     (i, next(ours) if who.startswith("ours") else "1.5", who))
    script = os.path.join(folder, name + ".gp")
    with open(script, "w") as file:
        file.write("".join(data) + SCRIPT % (path, title, scale, form, x, unit, key,
                                                 ", \\\n     ".join(lines)))
    code, _, err = run(["gnuplot", script])
    if code:
        raise Missing(failure(["gnuplot"], code, err))
    with open(path) as file:
        return title, file.read()


def series_measure(context, sources, sizes):
    missing, best = {}, {}
    wanted = {NAMED.get(s, s): sizes for s in sources}
    for number in range(1 if context.quick else ROUNDS):
        one = measure.round_run(context, None, number, wanted, missing, ())
        for source, found in one.items():
            for size, row in found.items():
                points = best.setdefault(source, {})
                points[size] = min(row["latency_us_best"], points.get(size, row["latency_us_best"]))
    return {s: sorted(best[NAMED.get(s, s)].items()) for s in sources if NAMED.get(s, s) in best}


def fragments_draw(context, folder, name, where, judged):
    """Draw the bandwidth over forced lengths, with a horizontal line for the length that the library chooses."""
    found = judged(context, ())[0]
    rate = {length: gateway.MIB / us for length, us in found["sweep"].items()}
    return draw(folder, name, "Length of fragments, 1 MiB, " + where, "MB/s", "right bottom",
                [("forced", sorted(rate.items())),
                 ("ours: the automatic length", [(length, gateway.MIB / found["automatic"]) for length in sorted(rate)])],
                "fragment", "x")


def streams_draw(context, folder):
    found = [(n, gateway.streams_row(context, n, 300 if context.quick else 1000)) for n in gateway.PAIRS]
    return [draw(folder, "streams", "Streams through one gateway, messages of 64 KiB, all together", "MB/s", "right top",
                 [("ours", [(n, row["bandwidth_MBs_best"]) for n, row in found])], "streams", "x", "%.0f"),
            draw(folder, "streams-share", "Streams through one gateway: the slowest of them", "of its fair share",
                 "right bottom", [("ours", [(n, row["least_share"]) for n, row in found]),
                                  ("goal", [(n, 0.8) for n, _ in found])], "streams", "x", "%.0f")]


def failover_draw(context, folder):
    """Draw all times in ascending order."""
    found = {mode: sorted(failover.each(context, mode)[0]) for mode in failover.TIMES}
    longest = max(map(len, found.values()))
    series = [("a gateway " + name, [(i + 1, max(ms, 1)) for i, ms in enumerate(found[mode])])
              for mode, name in (("kill", "is killed"), ("stop", "hangs"))]
    series.append(("goal: twice the time of detection", [(i, 2 * failover.DETECT_MS) for i in (1, longest)]))
    return draw(folder, "failover", "Until messages go on after a gateway dies, shortest first", "milliseconds",
                "right center", series, "gateways", "xy", "%.0f")


def gateway_draw(context, folder, groups):
    """Draw what does not depend on the message size.  A plot that cannot be measured here is left out, which is
    reported."""
    images = []
    sweeps = [("gateway-load", "lengths of fragments",
               lambda: [fragments_draw(context, folder, "fragments", "stream on loopback", gateway.fragments)]),
              ("gateway-lab", "lengths of fragments, limited networks",
               lambda: [fragments_draw(context, folder, "fragments-limited", "ping-pong, networks of " + lab.RATE,
                                       lab.fragments)]),
              ("gateway-load", "many streams", lambda: streams_draw(context, folder)),
              ("failover", "gateways that die", lambda: [failover_draw(context, folder)])]
    for group, what, draws in sweeps:
        if group not in groups:
            continue
        say("plots: " + what)
        try:
            images += draws()
        except Missing as why:
            say("%s: left out: %s" % (what, why))
    return images


def rows_draw(folder, path):
    """Draw the output of mad_perf --json in that file: a line for each route that the messages took."""
    series = {}
    with open(path) as file:
        for row in map(json.loads, file):
            series.setdefault(row.get("route", row["driver"]), []).append((row["size"], row["latency_us_best"]))
    name = os.path.splitext(os.path.basename(path))[0]
    return [draw(folder, "latency-" + name, "Latency, " + name, "microseconds, one way", "left top", list(series.items())),
            draw(folder, "bandwidth-" + name, "Bandwidth of a ping-pong, " + name, "MB/s", "left top",
                 [(who, [(z, z / t) for z, t in points]) for who, points in series.items()])]


def plots_make(context, folder, groups, files):
    """Measure and draw all plots: by size, sweeps of the selected groups, and the given files.  Return [(title, SVG
    text)]."""
    if not shutil.which("gnuplot"):
        say("no plots: gnuplot is not installed")
        return []
    os.makedirs(folder, exist_ok=True)
    images = []
    for name, title, sources in PLOTS + (MPI if "mpi-sizes" in groups else []):
        say("plots: " + title)
        series = series_measure(context, [s for s in sources if NAMED.get(s, s) in rows.SOURCES],
                                QUICK_SIZES if context.quick else SIZES)
        if not series:
            continue
        images.append(draw(folder, "latency-" + name, "Latency, " + title, "microseconds, one way", "left top",
                           list(series.items())))
        images.append(draw(folder, "bandwidth-" + name, "Bandwidth of a ping-pong, " + title, "MB/s", "left top",
                           [(s, [(z, z / t) for z, t in points if t]) for s, points in series.items()]))
    images += gateway_draw(context, folder, groups)
    for path in files:
        images += rows_draw(folder, path)
    return images

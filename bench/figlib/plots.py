# SPDX-License-Identifier: BSD-3-Clause
"""Latency and bandwidth over size, ours beside the others, drawn by gnuplot."""

import os
import shutil

from . import measure, rows
from .context import Missing, failure, run, say

SIZES = [8 << i for i in range(20)]
QUICK_SIZES = SIZES[::3] + [SIZES[-1]]
PLOTS = [
    ("shm", "shared memory", ("ours-shm", "openmpi-shm", "mpich-shm", "ucx-posix", "libfabric-shm")),
    ("tcp", "TCP on loopback", ("ours-tcp", "raw-tcp", "openmpi-tcp", "ucx-tcp", "libfabric-tcp")),
    ("self", "to itself", ("ours-self",)),
]
ROUNDS = 2

SCRIPT = """set terminal svg size 900,560 background 'white' font 'sans,13' enhanced
set output '%s'
set title '%s'
set logscale xy
set logscale x 2
set format x '%%.0b %%BB'
set xlabel 'message'
set ylabel '%s'
set grid lc rgb '#dddddd'
set key %s
plot %s
"""


def draw(folder, name, title, unit, key, series):
    path = os.path.join(folder, name + ".svg")
    data, lines = [], []
    for i, (who, points) in enumerate(series):
        data.append("$d%d << EOD\n%s\nEOD\n" % (i, "\n".join("%d %g" % p for p in points)))
        lines.append("$d%d using 1:2 with linespoints lw %s pt 7 ps 0.5 title '%s'" %
                     (i, "3.5 lc rgb '#c02020'" if who.startswith("ours") else "1.5", who))
    script = os.path.join(folder, name + ".gp")
    with open(script, "w") as file:
        file.write("".join(data) + SCRIPT % (path, title, unit, key, ", \\\n     ".join(lines)))
    code, _, err = run(["gnuplot", script])
    if code:
        raise Missing(failure(["gnuplot"], code, err))
    with open(path) as file:
        return title, file.read()


def series_measure(context, sources, sizes):
    missing, best = {}, {}
    for number in range(1 if context.quick else ROUNDS):
        one = measure.round_run(context, number, {s: sizes for s in sources}, missing, ())
        for source, found in one.items():
            for size, row in found.items():
                points = best.setdefault(source, {})
                points[size] = min(row["latency_us_best"], points.get(size, row["latency_us_best"]))
    return {s: sorted(best[s].items()) for s in sources if s in best}


def plots_make(context, folder):
    """Measure and draw; [(title, SVG text)]."""
    if not shutil.which("gnuplot"):
        say("no plots: gnuplot is not installed")
        return []
    os.makedirs(folder, exist_ok=True)
    images = []
    for name, title, sources in PLOTS:
        say("plots: " + title)
        series = series_measure(context, [s for s in sources if s in rows.SOURCES],
                                QUICK_SIZES if context.quick else SIZES)
        if not series:
            continue
        images.append(draw(folder, "latency-" + name, "Latency, " + title, "microseconds, one way", "left top",
                           list(series.items())))
        images.append(draw(folder, "bandwidth-" + name, "Bandwidth of a ping-pong, " + title, "MB/s", "left top",
                           [(s, [(z, z / t) for z, t in points if t]) for s, points in series.items()]))
    return images

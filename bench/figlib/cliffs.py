# SPDX-License-Identifier: BSD-3-Clause
"""Find cliffs: sizes that take much longer than the interpolation between their neighbours predicts."""

import json

from . import curve
from .context import Missing, run

# Sizes at which shm changes its method and which mad_info does not report (shm.h): packets of one cell, of several
# cells; the short form; bodies of whole blocks.
THRESHOLDS = [40, 56, 448, 512, 2 << 10, 4 << 10, 8 << 10, 32 << 10]
TOLD = ("packet_max", "chunk_max", "grant_min", "ahead_of_grant")
HEADER = 24  # bytes of packet header and block descriptor: a limit of a packet limits a block to this much less


def thresholds(context):
    """Return the sizes at which shm changes its method."""
    reported = set()
    try:
        code, out, _ = run([context.program("mad_info"), "--json"], timeout=20)
        for line in out.splitlines() if not code else ():
            reported |= numbers(json.loads(line), False)
    except (Missing, ValueError):
        pass
    every = reported | set(THRESHOLDS)
    return sorted({s for t in every for s in (t, t - HEADER) if s > 1})


def numbers(node, within):
    """Return the limits of the adapter of driver shm, wherever mad_info prints them."""
    if isinstance(node, list):
        return set().union(*(numbers(n, within) for n in node))
    if not isinstance(node, dict):
        return set()
    within = within or node.get("driver") == "shm"
    found = {v for k, v in node.items() if within and k in TOLD and 1 < v <= 4 << 20}
    return found.union(*(numbers(n, within) for n in node.values() if isinstance(n, (dict, list))))


def sizes(context):
    wanted = set(curve.sizes())
    for at in thresholds(context):
        wanted |= {at - 1, at, at + 1}
    return sorted(wanted)


def options(context):
    return []


def judge(figure, results):
    """Return the worst size of the best times of all rounds: its ratio to the interpolation between its neighbours."""
    best = {size: times[0] for size, times in curve.times(results, figure.ours).items()}
    if not best:
        return None
    found = curve.neighbours(best)
    worst, at = found[0]
    return {"ours": {"best": worst, "median": worst}, "of_target": worst / figure.allowed, "peer": None, "at": at,
            "sweep": {figure.ours: best}, "note": "the worst size is %d B; then, x its neighbours, %s" % (
                at, ", ".join("%d B %.2f" % (size, ratio) for ratio, size in found[1:6]))}

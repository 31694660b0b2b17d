# SPDX-License-Identifier: BSD-3-Clause
"""No cliff: every size against the line between its neighbours."""

import json

from . import curve
from .context import Missing, run

# Where shm changes its way and mad_info does not say it (shm.h): packets of one cell, of several; the short form; whole
# blocks of its area.
THRESHOLDS = [40, 56, 448, 512, 2 << 10, 4 << 10, 8 << 10, 32 << 10]
TOLD = ("packet_max", "chunk_max", "grant_min", "ahead_of_grant")
HEADER = 24  # what limits a packet limits a block this much earlier: packet header and block descriptor


def thresholds(context):
    """The sizes at which shm changes its way."""
    told = set()
    try:
        code, out, _ = run([context.program("mad_info"), "--json"], timeout=20)
        for line in out.splitlines() if not code else ():
            told |= numbers(json.loads(line), False)
    except (Missing, ValueError):
        pass
    every = told | set(THRESHOLDS)
    return sorted({s for t in every for s in (t, t - HEADER) if s > 1})


def numbers(node, within):
    """The limits of the adapter of driver shm, wherever they stand."""
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
    """The worst of the best of all rounds: how many times as long as the line between its neighbours says."""
    best = {size: times[0] for size, times in curve.times(results, figure.ours).items()}
    if not best:
        return None
    found = curve.neighbours(best)
    worst, at = found[0]
    return {"ours": {"best": worst, "median": worst}, "of_target": worst / figure.allowed, "peer": None, "at": at,
            "sweep": {figure.ours: best}, "note": "worst at %d B; then %s" % (
                at, ", ".join("%d B %.2f" % (size, ratio) for ratio, size in found[1:6]))}

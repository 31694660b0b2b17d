# SPDX-License-Identifier: BSD-3-Clause
"""No cliff: every size against the line between its neighbours."""

import json

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
    wanted = {1 << i for i in range(23)} | {3 << i for i in range(21)}
    for at in thresholds(context):
        wanted |= {at - 1, at, at + 1}
    return sorted(wanted)


def judge(results):
    """{"worst": how many times slower than between its neighbours, "at": the size} of the best of all rounds."""
    rounds = [one["ours-shm"] for one in results if one.get("ours-shm")]
    if not rounds:
        return None
    best = {s: min(r[s]["latency_us_best"] for r in rounds if s in r) for s in rounds[0]}
    order = sorted(best)
    found = []
    for low, size, high in zip(order, order[1:], order[2:]):
        between = best[low] + (best[high] - best[low]) * (size - low) / (high - low)
        found.append((best[size] / between, size))
    found.sort(reverse=True)
    return {"worst": found[0][0], "at": found[0][1], "next": found[1:6], "sweep": best}

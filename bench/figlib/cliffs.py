# SPDX-License-Identifier: BSD-3-Clause
"""No cliff: every size against the line between its neighbours."""

import json

from .context import Missing, run

# Where the library changes its way, unless mad_info says it: packets that fit one or several cells, the short form,
# the longest copied packet, the first granted block.
THRESHOLDS = [40, 56, 224, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10]
HEADER = 24  # a threshold of packets meets a block this much earlier: packet header and block descriptor


def thresholds(context):
    """The sizes at which shm changes its way, from mad_info if it tells."""
    told = set()
    try:
        code, out, _ = run([context.program("mad_info"), "--json"], timeout=20)
        for line in out.splitlines() if not code else ():
            told |= numbers(json.loads(line), False)
    except (Missing, ValueError):
        pass
    return sorted({s for t in told for s in (t, t - HEADER) if s > 1} | set(THRESHOLDS))


def numbers(node, within):
    """The limits of the adapter of driver shm, wherever they stand."""
    if isinstance(node, list):
        return set().union(*(numbers(n, within) for n in node))
    if not isinstance(node, dict):
        return set()
    within = within or node.get("driver") == "shm"
    found = {v for k, v in node.items() if within and isinstance(v, int) and 1 < v <= 4 << 20
             and k in ("packet_max", "chunk_max", "chunk_min", "rdv_min", "rdv_eager", "short_max")}
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
    return {"worst": found[0][0], "at": found[0][1], "next": found[1:6]}

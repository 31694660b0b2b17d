# SPDX-License-Identifier: BSD-3-Clause
"""Measure the whole curve: a ping-pong of every size 2^k and 1.5 x 2^k from 1 B to 16 MiB, ours and each peer in every
round.  At each size the peer with the worst ratio counts.  A row has the worst ratio of all sizes, and its note has the
geometric mean.  Its sweep has the times of every source, which figures.html and doc/performance.md draw."""

import math
import statistics
import types

BATCHES = ["--batches", "20"]
FEWER = ["--batches", "8"]


def sizes(context=None):
    return sorted({1 << k for k in range(25)} | {3 << k for k in range(23)})


def some_sizes(context=None):
    """Return the sizes for buffers that are not in a cache."""
    return [8 << 3 * k for k in range(7)] + [16 << 20]


def options(context):
    return FEWER if context.quick else BATCHES


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def times(results, source):
    """Return {size: (best, median)} of a source, over the rounds' best batches."""
    found = {}
    for one in results:
        for size, row in (one.get(source) or {}).items():
            found.setdefault(size, []).append(row["latency_us_best"])
    return {size: (min(values), statistics.median(values)) for size, values in sorted(found.items())}


def ratios(results, ours, peer):
    """Return {size: median over the rounds of ours / peer}."""
    found = {}
    for one in results:
        mine, theirs = one.get(ours) or {}, one.get(peer) or {}
        for size in mine.keys() & theirs.keys():
            found.setdefault(size, []).append(mine[size]["latency_us_best"] / theirs[size]["latency_us_best"])
    return {size: statistics.median(values) for size, values in found.items()}


def hardest(by_peer):
    """Return {size: (ratio, peer)} for {peer: {size: ratio}}: at each size the peer with the largest ratio."""
    found = {}
    for peer, by_size in by_peer.items():
        for size, ratio in by_size.items():
            found[size] = max(found.get(size, (0, "")), (ratio, peer))
    return dict(sorted(found.items()))


def neighbours(by_size):
    """Return [(ratio to the interpolation between the neighbouring sizes, size)], the worst first."""
    order, found = sorted(by_size), []
    for low, size, high in zip(order, order[1:], order[2:]):
        between = by_size[low] + (by_size[high] - by_size[low]) * (size - low) / (high - low)
        found.append((by_size[size] / between, size))
    return sorted(found, reverse=True)


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size * 2 % unit == 0:
            return "%g %s" % (size / unit, name)
    return "%d B" % size


def judge(figure, results):
    """Judge the rounds.  Return {ours, peer, of_target, ratio_best, ratio_median, note, sweep}, or None if something is
    missing."""
    sweep = {source: times(results, source) for source in (figure.ours,) + figure.peers + figure.others}
    sweep = {source: by_size for source, by_size in sweep.items() if by_size}
    peers = [peer for peer in figure.peers if peer in sweep]
    beside = hardest({peer: ratios(results, figure.ours, peer) for peer in peers})
    if figure.ours not in sweep or not beside:
        return None
    bests = hardest({peer: {size: sweep[figure.ours][size][0] / sweep[peer][size][0]
                            for size in sweep[figure.ours].keys() & sweep[peer].keys()} for peer in peers})
    worst, at = max((ratio, size) for size, (ratio, _) in beside.items())
    mean = geometric_mean([ratio for ratio, _ in beside.values()])
    most, mean_most = figure.allowed
    return {"ours": {"best": max(ratio for ratio, _ in bests.values()), "median": worst}, "peer": beside[at][1],
            "mean": mean, "worst": worst, "at": at, "behind": [size for size, (ratio, _) in beside.items() if ratio > most],
            "of_target": max(worst / most, mean / mean_most) if mean_most else worst / most,
            "sweep": sweep, "note": note(beside, mean, most, neighbours({s: t[1] for s, t in sweep[figure.ours].items()}))}


def note(beside, mean, most, steps):
    order = sorted(beside, key=lambda size: beside[size][0], reverse=True)
    behind = sum(1 for ratio, _ in beside.values() if ratio > most)
    return "geometric mean %.2f; %d of %d sizes above %g: %s; neighbours: %.2f at %s" % (
        mean, behind, len(beside), most,
        ", ".join("%s %.2f %s" % (size_text(s), beside[s][0], beside[s][1]) for s in order[:6]),
        steps[0][0], size_text(steps[0][1]))


# Groups, as measure.py uses them.
WHOLE = types.SimpleNamespace(sizes=sizes, options=options, judge=judge)
SOME = types.SimpleNamespace(sizes=some_sizes, options=options, judge=judge)

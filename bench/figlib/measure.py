# SPDX-License-Identifier: BSD-3-Clause
"""The rounds: in each, all sources of a group run one after another, so that what the machine does in between meets
ours and the peers alike; their order turns from round to round."""

import math
import statistics
import sys
import time

from . import cliffs, curve, rows
from .context import Missing, say


# Groups whose figures are of many sizes.
SWEEPS = {"cliffs": cliffs, "curve-shm": curve.WHOLE, "curve-tcp": curve.WHOLE, "cold-shm": curve.SOME, "cold-tcp": curve.SOME}
QUICK_SECONDS = 40  # after these an impression of a group takes no further round


def wanted_sizes(context, figures, with_others):
    wanted = {}
    for f in figures:
        sweep = SWEEPS.get(f.group)
        for source in f.floors + (f.ours,) + f.peers + (f.others if with_others else ()):
            wanted.setdefault(source, set()).update(sweep.sizes(context) if sweep else [8 if source == "line" else f.size])
    return wanted


def turned(items, by):
    items = list(items)
    by %= len(items) or 1
    return items[by:] + items[:by]


def tick(text):
    """What runs now; only where somebody watches."""
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="", file=sys.stderr, flush=True)


def round_run(context, number, wanted, missing, ours):
    this = {}
    for source, sizes in turned(wanted.items(), number):
        if source in missing and source not in ours:
            continue
        tick("%s: %d sizes" % (source, len(sizes)))
        try:
            this[source] = rows.SOURCES[source](context, sizes)
        except Missing as why:
            # A peer that fails is left out from then on; a failure of ours is reported and counts.
            if source not in missing:
                say("%s is left out: %s" % (source, why))
            missing[source] = str(why) + (" (round %d)" % (number + 1) if number else "")
    tick("")
    return this


def rounds_of(group, rounds):
    most = rows.GROUPS[group][2]
    return min(rounds, most) if most else rounds


def measure(context, group, figures, rounds):
    """Give the rounds, each {source: {size: row}}, and {source: why it is missing}."""
    missing, results, start = {}, [], time.time()
    ours = {f.ours for f in figures}
    n = rounds_of(group, rounds)
    if group in SWEEPS:
        context = context.light(SWEEPS[group].options(context))
    for number in range(n):
        with_others = number < (1 if context.quick else rows.FEW)
        wanted = wanted_sizes(context, figures, with_others)
        results.append(round_run(context, number, wanted, missing, ours))
        if context.quick and time.time() - start > QUICK_SECONDS:
            say("%s: no more rounds, this machine is slow or busy" % group)
            break
        if ours <= set(missing) and not any(source in results[-1] for source in ours):
            break
        spent = time.time() - start
        say("%s: round %d of %d, %.0f s, about %.0f s to go" % (group, number + 1, n, spent,
                                                                spent / (number + 1) * (n - number - 1)))
    return results, missing


def line_note(results):
    """Where a hypervisor moves the processors, the cost of a line says how often that came between."""
    lines = [one["line"][8]["latency_us_best"] for one in results if one.get("line", {}).get(8)]
    if not lines:
        return ""
    usual = statistics.median(lines)
    moved = sum(1 for l in lines if not usual / 1.5 <= l <= usual * 1.5)
    return "cache line %.3f us in the median, %.3f to %.3f, far from the median in %d of %d rounds" % (
        usual, min(lines), max(lines), moved, len(lines))


def counts_note(figure, row):
    if figure.field == "instructions":
        return "%.0f to send, %.0f to receive; the caller's own are not counted" % (row["instructions_send"],
                                                                                   row["instructions_receive"])
    if figure.field == "locked":
        return ", ".join("%.2f in %s to %s" % (n, name, side) for side, names in row["locks"].items()
                         for name, n in names.items() if n >= 0.005)
    return ""


def note(figure, results, missing):
    said = next((row["note"] for one in results for row in (one.get(figure.ours) or {}).values() if "note" in row), "")
    row = (results[0].get(figure.ours) or {}).get(8) if results else None
    outcome = (results[0].get(figure.ours) or {}).get(0) if results else None
    if outcome and "passed" in outcome:
        return "%d passed, %d failed" % (outcome["passed"], outcome["failed"])
    if figure.group == "counts" and row:
        return counts_note(figure, row)
    if figure.name == "shm-8-line":
        return line_note(results)
    return "ours: " + missing[figure.ours] if figure.ours in missing and results else said


def sweep_row(figure, results, missing):
    """Of many sizes: what the sweep says of them in the form of a row."""
    row = rows.judge(figure._replace(allowed=None), [], missing)
    found = SWEEPS[figure.group].judge(figure, results)
    if found:
        ours = found["ours"] if found["peer"] else {"best": None, "median": None}
        row.update(found, rounds=len(results), ratio_best=ours["best"], ratio_median=ours["median"], verdict="pass" if found["of_target"] <= 1 else "FAIL")
    return row


def figure_row(context, figure, results, missing):
    if figure.group in SWEEPS:
        row = sweep_row(figure, results, missing)
    else:
        row = rows.judge(figure, results, missing)
        row["note"] = note(figure, results, missing)
    # Ours that failed in one round may not pass for the others.
    if figure.ours in missing and row["verdict"] == "pass":
        row["verdict"] = "FAIL"
    functions = next((r[8]["functions"] for one in results for s, r in one.items()
                      if s == figure.ours and 8 in r and "functions" in r[8]), None)
    if figure.field == "instructions" and functions:
        row["functions"] = functions
    return row


def estimate(figures, rounds, quick=False):
    """Seconds where this was written, with the distribution's peers."""
    seconds = 0
    for group in {f.group for f in figures}:
        one, n = rows.GROUPS[group][1], rounds_of(group, rounds)
        seconds += one * (min(n, math.ceil(QUICK_SECONDS / one)) if quick else n)
    return seconds


def all_rows(context, figures, rounds):
    """Measure group by group; a generator, so that what was measured is never lost."""
    for group in rows.GROUPS:
        mine = [f for f in figures if f.group == group]
        if not mine:
            continue
        try:
            results, missing = measure(context, group, mine, rounds)
        except Missing as why:
            results, missing = [], {f.ours: str(why) for f in mine}
        for figure in mine:
            yield figure_row(context, figure, results, missing)

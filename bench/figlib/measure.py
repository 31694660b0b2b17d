# SPDX-License-Identifier: BSD-3-Clause
"""Run the rounds.  In each round all sources of a group run one after another, so that disturbances by the machine
affect ours and the peers alike.  The order of the sources rotates from round to round."""

import math
import sys
import time

from . import cliffs, curve, phase, rows
from .context import Missing, say


# Groups whose figures have many sizes.
SWEEPS = {"cliffs": cliffs, "curve-shm": curve.WHOLE, "curve-tcp": curve.WHOLE, "cold-shm": curve.SOME, "cold-tcp": curve.SOME}
QUICK_SECONDS = 40  # seconds after which a quick run begins no further round of a group


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
    """Show what runs now, if standard error is a terminal."""
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="", file=sys.stderr, flush=True)


def round_run(context, group, number, wanted, missing, ours):
    """Run one round, and return {source: {size: row}}.  In groups that depend on the machine's phase, the sources take
    turns, with a few sizes at a time."""
    this, how = {}, phase.measure if group in phase.GROUPS else lambda at, source, sizes: source(at, sizes)
    sizes_all = sorted(set().union(*wanted.values()))
    for part in phase.parts(sizes_all) if group in SWEEPS else [sizes_all]:
        for source, sizes in turned(wanted.items(), number):
            sizes = set(sizes) & set(part)
            if not sizes or source in missing and source not in ours:
                continue
            tick("%s: %d sizes" % (source, len(sizes)))
            try:
                this.setdefault(source, {}).update(how(context, rows.SOURCES[source], sizes))
            except Missing as why:
                # A peer that fails is left out from then on; a failure of ours is reported, and counts.
                if source not in missing:
                    say("%s is left out: %s" % (source, why))
                missing[source] = str(why) + (" (round %d)" % (number + 1) if number else "")
    tick("")
    return this


def rounds_of(group, rounds):
    most = rows.GROUPS[group][2]
    return min(rounds, most) if most else rounds


def pairs_of(context, figures, missing):
    """Return {(ours, other): sizes} of the pairs that the figures compare."""
    sizes = wanted_sizes(context, figures, False)
    return {(f.ours, other): sizes[f.ours] & sizes[other] for f in figures for other in f.peers + f.floors
            if other not in missing}


def measure(context, group, figures, rounds):
    """Measure a group.  Return the rounds, each as {source: {size: row}}; {source: why it is missing}; and a note about
    the machine's phases."""
    missing, results, start = {}, [], time.time()
    ours = {f.ours for f in figures}
    n = rounds_of(group, rounds)
    if group in SWEEPS:
        context = context.light(SWEEPS[group].options(context))
    for number in range(n):
        with_others = number < (1 if context.quick else rows.FEW)
        wanted = wanted_sizes(context, figures, with_others)
        results.append(round_run(context, group, number, wanted, missing, ours))
        if context.quick and time.time() - start > QUICK_SECONDS:
            say("%s: no more rounds, this machine is slow or busy" % group)
            break
        if ours <= set(missing) and not any(source in results[-1] for source in ours):
            break
        spent = time.time() - start
        say("%s: round %d of %d, %.0f s, about %.0f s to go" % (group, number + 1, n, spent,
                                                                spent / (number + 1) * (n - number - 1)))
    return phases_part(context, group, figures, results, missing, 0 if context.quick else n)


def phases_part(context, group, figures, results, missing, rounds):
    """Keep the rows of one phase.  Pairs that were measured in other phases only get up to `rounds` further rounds before.
    Return what measure returns."""
    if group not in phase.GROUPS:
        return results, missing, ""
    ours = {f.ours for f in figures}
    for number in range(rounds + 1):
        wanted = phase.lacking(results, pairs_of(context, figures, missing))
        if not wanted or number == rounds:
            break
        say("%s: once more what was measured in other phases only: %s" % (group, ", ".join(sorted(wanted))))
        results.append(round_run(context, group, len(results), wanted, missing, ours))
    if wanted and (group not in SWEEPS or not rounds):
        return results, missing, "the phase of the machine changed too often: programs of several phases are compared"
    kept, of_phase = phase.keep(results)
    return kept, missing, of_phase


def counts_note(figure, row):
    if figure.field == "instructions":
        return "%.0f instructions to send, %.0f to receive; those of the caller are not counted" % (row["instructions_send"],
                                                                                   row["instructions_receive"])
    if figure.field == "locked":
        return ", ".join("%.2f locked instructions in %s to %s" % (n, name, side) for side, names in row["locks"].items()
                         for name, n in names.items() if n >= 0.005)
    return ""


def note(figure, results, missing, of_phase):
    said = next((row["note"] for one in results for row in (one.get(figure.ours) or {}).values() if "note" in row), "")
    row = (results[0].get(figure.ours) or {}).get(8) if results else None
    outcome = (results[0].get(figure.ours) or {}).get(0) if results else None
    if outcome and "passed" in outcome:
        return "%d tests passed, %d failed" % (outcome["passed"], outcome["failed"])
    if figure.group == "counts" and row:
        return counts_note(figure, row)
    if figure.name == "shm-8-line":
        return of_phase
    return "ours: " + missing[figure.ours] if figure.ours in missing and results else said


def sweep_row(figure, results, missing, of_phase):
    """Return the row of a figure with many sizes, from the judgement of its sweep."""
    row = rows.judge(figure._replace(allowed=None), [], missing)
    found = SWEEPS[figure.group].judge(figure, results)
    if found:
        ours = found["ours"] if found["peer"] else {"best": None, "median": None}
        row.update(found, rounds=len(results), ratio_best=ours["best"], ratio_median=ours["median"],
                   verdict="pass" if found["of_target"] <= 1 else "FAIL",
                   note="; ".join(filter(None, (found["note"], of_phase))))
    return row


def figure_row(figure, results, missing, of_phase):
    if figure.group in SWEEPS:
        row = sweep_row(figure, results, missing, of_phase)
    else:
        row = rows.judge(figure, results, missing)
        row["note"] = note(figure, results, missing, of_phase)
    # A figure of ours that failed in one round must not pass because of the other rounds.
    if figure.ours in missing and row["verdict"] == "pass":
        row["verdict"] = "FAIL"
    functions = next((r[8]["functions"] for one in results for s, r in one.items()
                      if s == figure.ours and 8 in r and "functions" in r[8]), None)
    if figure.field == "instructions" and functions:
        row["functions"] = functions
    return row


def estimate(figures, rounds, quick=False):
    """Return the seconds that the measurement takes on the developers' machine, with the distribution's peers."""
    seconds = 0
    for group in {f.group for f in figures}:
        one, n = rows.GROUPS[group][1], rounds_of(group, rounds)
        seconds += one * (min(n, math.ceil(QUICK_SECONDS / one)) if quick else n)
    return seconds


def all_rows(context, figures, rounds):
    """Measure group by group.  This is a generator, so that no measured row is lost if a later group fails."""
    for group in rows.GROUPS:
        mine = [f for f in figures if f.group == group]
        if not mine:
            continue
        try:
            results, missing, of_phase = measure(context, group, mine, rounds)
        except Missing as why:
            results, missing, of_phase = [], {f.ours: str(why) for f in mine}, ""
        for figure in mine:
            yield figure_row(figure, results, missing, of_phase)

# SPDX-License-Identifier: BSD-3-Clause
"""The phase of the machine in which a program measured.

A hypervisor moves its virtual processors: the time of one cache line between two cores may change several times from one
second to the next, and with it the time of every small message.  So the line is measured before and after each program,
and only programs of one phase are compared."""

from .context import Missing, run_rows

# Groups whose programs exchange messages between two cores, and are short enough to fall into one phase.
GROUPS = ("shm-small", "shm-large", "tcp", "mpi-rate", "curve-shm", "curve-tcp", "cold-shm", "cold-tcp", "rate-shm", "rate-tcp",
          "cliffs")
SAME = 1.3  # two lines that differ by no more than this factor are of one phase
PROBE = ["--iters", "1000", "--batches", "9", "--json"]  # about 10 ms
PART = 6    # sizes that a program measures at a time, so that it ends before the phase does
TRIES = 3   # of a program during which the phase changed


def line(context):
    """Time of a cache line from one core to the other, us; None where it cannot be measured."""
    try:
        return run_rows([context.program("raw_line"), "--cpus", context.cpus] + PROBE)[8]["latency_us_median"]
    except (Missing, KeyError):
        return None


def same(a, b):
    return a is not None and b is not None and max(a, b) <= SAME * min(a, b)


def parts(sizes):
    """Sizes in groups of neighbours."""
    order = sorted(sizes)
    return [order[i:i + PART] for i in range(0, len(order), PART)]


def measure(context, measure_sizes, sizes):
    """Rows of one program, each with the line of its phase.  A program during which the phase changed runs again; when it
    changes each time, the last rows are kept, with no line."""
    before, found = line(context), None
    for _ in range(TRIES):
        rows = measure_sizes(context, sizes)
        after = line(context)
        if before is None or same(before, after):
            found = before
            break
        before = after
    return {size: dict(row, line_us=found) for size, row in rows.items()}


def lines(results):
    return [row["line_us"] for one in results for by_size in one.values() for row in by_size.values() if "line_us" in row]


def usual(found):
    """The line that most of these are like; None if none was measured."""
    known = [l for l in found if l is not None]
    return max(known, key=lambda c: (sum(same(c, l) for l in known), -c), default=None)


def keep(results):
    """(the rounds with the rows of the most frequent phase only, what to say of it)"""
    found = lines(results)
    centre = usual(found)
    if centre is None:
        return results, ""
    kept = [{source: {size: row for size, row in by_size.items() if "line_us" not in row or same(row["line_us"], centre)}
             for source, by_size in one.items()} for one in results]
    share = sum(same(l, centre) for l in found) / len(found)
    others = [l for l in found if l is not None and not same(l, centre)]
    text = "cache line %.3f us during %.0f %% of the measurements" % (centre, 100 * share)
    if share < 1:
        text += "; the others (%s) are left out" % ("%.3f to %.3f" % (min(others), max(others)) if others else "it changed")
    return kept, text


def lacking(results, pairs):
    """{source: sizes} to measure once more: those of pairs that no round measured both in the most frequent phase.
    pairs: {(ours, peer): sizes}."""
    kept, _ = keep(results)
    wanted = {}
    for pair, sizes in pairs.items():
        missing = {s for s in sizes if not any(all(s in (one.get(source) or {}) for source in pair) for one in kept)}
        for source in pair if missing else ():
            wanted.setdefault(source, set()).update(missing)
    return wanted

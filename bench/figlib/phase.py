# SPDX-License-Identifier: BSD-3-Clause
"""Compare only programs that ran in the same phase of the machine.

A hypervisor moves its virtual processors: the time of one cache line between two cores may change several times from one
second to the next, and with it the time of every small message.  So this time is measured before and after each program.
Programs with about the same time ran in the same phase, and only these are compared."""

from .context import Missing, run_rows

# Groups whose programs exchange messages between two cores, and are short enough to end within one phase.
GROUPS = ("shm-small", "shm-large", "tcp", "mpi-rate", "curve-shm", "curve-tcp", "cold-shm", "cold-tcp", "rate-shm", "rate-tcp",
          "cliffs")
SAME = 1.3  # two times of a line that differ by at most this factor belong to one phase
PROBE = ["--iters", "1000", "--batches", "9", "--json"]  # about 10 ms
PART = 6    # sizes that a program measures at a time, so that it ends before the phase does
TRIES = 3  # runs of a program whose phase keeps changing


def line(context):
    """Measure the time of a cache line from one core to the other, in us; None if it cannot be measured."""
    try:
        return run_rows([context.program("raw_line"), "--cpus", context.cpus] + PROBE)[8]["latency_us_median"]
    except (Missing, KeyError):
        return None


def same(a, b):
    """True if two times of a line belong to one phase; False if one of them was not measured."""
    return a is not None and b is not None and max(a, b) <= SAME * min(a, b)


def parts(sizes):
    """Return the sizes in groups of neighbours."""
    order = sorted(sizes)
    return [order[i:i + PART] for i in range(0, len(order), PART)]


def measure(context, measure_sizes, sizes):
    """Return the rows of one program, each with the time of a line in its phase.  A program during which the phase
    changed runs again; if it changes each time, the last rows are kept, with None as their time."""
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
    """Return the time of a line of each row that has one."""
    return [row["line_us"] for one in results for by_size in one.values() for row in by_size.values() if "line_us" in row]


def usual(found):
    """Return the time to which most of the found times are close; None if none was measured."""
    known = [l for l in found if l is not None]
    return max(known, key=lambda c: (sum(same(c, l) for l in known), -c), default=None)


def keep(results):
    """Keep the rows of the most frequent phase.  Return (the rounds with these rows only, a note about the rows that are
    left out)."""
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
    """Return {source: sizes} to measure again: sizes that no round measured for both of a pair in the most frequent
    phase.  pairs: {(ours, peer): sizes}."""
    kept, _ = keep(results)
    wanted = {}
    for pair, sizes in pairs.items():
        missing = {s for s in sizes if not any(all(s in (one.get(source) or {}) for source in pair) for one in kept)}
        for source in pair if missing else ():
            wanted.setdefault(source, set()).update(missing)
    return wanted

# SPDX-License-Identifier: BSD-3-Clause
"""Write the documents that are made from a run: the table of all rows (figures.md), the generated parts of the page for
users (performance.md, between `<!-- made: NAME -->` and `<!-- end -->`), and the plots of that page.  Nothing is
measured here."""

import contextlib
import io
import os
import re

from . import curve, report, svg

PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.S)
FAMILIES = (("Open MPI", "openmpi-"), ("UCX", "ucx-"), ("libfabric", "libfabric-"), ("raw sockets", "raw-"))
CURVES = (("curve-shm", "shm", "shared memory"), ("curve-tcp", "tcp", "TCP on loopback"))
SHOWN = (8, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
RATES = ("rate-shm-blocking", "rate-shm-request", "rate-shm-posted", "rate-shm-both", "mpi-rate-shm-posted",
         "mpi-pml-rate-shm-posted", "mpi-ofi-rate-shm-posted")
IMAGES = "![One way through {words}](plots/latency-{short}.svg)\n\n" \
         "![Time through {words}, ours to the others'](plots/ratio-{short}.svg)\n\n"
MORE = ("shm-8-line", "shm-64K", "shm-1M", "tcp-1M", "mpi-shm-8", "mpi-pml-shm-8", "mpi-ofi-shm-8", "mpi-tcp-8", "ring",
        "tcp-wait", "instructions", "marcel-yield", "marcel-create", "marcel-handoff", "marcel-directed", "marcel-memory")


# ---- Text of a row ----------------------------------------------------------------------------------------------------------

def sweep(row):
    """Return {source: {size: (best, median)}}.  A row that was read from a file has its sizes as text."""
    return {source: {int(size): tuple(times) for size, times in by_size.items()} for source, by_size in row["sweep"].items()}


def family_best(by_source, start, at=1):
    """Return {size: (us, source)}: at each size the fastest source of a family; at: 0 best, 1 median of the rounds."""
    found = {}
    for source, by_size in by_source.items():
        if source.startswith(start):
            for size, times in by_size.items():
                found[size] = min(found.get(size, (times[at], source)), (times[at], source))
    return dict(sorted(found.items()))


def families(row):
    """Return [(name, {size: (us, source)})] of the families that were measured, ours first."""
    by_source = sweep(row)
    found = [(name, family_best(by_source, start)) for name, start in (("Madeleine", "ours-"),) + FAMILIES]
    return [(name, by_size) for name, by_size in found if by_size]


# ---- Plots ------------------------------------------------------------------------------------------------------------------

def plots(results):
    """Return {file name: SVG text}."""
    drawn = {}
    for row in results:
        for figure, short, words in CURVES:
            if row["figure"] != figure or not row.get("sweep"):
                continue
            found = families(row)
            ours = found[0][1]
            drawn["latency-%s.svg" % short] = svg.chart(
                "One way through %s" % words, "microseconds", [(name, [(size, us) for size, (us, _) in by_size.items()])
                                                              for name, by_size in found])
            drawn["ratio-%s.svg" % short] = svg.chart(
                "Madeleine's time through %s, in times of each other's" % words, "below 1 Madeleine is quicker",
                [("of " + name, [(size, ours[size][0] / us) for size, (us, _) in by_size.items() if size in ours])
                 for name, by_size in found[1:]], log=False, mark=1.0, most=2.0, first=1)
    return drawn


# ---- Parts of the page ------------------------------------------------------------------------------------------------------

def table(head, lines):
    return "\n".join("| %s |" % " | ".join(cells) for cells in [head, ["---"] * len(head)] + lines) + "\n"


def curve_words(row):
    """Return one sentence about a curve; the ratios are those of the row."""
    sizes = len(families(row)[0][1])
    return "At %d of %d sizes a message takes longer than over the best peer of that size. The worst is %s: %.2f x %s. The " \
           "geometric mean of all is %.2f x.\n" % (len(row["behind"]), sizes, curve.size_text(row["at"]), row["ours"]["median"],
                                                  row["peer"], row["mean"])


def curve_part(row, short, words):
    """Return the part of the page for a network: medians of the rounds; of each library the build that was fastest at
    that size."""
    found = families(row)
    lines = []
    for size in SHOWN:
        times = [by_size[size][0] if size in by_size else None for _, by_size in found]
        least = min((t for t, (name, _) in zip(times, found) if t and not name.startswith("raw")), default=None)
        if least:
            lines.append([curve.size_text(size)] + [time_text(t, least) for t in times])
    head = ["size"] + [name + ", us" for name, _ in found]
    return IMAGES.format(short=short, words=words) + curve_words(row) + "\n" + table(head, lines)


def time_text(time, least):
    """Return the time as text; the shortest time of a row is bold."""
    return "**%s**" % report.number(time) if time == least else report.number(time)


NOT_MEASURED = "Not measured: no run of this page has these figures.\n"


def rows_part(results, names):
    by_name = {row["figure"]: row for row in results}
    lines = [[row["what"], "%s %s" % (report.pair(row["ours"]), row["unit"]),
              "%s %s" % (report.pair(row["peer_value"]), row["peer"]) if row["peer_value"] else "-",
              report.number(row["ratio_median"])]
             for row in (by_name[name] for name in names if name in by_name) if row["ours"]]
    return table(["what", "Madeleine", "best peer", "ratio"], lines) if lines else NOT_MEASURED


def run_part(results):
    lines = []
    for facts, figures in report.runs_of(results):
        named = ", ".join(figures) if len(figures) < 6 else "%s and %d others" % (", ".join(figures[:3]), len(figures) - 3)
        lines.append("- %s: %s" % (named, "; ".join(report.run_lines(facts, ("run",)))))
    first = report.runs_of(results)[0][0]
    return "\n".join(lines + ["- " + line for line in report.run_lines(first, ("machine", "versions"))]) + "\n"


def verdict_part(results):
    failed = [row["figure"] for row in results if row["verdict"] == "FAIL"]
    passed = sum(row["verdict"] == "pass" for row in results)
    return "%d figures meet their targets, %d do not%s.\n" % (passed, len(failed), ": " + "; ".join(failed) if failed else "")


def parts(results):
    by_name = {row["figure"]: row for row in results}
    found = {"run": run_part(results), "rates": rows_part(results, RATES), "more": rows_part(results, MORE),
             "verdict": verdict_part(results)}
    for figure, short, words in CURVES:
        row = by_name.get(figure)
        found["curve_" + short] = curve_part(row, short, words) if row and row.get("sweep") else NOT_MEASURED
    return found


def page_fill(text, made):
    """Return the page with its generated parts written anew; parts for which nothing was made stay unchanged."""
    return PART.sub(lambda m: m.group(1) + made[m.group(2)] + m.group(3) if m.group(2) in made else m.group(0), text)


# ---- Files ------------------------------------------------------------------------------------------------------------------

def file_write(path, text):
    with open(path, "w") as file:
        file.write(text)


def path_of(folder):
    return os.path.join(folder, "performance.md")


def document_write(folder, results):
    """Write figures.md, performance.md and the plots into the folder, where performance.md must already exist."""
    with open(path_of(folder)) as file:
        text = file.read()
    with contextlib.redirect_stdout(io.StringIO()) as rows:
        report.print_markdown(results)
    file_write(os.path.join(folder, "figures.md"), rows.getvalue())
    file_write(path_of(folder), page_fill(text, parts(results)))
    os.makedirs(os.path.join(folder, "plots"), exist_ok=True)
    for name, image in plots(results).items():
        file_write(os.path.join(folder, "plots", name), image)

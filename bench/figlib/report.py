# SPDX-License-Identifier: BSD-3-Clause
"""Print the results as a table, as JSON, as the document, and as a web page."""

import html
import re

from . import rows


HEAD = ["figure", "target", "ours", "peer", "ratio best", "ratio median", "raw", "of target", "rounds", "verdict"]


def number(x):
    if x is None:
        return "-"
    return "%d" % x if x == int(x) and abs(x) >= 10 else "%.3f" % x if abs(x) < 100 else "%.0f" % x


def pair(values):
    """Return best and median of the rounds as text."""
    return "-" if not values else number(values["best"]) if values["best"] == values["median"] else \
        "%s (%s)" % (number(values["best"]), number(values["median"]))


def verdict_text(row):
    """Return the verdict as text; for a figure that was not measured, with the reason: the first missing source, ours
    first."""
    why = next(iter(row["missing"].values()), "")
    return row["verdict"] + (": " + why if why and row["verdict"] == "not measured" else "")


def cells(row):
    peer = " ".join([pair(row["peer_value"])] * bool(row["peer_value"]) + [row["peer"]]) if row["peer"] else "-"
    raw = ", ".join("%s %s" % (f, pair(row["others"][f])) for f in row["floors"] if f in row["others"]) or "-"
    return [row["figure"], row["target"], "%s %s" % (pair(row["ours"]), row["unit"]), peer, number(row["ratio_best"]),
            number(row["ratio_median"]), raw, number(row["of_target"]), str(row["rounds"]), verdict_text(row)]


def notes(results):
    found = []
    for row in results:
        if row["note"]:
            found.append("%s: %s" % (row["figure"], row["note"]))
    missing = {}
    for row in results:
        for source, why in row["missing"].items():
            missing.setdefault("%s was left out: %s" % (source, why), None)
    return found + list(missing)


LEGEND = ("ours and peer: the best (median) of the rounds; ratio best, ratio median: ours / the peer that is hardest to "
          "beat, of the bests, and as the median of the rounds' own ratios; of target: ours / what is allowed (for MB/s "
          "the inverse), as the median of the rounds; a figure passes if that is at most 1")


def runs_of(results):
    """Return [(facts, figures)]: the runs from which the rows come; normally there is one."""
    found = []
    for row in results:
        facts = {"run": row["run"], "machine": row["machine"], "versions": row["versions"]}
        for other, figures in found:
            if other == facts:
                figures.append(row["figure"])
                break
        else:
            found.append((facts, [row["figure"]]))
    return found


def command_text(text):
    """Return a command as code; if it names many figures, without the last ones."""
    words = str(text).split()
    return "`%s`" % " ".join(words if len(words) <= 20 else words[:18] + ["..."])


def run_lines(facts, kinds=("run", "machine", "versions")):
    return ["%s: %s" % (name, command_text(text) if name == "command" else text) for kind in kinds
            for name, text in facts[kind].items()]


def groups_shorten(names):
    """Shorten a list of names: a group all of whose figures are in the list is named instead of them."""
    groups = {}
    for figure in rows.FIGURES:
        groups.setdefault(figure.group, []).append(figure.name)
    found = []
    for group, members in groups.items():
        missing = [name for name in members if name in names]
        found += ["all of " + group] if missing == members and len(members) > 1 else missing
    return found


def verdict(results):
    """Return a text with the number of figures that pass, and the names of those that do not."""
    by = {row["figure"]: row["verdict"] for row in results}
    named = {"pass": [], "FAIL": [], "not measured": [], "no target": []}
    for figure in rows.FIGURES:
        named.setdefault(by.get(figure.name, "not measured"), []).append(figure.name)
    named["not measured"] = groups_shorten(named["not measured"])
    text = "%d of %d figures pass" % (len(named["pass"]), len(rows.FIGURES) - len(named["no target"]))
    for what, key in (("Figures that failed", "FAIL"), ("Figures not measured", "not measured"),
                      ("Figures without a target", "no target")):
        text += ". %s: %s" % (what, "; ".join(named[key])) if named[key] else ""
    return text + "."


def print_table(results):
    table = [HEAD] + [cells(r) for r in results]
    widths = [max(len(r[i]) for r in table) for i in range(len(HEAD))]
    for line in table:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip())
    print("\n" + LEGEND)
    for line in notes(results):
        print("- " + line)
    for facts, figures in runs_of(results):
        print("\n" + ", ".join(figures))
        for line in run_lines(facts):
            print("- " + line)


# ---- The document ------------------------------------------------------------------------------------------------------

INTRODUCTION = """<!-- Made by `make figures` (bench/figures --document): do not edit. -->
# Figures

For developers: every figure that the project promises, beside its target. Users begin with [performance](performance.md).
`bench/figures NAME` measures a figure, `bench/figures --list` lists them.

How it is measured:

- The values *ours* are those of `madrun -n 2 --bind core mad_perf pingpong` in the default configuration: all drivers open,
  thread-safe, with the progress thread. Messages are one block, `CHEAPER`/`CHEAPER`. A latency is one way: half a round
  trip.
- Peers run the same ping-pong (`bench/raw`), written as their manuals recommend, with the same buffers from malloc, the same
  batches and the same statistics, bound to the same two processors. The program NetPIPE is not ours.
- A measurement has at least 60 batches. A batch has at least 500 round trips up to 4 KiB, 100 up to 64 KiB, 20 up to 1 MiB,
  and 8 above. *Best* is the best batch. Payload is checked in an untimed pass.
- A curve is the ping-pong of 48 sizes. At each size the peer that is hardest to beat counts, by the median of the rounds'
  ratios; the figure is the worst of all sizes. Rates are windows of 64 messages, in each form of sending and receiving.
- A peer in a prefix (`--peer NAME=PREFIX`) is called `NAME@VERSION`; how each build was made is listed at the end.
- The MPI programs are `peer_mpi` (`bench/raw`) and `mpi_perf` (`bench/mpi`). The same programs run over our plug-ins and over
  the MPI library's own transports: Open MPI with `btl mad,self` (names `mpi-`), with `mtl ofi` and our provider (`mpi-ofi-`),
  and with `btl vader,self` or `tcp,self`. For `overlap` the worst value counts: of send and receive, and of computing for 1,
  1.5 and 2 times the message. A value with more processes than cores is the median of the batches; every other value is the
  best batch.
- In each round all compared programs run one after another, in an order that changes with the round. The verdict is the
  median of the rounds' own ratios, so a machine that changes its speed between rounds does not decide. Each peer is judged
  over all rounds, and the peer that is hardest to beat counts. (The quickest peer of each round would be the one with luck
  in that round.) Counts and whole tests take one round, since their result does not change.
- Where a hypervisor moves the processors, the time of a cache line between the two cores changes, and with it the time of
  every small message. So that time is measured before and after each program of the groups in `figlib/phase.py`, and only
  programs of the most frequent phase are compared.
- `cache line` is the time in which a line passes from one core to another. `copy` is the fastest method of copying between
  two processes that `bench/raw/raw_copy.c` finds in that run. `raw-tcp` is two processes that spin on non-blocking sockets.
- Instructions are counted by callgrind between begin and end of packing, and between begin and end of unpacking of a message
  that has arrived. Locked instructions and system calls are those that were executed in between, found in the disassembly.
"""


def print_runs(results):
    """Print which run, or which runs, these results are from."""
    runs = runs_of(results)
    print("## This run\n\n" + verdict(results) + "\n")
    if len(runs) == 1:
        print("All figures are of one run; the programs that are compared ran in turn, round by round.\n")
        for line in run_lines(runs[0][0], ("run",)):
            print("- " + line)
    else:
        print("The figures are of %d runs; in each run, the programs that are compared ran in turn, round by round.\n" %
              len(runs))
        for facts, figures in runs:
            print("- %s: %s" % ("; ".join(groups_shorten(figures)), "; ".join(run_lines(facts, ("run",)))))


def print_figures(title, words, mine):
    print("\n### %s\n" % title + ("\n%s\n" % words if words else ""))
    if not mine:
        print("Not measured.")
        return
    print("| what | " + " | ".join(HEAD) + " |\n|---|" + "---|" * len(HEAD))
    for row in mine:
        print("| " + " | ".join([row["what"]] + cells(row)) + " |")


def print_markdown(results):
    print(INTRODUCTION)
    print_runs(results)
    print("\n## Figures\n\n" + LEGEND[0].upper() + LEGEND[1:] + ".")
    promised = set()
    for title, words, groups in rows.PROMISES:
        promised.update(groups)
        print_figures(title, words, [row for row in results if row["group"] in groups])
    further = [row for row in results if row["group"] not in promised]
    if further:
        print_figures("Further figures", "", further)
    print("\n### Notes\n")
    for line in notes(results):
        print("- " + line)
    print_sources(results)
    print_functions(results)
    print("\n## Machine and versions")
    runs = runs_of(results)
    for facts, figures in runs:
        print("" if len(runs) == 1 else "\n%s:\n" % "; ".join(groups_shorten(figures)))
        for line in run_lines(facts, ("machine", "versions")):
            print("- " + line)


def print_sources(results):
    """Print all sources that were measured with ours, one line for each figure."""
    print("\n## Everything that was measured beside\n\nThe table has the best (median) over the rounds, one way.\n")
    print("| figure | unit | ours | beside |\n|---|---|---|---|")
    for row in results:
        if row["others"]:
            beside = ", ".join("%s %s" % (s, pair(v)) for s, v in row["others"].items())
            print("| %s | %s | %s | %s |" % (row["figure"], row["unit"], pair(row["ours"]), beside))


def print_functions(results):
    for row in results:
        if not row.get("functions"):
            continue
        print("\n## Instructions by function: %s\n\n| to send | | to receive | |\n|---|---|---|---|" % row["what"])
        send, receive = (list(row["functions"][side].items()) for side in ("send", "receive"))
        for i in range(max(len(send), len(receive))):
            line = [("`%s`" % side[i][0], "%.1f" % side[i][1]) if i < len(side) and side[i][1] >= 0.05 else ("", "")
                    for side in (send, receive)]
            if any(line[s][0] for s in (0, 1)):
                print("| %s | %s | %s | %s |" % (line[0] + line[1]))


# ---- The page ----------------------------------------------------------------------------------------------------------

STYLE = ("body{font:15px/1.4 sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#222}"
         "table{border-collapse:collapse}td,th{padding:.25em .7em;text-align:left;border-bottom:1px solid #ccc}"
         ".FAIL{color:#b00;font-weight:bold}.pass{color:#070}figure{margin:2em 0}svg{max-width:100%;height:auto}")


def page_write(path, results, images):
    """Write a self-contained web page: the table, and the SVG images."""
    body = ["<!doctype html><html lang=en><meta charset=utf-8><title>Madeleine: figures</title><style>%s</style>" % STYLE,
            "<h1>Madeleine: figures</h1>"]
    if results:
        body.append("<table><tr>" + "".join("<th>%s</th>" % h for h in HEAD) + "</tr>")
        for row in results:
            body.append("<tr>" + "".join("<td class=%s>%s</td>" % (row["verdict"].split()[0], html.escape(c))
                                         for c in cells(row)) + "</tr>")
        body.append("</table><p>" + html.escape(LEGEND) + "</p><ul>")
        body += ["<li>%s</li>" % html.escape(line) for line in notes(results)] + ["</ul>"]
    for n, (title, image) in enumerate(images):
        # Names inside an SVG are local to its file; in one page they must differ.
        image = re.sub(r'(id=["\']|url\(["\']?#|href=["\']#)', lambda m: m.group(1) + "p%d_" % n,
                       image[image.index("<svg"):])
        body.append("<figure><figcaption>%s</figcaption>%s</figure>" % (html.escape(title), image))
    for facts, figures in runs_of(results):
        body.append("<h2>%s</h2><ul>" % html.escape(", ".join(figures)))
        body += ["<li>%s</li>" % html.escape(line) for line in run_lines(facts)] + ["</ul>"]
    body.append("</html>")
    with open(path, "w") as file:
        file.write("\n".join(body))

# SPDX-License-Identifier: BSD-3-Clause
"""Test the computations of bench/figures on given numbers and texts: python3 figures_unit.py (figures_test.sh runs
it)."""

import json
import os
import sys
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench"))
from figlib import cliffs, curve, machine, measure, page, peers, phase, rates, report, rows, svg  # noqa: E402
from figlib.figure import Figure, times  # noqa: E402

UCX_CHECKED = """#define ENABLE_ASSERT             1
#define ENABLE_MT                 1
#define ENABLE_PARAMS_CHECK       1
# Version 1.13.1
# Git branch '<unknown>', revision 0000000
# Configured with: --prefix=/usr --enable-mt --disable-logging
"""
UCX_RELEASE = """#define ENABLE_DEBUG_DATA         0
#define ENABLE_PARAMS_CHECK       0
# Library version: 1.23.0
# Library path: /opt/ucx/lib/libucs.so.0
# Configured with: --disable-logging --disable-debug --disable-assertions --disable-params-check
"""


def one_round(**sources):
    """{source: {size: row}} of {source: {size: us}}"""
    return {source: {size: {"latency_us_best": us} for size, us in by_size.items()} for source, by_size in sources.items()}


ROUNDS = [one_round(ours={8: 1, 12: 2, 16: 3}, a={8: 2, 12: 2, 16: 6}, b={8: 4, 12: 1.6}),
          one_round(ours={8: 3, 12: 4, 16: 3}, a={8: 2, 12: 4, 16: 6}, b={8: 4, 12: 3.2}),
          one_round(ours={8: 2, 12: 2, 16: 3}, a={8: 4, 12: 2, 16: 6})]


def figure(allowed, group="curve-shm"):
    return Figure("name", "words", group, "ours", 0, None, "x", ("a", "b"), (), (), "target", allowed)


class Curve(unittest.TestCase):
    def test_sizes(self):
        sizes = curve.sizes()
        self.assertEqual(sizes[:9], [1, 2, 3, 4, 6, 8, 12, 16, 24])
        self.assertEqual((sizes[-2:], len(sizes)), ([12 << 20, 16 << 20], 48))

    def test_mean(self):
        self.assertAlmostEqual(curve.geometric_mean([0.5, 2]), 1)
        self.assertAlmostEqual(curve.geometric_mean([1, 1, 8]), 2)

    def test_times_are_best_and_median_of_the_rounds(self):
        self.assertEqual(curve.times(ROUNDS, "ours"), {8: (1, 2), 12: (2, 2), 16: (3, 3)})
        self.assertEqual(curve.times(ROUNDS, "nobody"), {})

    def test_ratios_are_medians_of_the_rounds(self):
        self.assertEqual(curve.ratios(ROUNDS, "ours", "a"), {8: 0.5, 12: 1, 16: 0.5})
        self.assertEqual(curve.ratios(ROUNDS, "ours", "b"), {8: 0.5, 12: 1.25})

    def test_at_each_size_the_best_peer_counts(self):
        self.assertEqual(curve.hardest({"a": {8: 0.6, 12: 1}, "b": {8: 0.5, 12: 1.25}}), {8: (0.6, "a"), 12: (1.25, "b")})

    def test_neighbours(self):
        self.assertEqual(curve.neighbours({1: 1, 2: 2, 3: 3}), [(1, 2)])
        self.assertEqual(curve.neighbours({1: 1, 2: 4, 3: 3, 5: 5}), [(2, 2), (3 / (4 + 1 / 3), 3)])
        self.assertEqual(curve.neighbours({1: 1, 2: 2}), [])

    def test_judge(self):
        found = curve.judge(figure((1.0, 0.9)), ROUNDS)
        self.assertEqual((found["ours"]["median"], found["at"], found["peer"], found["behind"]), (1.25, 12, "b", [12]))
        self.assertAlmostEqual(found["mean"], (0.5 * 1.25 * 0.5) ** (1 / 3))
        self.assertEqual(found["of_target"], 1.25)
        self.assertIn("1 of 3 sizes above 1: 12 B 1.25 b", found["note"])
        self.assertIsNone(curve.judge(figure((1.0, None)), [one_round(ours={8: 1})]))

    def test_the_mean_has_a_target_too(self):
        found = curve.judge(figure((1.25, 0.5)), ROUNDS)
        self.assertAlmostEqual(found["of_target"], found["mean"] / 0.5)

    def test_row(self):
        row = measure.figure_row(figure((1.0, None)), ROUNDS, {}, "one phase")
        self.assertEqual((row["verdict"], row["rounds"], row["ratio_median"]), ("FAIL", 3, 1.25))
        self.assertTrue(row["note"].endswith("; one phase"), row["note"])
        row = measure.figure_row(figure((1.3, None)), ROUNDS, {"ours": "why"}, "")
        self.assertEqual(row["verdict"], "FAIL")
        row = measure.figure_row(figure((1.0, None)), [], {"ours": "why"}, "")
        self.assertEqual((row["verdict"], row["missing"]), ("not measured", {"ours": "why"}))

    def test_cliffs(self):
        found = cliffs.judge(figure(1.15, "cliffs"), [one_round(ours={1: 1, 2: 3, 3: 3})])
        self.assertEqual((found["ours"]["median"], found["at"]), (1.5, 2))
        self.assertAlmostEqual(found["of_target"], 1.5 / 1.15)

    def test_size_text(self):
        self.assertEqual([curve.size_text(n) for n in (1, 1023, 1024, 1536, 12 << 20)],
                         ["1 B", "1023 B", "1 KiB", "1.5 KiB", "12 MiB"])


def phased(us, line):
    return {8: {"latency_us_best": us, "line_us": line}}


class Phase(unittest.TestCase):
    def setUp(self):
        self.lines = []
        self.line, phase.line = phase.line, lambda context: self.lines.pop(0)

    def tearDown(self):
        phase.line = self.line

    def measured(self, *lines):
        """The line of the rows, and how often the program ran."""
        self.lines, runs = list(lines), []
        found = phase.measure(None, lambda context, sizes: runs.append(sizes) or {8: {"us": len(runs)}}, [8])
        self.assertEqual(found[8]["us"], len(runs))
        return found[8]["line_us"], len(runs)

    def test_a_program_runs_again_when_the_phase_changed(self):
        self.assertEqual(self.measured(0.06, 0.065), (0.06, 1))
        self.assertEqual(self.measured(0.06, 0.26, 0.25), (0.26, 2))
        self.assertEqual(self.measured(0.06, 0.26, 0.06, 0.26), (None, 3))
        self.assertEqual(self.measured(None, None), (None, 1))

    def test_only_the_most_frequent_phase_is_kept(self):
        rounds = [{"ours": phased(2, 0.26), "a": phased(1, 0.06)}, {"ours": phased(1, 0.06), "a": phased(1, None)},
                  {"ours": phased(1, 0.07), "a": phased(3, 0.26)}, {"other": {8: {"latency_us_best": 7}}}]
        kept, text = phase.keep(rounds)
        self.assertEqual(kept, [{"ours": {}, "a": rounds[0]["a"]}, {"ours": rounds[1]["ours"], "a": {}},
                                {"ours": rounds[2]["ours"], "a": {}}, rounds[3]])
        self.assertEqual(text, "cache line 0.060 us during 50 % of the measurements; the others (0.260 to 0.260) are left out")
        self.assertEqual(phase.keep(rounds[3:]), (rounds[3:], ""))
        self.assertEqual(phase.lacking(rounds, {("ours", "a"): {8}}), {"ours": {8}, "a": {8}})
        self.assertEqual(phase.lacking(rounds + [{"ours": phased(1, 0.06), "a": phased(2, 0.05)}], {("ours", "a"): {8}}), {})

    def test_parts_hold_neighbours(self):
        self.assertEqual(phase.parts({8, 1, 2, 3, 4, 5, 6}), [[1, 2, 3, 4, 5, 6], [8]])


class Peers(unittest.TestCase):
    def test_ucx(self):
        self.assertEqual(peers.ucx_built(UCX_CHECKED), ("1.13.1", "with parameter checks, assertions (multi-threading)"))
        self.assertEqual(peers.ucx_built(UCX_RELEASE), ("1.23.0", "release"))
        self.assertEqual(peers.ucx_built("# Version 1.9"), ("1.9", "unknown: no output names the options"))
        self.assertEqual(peers.ucx_built("")[0], None)

    def test_libfabric(self):
        self.assertEqual(peers.libfabric_built("fi_info: 2.6.0\nlibfabric: 2.6.0\nlibfabric api: 2.6\n"),
                         ("2.6.0", "release (fi_info names no options)"))
        self.assertEqual(peers.libfabric_built("no")[0], None)

    def test_openmpi(self):
        said = "ompi:version:full:5.0.7\noption:build:cflags:-DNDEBUG -g -O2 -O3 -mcx16\noption:debug:%s\n"
        self.assertEqual(peers.openmpi_built(said % "no"), ("5.0.7", "release (-O3)"))
        self.assertEqual(peers.openmpi_built(said % "yes"), ("5.0.7", "with debugging"))

    def test_argobots(self):
        said = "Name: Argobots\nVersion: 1.2\n"
        self.assertEqual(peers.argobots_built(said), ("1.2", "unknown: no output names the options"))
        self.assertEqual(peers.argobots_built(said + "debug: 0\nchecks of errors: 0\n"), ("1.2", "release"))
        self.assertEqual(peers.argobots_built(said + "debug: 0\nchecks of errors: 1\n"), ("1.2", "with checks of errors"))

    def test_option(self):
        for wrong in ("ucx", "ucx=", "=/usr", "gasnet=/usr", "ucx=/nonexistent/prefix"):
            self.assertRaises(ValueError, peers.parse, wrong)

    def test_names(self):
        ucx = peers.Peer("ucx", "/opt/ucx", "1.23.0", "release")
        self.assertEqual(peers.tag("ucx-posix", ucx), "ucx-posix@1.23.0")
        self.assertEqual(peers.tag("openmpi-ucx-shm", ucx), "openmpi-ucx-shm@ucx-1.23.0")
        self.assertTrue(peers.belongs("libfabric-tcp-sread", "libfabric"))
        self.assertFalse(peers.belongs("libfabric-mad-tcp-sread", "libfabric"))
        self.assertFalse(peers.belongs("openmpi-kernel-stream", "openmpi"))
        self.assertFalse(peers.belongs("ours-shm", "ucx"))

    def test_a_build_in_a_prefix_is_a_peer(self):
        asked = []
        sources = {"ucx-posix": lambda context, sizes: asked.append(context) or "rows", "ours-shm": None}

        class Context:
            def of(self, peer):
                return peer.prefix

        first, second = (peers.Peer("ucx", prefix, "1.23.0", "release") for prefix in ("/a", "/b"))
        added = peers.sources_add(sources, [first, second])
        self.assertEqual(added, {"ucx-posix": ["ucx-posix@1.23.0", "ucx-posix@1.23.0'"]})
        self.assertEqual(sources["ucx-posix@1.23.0'"](Context(), {8}), "rows")
        self.assertEqual(asked, ["/b"])
        wide = peers.figures_widen([figure(times(1))._replace(peers=("x", "ucx-posix"))], added)[0]
        self.assertEqual(wide.peers, ("x", "ucx-posix", "ucx-posix@1.23.0", "ucx-posix@1.23.0'"))


def curve_row():
    """A row as it comes from a file: sizes are text."""
    row = measure.figure_row(figure((1.0, None))._replace(name="curve-shm", ours="ours-shm", peers=("ucx-a", "ucx-b@2")),
                             [{s.replace("ours", "ours-shm").replace("a", "ucx-a") if s != "b" else "ucx-b@2": r
                               for s, r in one.items()} for one in ROUNDS], {}, "")
    facts = {"run": {"measured": "commit x"}, "machine": {"processor": "p"}, "versions": {"UCX 2": "release"}}
    return json.loads(json.dumps(dict(row, **facts)))


class Document(unittest.TestCase):
    def test_of_each_library_the_quickest_build_counts(self):
        found = dict(page.families(curve_row()))
        self.assertEqual(found["Madeleine"], {8: (2, "ours-shm"), 12: (2, "ours-shm"), 16: (3, "ours-shm")})
        self.assertEqual(found["UCX"][8], (2, "ucx-a"))
        self.assertEqual(found["UCX"][12][0], 2)
        self.assertNotIn("libfabric", found)

    def test_plots_are_small_and_well_formed(self):
        drawn = page.plots([curve_row()])
        self.assertEqual(sorted(drawn), ["latency-shm.svg", "ratio-shm.svg"])
        for image in drawn.values():
            self.assertEqual(xml.etree.ElementTree.fromstring(image).tag, "{http://www.w3.org/2000/svg}svg")
            self.assertLess(len(image), 20000)
        self.assertEqual(drawn, page.plots([curve_row()]))

    def test_axes(self):
        self.assertEqual(svg.decades(0.08, 900), [0.01, 0.1, 1, 10, 100, 1000])
        self.assertEqual(svg.steps(0, 1.9)[-1], 2)
        axes = svg.Axes([("a", [(1, 0.1), (16, 10)])], True)
        self.assertEqual((axes.x(1), axes.y(10)), (svg.LEFT, svg.TOP))
        self.assertEqual(axes.x(4), (axes.x(1) + axes.x(16)) / 2)
        self.assertEqual(svg.Axes([("a", [(1, 1), (16, 9)])], False, 2).y(9), svg.TOP)  # above: drawn at the edge

    def test_parts_are_written_anew_and_the_rest_is_kept(self):
        text = "a\n<!-- made: run -->\nold\n<!-- end -->\nb\n<!-- made: other -->\nkept\n<!-- end -->\n"
        filled = page.page_fill(text, {"run": "new \\1\n"})
        self.assertEqual(filled, text.replace("old", "new \\1"))
        self.assertEqual(page.page_fill(filled, {"run": "new \\1\n"}), filled)

    def test_parts(self):
        made = page.parts([curve_row()])
        self.assertIn("At 1 of 3 sizes", made["curve_shm"])
        self.assertIn("The worst is 12 B: 1.25 x ucx-b@2", made["curve_shm"])
        self.assertIn("| 8 B | **2** | **2** |", made["curve_shm"].replace(".000", ""))
        self.assertIn("Not measured", made["curve_tcp"])
        self.assertIn("UCX 2: release", made["run"])
        self.assertEqual(made["verdict"], "0 figures meet their targets, 1 do not: curve-shm.\n")

    def test_the_page_has_all_parts(self):
        with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "doc", "performance.md")) as file:
            self.assertEqual(sorted(name for _, name, _ in page.PART.findall(file.read())), sorted(page.parts([curve_row()])))


class Report(unittest.TestCase):
    def test_groups_are_named_once(self):
        names = [f.name for f in rows.FIGURES if f.group in ("ring", "lost")] + ["shm-8"]
        self.assertEqual(report.groups_shorten(names), ["shm-8", "all of ring", "lost"])


class Machine(unittest.TestCase):
    def test_no_folder_of_a_peer_is_published(self):
        self.assertEqual(machine.command_shown(["--peer", "ucx=/home/a/ucx", "--peer=openmpi=/b", "--build", "build", "shm-8"]),
                         "bench/figures --peer ucx=PREFIX --peer=openmpi=PREFIX --build build shm-8")


class Rows(unittest.TestCase):
    def test_every_source_is_there(self):
        for f in rows.FIGURES:
            for source in (f.ours,) + f.peers + f.others + f.floors:
                self.assertIn(source, rows.SOURCES, f.name)
            self.assertIn(f.group, rows.GROUPS, f.name)

    def test_rates_have_peers_in_their_form(self):
        by_name = {f.name: f for f in rows.FIGURES}
        self.assertIn("ucx-posix-rate-request", by_name["rate-shm-call"].peers)
        self.assertEqual(by_name["rate-tcp-callback"].peers, ("ucx-tcp-rate-callback",))
        self.assertEqual(rates.rated(lambda context, sizes: {8: {"latency_us_best": 0.25}})(None, {8})[8]["per_us_best"], 4)


if __name__ == "__main__":
    unittest.main()

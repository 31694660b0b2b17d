# SPDX-License-Identifier: BSD-3-Clause
"""Checks that standard input is valid Prometheus text format 0.0.4: with a strict parser here, and with the parser of
python3-prometheus-client where it is installed.  Prints what is wrong, or the number of samples."""

import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(r"(%s)(?:\{(%s(?:,%s)*)\})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\Z" % (NAME, LABEL, LABEL))


def wrong(text):
    """Returns what is wrong, or None, and the number of samples."""
    if not text.endswith("\n"):
        return "the last line has no end", 0
    helps, types, seen, over, now = set(), {}, set(), set(), None
    for line in text[:-1].split("\n"):
        head = re.match(r"# (HELP|TYPE) (%s) (\S.*)\Z" % NAME, line)
        sample = SAMPLE.match(line)
        name = head.group(2) if head else sample.group(1) if sample else None
        if not name:
            return "no such line: " + line, 0
        if name != now:
            if name in over:
                return "its samples do not stand together: " + name, 0
            over.add(now)
            now = name
        if head and head.group(1) == "HELP":
            if name in helps or name in types:
                return "a second or late HELP: " + line, 0
            helps.add(name)
        elif head:
            if name in types or name not in helps or head.group(3) not in ("counter", "gauge"):
                return "a second, early or strange TYPE: " + line, 0
            if (head.group(3) == "counter") != name.endswith("_total"):
                return "counters and nothing else end in _total: " + line, 0
            types[name] = head.group(3)
        else:
            labels = sample.group(2) or ""
            keys = re.findall(r'([a-zA-Z0-9_]+)="', re.sub(r"\\.", "", labels))
            if name not in types or len(keys) != len(set(keys)):
                return "no TYPE, or a label twice: " + line, 0
            if (name, tuple(sorted(re.findall(LABEL, labels)))) in seen:
                return "twice: " + line, 0
            if types[name] == "counter" and float(sample.group(3)) < 0:
                return "a counter below 0: " + line, 0
            seen.add((name, tuple(sorted(re.findall(LABEL, labels)))))
    return None, len(seen)


def main():
    text = sys.stdin.read()
    why, n = wrong(text)
    if why:
        sys.exit(why)
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        print(n, "samples; python3-prometheus-client is not installed")
        return
    parsed = sum(len(family.samples) for family in text_string_to_metric_families(text))
    if parsed != n:
        sys.exit("prometheus_client sees %d samples, not %d" % (parsed, n))
    print(n, "samples")


main()

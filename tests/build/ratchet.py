#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare counts with limits that may only fall.

A check (prose, names) counts places that break a rule, for each area of the tree.  Its limits are in CHECK_limits
beside this file, a line each: RULE AREA COUNT.  The limit is 0 if there is no line.  A count above its limit fails.  A
count below it is reported, and --lower writes it down.

    ratchet.py --check CHECK          compare; exit with 1 if a count is above its limit
    ratchet.py --show CHECK RULE AREA list the places
    ratchet.py --file FILE            list all places in one file
    ratchet.py --against TREE         list the places that another source tree does not have
    ratchet.py --lower                lower the limits of all checks to the counts
    ratchet.py --write                set the limits of all checks to the counts, also where that raises them
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import names  # noqa: E402
import prose  # noqa: E402

CHECKS = {"prose": prose, "names": names}
HERE = os.path.dirname(os.path.abspath(__file__))


def limits_path(root, check):
    return os.path.join(root, "tests", "build", check + "_limits")


def load(path):
    limits = {}
    try:
        with open(path, encoding="utf-8") as f:
            for line in f:
                fields = line.split("#")[0].split()
                if fields:
                    limits[fields[0], fields[1]] = int(fields[2])
    except FileNotFoundError:
        pass
    return limits


def save(path, check, limits):
    with open(path, "w", encoding="utf-8") as f:
        f.write("# SPDX-License-Identifier: BSD-3-Clause\n")
        f.write(f"# RULE AREA COUNT: limits of {check}_test.sh, written by tests/build/ratchet.py.  Counts may only fall.\n")
        for (rule, area), count in sorted(limits.items()):
            if count:
                f.write(f"{rule} {area} {count}\n")


def compare(root, check):
    """Print a line for each rule; return the number of counts above their limits."""
    limits, found, above = load(limits_path(root, check)), CHECKS[check].find(root), 0
    for rule, text in CHECKS[check].RULES.items():
        worse = []
        for (r, area), places in sorted(found.items()):
            if r != rule:
                continue
            limit = limits.get((rule, area), 0)
            if len(places) > limit:
                worse.append((area, len(places), limit))
            elif len(places) < limit:
                print(f"hint: {check} {rule} {area}: {len(places)}, the limit is {limit}: tests/build/ratchet.py --lower")
        if not worse:
            print(f"ok {check} {rule}")
        for area, count, limit in worse:
            print(f"not ok {check} {rule} {area}: {count}, the limit is {limit}: {text}")
            print(f"  the places: tests/build/ratchet.py --show {check} {rule} {area}")
            for place in found[rule, area][:5 if limit else count]:
                print(f"    {place}")
        above += len(worse)
    return above


def rewrite(root, lower):
    for check, module in CHECKS.items():
        path = limits_path(root, check)
        old, found = load(path), module.find(root)
        new = {key: min(len(p), old.get(key, 0)) if lower else len(p) for key, p in found.items()}
        save(path, check, new)
        for key, places in sorted(found.items()):
            if new[key] != old.get(key, 0):
                print(f"{check} {key[0]} {key[1]}: {old.get(key, 0)} -> {new[key]}")
            elif len(places) > new[key]:
                print(f"above its limit: {check} {key[0]} {key[1]}: {len(places)}, the limit is {new[key]}")


def only_here(root, other):
    """Print the places of root that the other tree does not have, even if they are on another line there."""
    def text(place):
        return place.split(": ", 1)[1].split(", also ")[0]

    for check, module in CHECKS.items():
        there = module.find(other)
        for key, places in sorted(module.find(root).items()):
            left = [text(p) for p in there.get(key, [])]
            for place in places:
                if text(place) in left:
                    left.remove(text(place))
                else:
                    print(f"{check} {key[0]} {key[1]}: {place}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", default=os.path.dirname(os.path.dirname(HERE)), help="the source tree")
    p.add_argument("--check", choices=CHECKS)
    p.add_argument("--show", nargs=3, metavar=("CHECK", "RULE", "AREA"))
    p.add_argument("--file")
    p.add_argument("--against", metavar="TREE")
    p.add_argument("--lower", action="store_true")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    if a.check:
        return 1 if compare(a.root, a.check) else 0
    if a.show:
        for place in CHECKS[a.show[0]].find(a.root)[a.show[1], a.show[2]]:
            print(place)
    if a.file:
        name = os.path.relpath(os.path.abspath(a.file), a.root)
        for check, module in CHECKS.items():
            for (rule, _), places in sorted(module.find(a.root).items()):
                for place in places:
                    if place.startswith(name + ":"):
                        print(f"{rule}: {place}")
    if a.against:
        only_here(a.root, a.against)
    if a.lower or a.write:
        rewrite(a.root, not a.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""timeline.py SVG [PART]: check the picture of a timeline with a long message from rank 0 through rank 2 to rank 1,
over the networks x and y (hop_test.sh).  PART: only some of it is shown.  Prints "ok" or "not ok" for each check."""

import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def check(name, good, *values):
    print("%s %s%s" % ("ok" if good else "not ok", name, "" if good else ": " + ", ".join(map(str, values))[:2000]))


def main():
    root = tree.parse(sys.argv[1]).getroot()
    width, height = int(root.get("width")), int(root.get("height"))
    lanes, process, name, places, notes = {}, None, None, [], []
    for e in root:
        if e.tag == SVG + "text" and e.get("font-weight") == "bold":
            process = e.text
        elif e.tag == SVG + "text" and e.get("text-anchor") == "end" and process:
            name = (process.split(" on ")[0], e.text)
            places.append((float(e.get("y")), name))
        elif e.tag == SVG + "text" and not e.get("text-anchor"):
            notes.append(e.text)
        elif e.tag == SVG + "rect" and e.find(SVG + "title") is not None:
            box = tuple(float(e.get(k)) for k in ("x", "y", "width", "height"))
            lanes.setdefault(name, []).append((box[0], box[0] + box[2]))
            if box[0] < 0 or box[1] < 0 or box[0] + box[2] > width or box[1] + box[3] > height:
                check("timeline: within the picture", False, box, width, height)
    check("timeline: three processes", {n[0] for n in lanes} == {"rank 0", "rank 1", "rank 2"}, lanes.keys())
    close = [(a, b) for a, b in zip(places, places[1:]) if b[0] - a[0] < 9]
    check("timeline: no name over another", not close, close)
    came, left = lanes.get(("rank 2", "x: fragments from 0"), []), lanes.get(("rank 2", "y: fragments to 1"), [])
    check("timeline: the gateway's networks", came and left, lanes.keys())
    check("timeline: the message is in both at once", came and left and min(l[0] for l in left) < max(c[1] for c in came),
          came[-1:], left[:1])
    check("timeline: a scale", any(e.text == "microseconds" for e in root.iter(SVG + "text")))
    part = [n for n in notes if n.startswith("a part: ")]
    check("timeline: what is left out is said",
          len(part) == (len(sys.argv) > 2) and any(" events as " in n for n in notes), notes)


main()

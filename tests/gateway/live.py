# SPDX-License-Identifier: BSD-3-Clause
"""live.py WHAT FILE...: check what "mad_info topology --live" and "mad_info stats" report about a stream of long
messages from live-a through live-g to live-b (live_test.sh).  Prints "ok" or "not ok" for each check.
  moving JSON    everything moves
  balance JSON   of the gateway, while the receiver is stopped: data that arrived has left, or waits
  picture SVG    is well formed, has the expected texts, and no boxes or texts overlap"""

import json
import sys
import xml.etree.ElementTree as tree


def check(name, good, *values):
    print("%s %s%s" % ("ok" if good else "not ok", name, "" if good else ": " + ", ".join(map(str, values))[:3000]))


def moving(path):
    with open(path) as file:
        live = json.load(file)["live"]
    hosts = {h["host"]: dict(h, on={n["network"]: n for n in h["networks"]}) for h in live["hosts"]}
    check("live: three hosts", live["any"] and set(hosts) == {"live-a", "live-b", "live-g"}, live)
    a, b, g = (hosts[h] for h in ("live-a", "live-b", "live-g"))
    check("live: the first network", a["on"]["xnet"]["bytes_sent"] > 1e4 and g["on"]["xnet"]["bytes_received"] > 1e4, a, g)
    check("live: the second network", g["on"]["ynet"]["bytes_sent"] > 1e4 and b["on"]["ynet"]["bytes_received"] > 1e4, g, b)
    check("live: the gateway's fragments",
          g["fragments"] > 0 and g["bytes"] > 1e4 and not a["fragments"] + b["fragments"], g)
    check("live: nothing is wrong", all(h["processes"] == 1 and not h["silent"] + h["draining"] + h["lost_to"] + h["ended"]
                                        for h in hosts.values()), hosts)


def balance(path):
    with open(path) as file:
        s = [s for p in json.load(file)["processes"] for s in p["sessions"] if s["host"] == "live-g"][0]
    passed = [r for r in s["traffic"] if r["class"] == "forwarded"]
    routes = [r for r in s["forwarding"]["routes"] if r["passes"]]
    came, left, waits = (sum(r[k] for r in rows) for rows, k in
                         ((passed, "bytes_received"), (passed, "bytes_sent"), (routes, "bytes_queued")))
    check("balance: bytes that came have left, or wait", came == left + waits and waits > 0, came, left, waits)
    came, left, waits = (sum(r[k] for r in rows) for rows, k in
                         ((passed, "messages_received"), (passed, "messages_sent"), (routes, "fragments_queued")))
    check("balance: so have fragments", came == left + waits and waits > 0, came, left, waits)
    for key in ("messages_sent", "bytes_sent", "messages_received", "bytes_received"):
        sums = [sum(r[key] for r in s[rows]) for rows in ("traffic", "networks")]
        check("balance: %s by driver and by network" % key, sums[0] == sums[1], s["traffic"], s["networks"])
    check("balance: networks by their names", {r["network"] for r in s["networks"]} == {"xnet", "ynet"}, s["networks"])


def over(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def picture(path):
    root = tree.parse(path).getroot()
    width, height = int(root.get("width")), int(root.get("height"))
    boxes, texts = [], []
    for e in root.iter("{http://www.w3.org/2000/svg}rect"):
        if e.get("rx") == "3":
            x, y = int(e.get("x")), int(e.get("y"))
            boxes.append((x, y, x + int(e.get("width")), y + int(e.get("height"))))
    for e in root.iter("{http://www.w3.org/2000/svg}text"):
        if not e.text:
            continue
        size = int(e.get("font-size", "13"))
        length = 0.6 * size * len(e.text)
        x = int(e.get("x")) - (length / 2 if e.get("text-anchor") == "middle" else 0)
        texts.append((x, int(e.get("y")) - 0.7 * size, x + length, int(e.get("y")), e.text))
    check("picture: boxes", len(boxes) == 3 and not any(over(a, b) for i, a in enumerate(boxes) for b in boxes[:i]), boxes)
    bad = [(a[4], b[4]) for i, a in enumerate(texts) for b in texts[:i] if over(a, b)]
    check("picture: no text over another", not bad, bad)
    bad = [t for t in texts if t[0] < 0 or t[2] > width or t[3] > height]
    check("picture: all texts within it", not bad, bad, width, height)
    words = [t[4] for t in texts]
    for word in ("out ", "in ", "passes ", "holds ", "1 process", "3 processes on 3 of 3 hosts", "80 % and more"):
        check("picture: %s" % word.strip(), any(w.startswith(word) for w in words), words)


{"moving": moving, "balance": balance, "picture": picture}[sys.argv[1]](sys.argv[2])

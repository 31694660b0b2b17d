# SPDX-License-Identifier: BSD-3-Clause
"""look.py MAD_INFO A B [GATEWAY]: check what "mad_info stats" reports about these processes, which run "hop hold".
Prints "ok" or "not ok" for each check."""

import json
import subprocess
import sys

ROUNDS, LENGTHS = 10, (0, 8, 100, 5000, 40000, 100000, 1 << 20)  # hop.c


def check(name, good, *values):
    print("%s %s%s" % ("ok" if good else "not ok", name, "" if good else ": " + ", ".join(map(str, values))))


def stats(pid):
    out = subprocess.run([sys.argv[1], "stats", pid, "--json", "--timeout", "30"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)["processes"][0]["sessions"][0]


def enough(count, factor=1.1):
    """Return the bytes of all blocks, and an allowance for headers."""
    least = ROUNDS * sum(LENGTHS)
    return least <= count <= factor * least


def end(pid, name, virtual):
    s = stats(pid)
    rows = {(r["driver"], r["class"]): r for r in s["traffic"]}
    own = [r for r in s["traffic"] if r["class"] == "job" and (r["driver"] == "virtual" or not virtual) and r["messages_sent"]]
    check("%s: one driver carried the messages" % name, len(own) == 1, rows)
    n = ROUNDS * len(LENGTHS)
    moved = own[0]
    check("%s: each message is counted" % name, moved["messages_sent"] == moved["messages_received"] == n, moved)
    check("%s: all bytes are counted" % name, enough(moved["bytes_sent"]) and enough(moved["bytes_received"]), moved)
    check("%s: long blocks are" % name, moved["blocks_sent"] >= ROUNDS and moved["blocks_received"] >= ROUNDS, moved)
    channel = {c["channel"]: c for c in s["channels"]}["hop"]
    check("%s: the channel has counted the same" % name,
          all(channel[k] == moved[k] for k in ("messages_sent", "messages_received", "bytes_sent", "bytes_received")), channel)
    if virtual:
        carried = [r for r in s["traffic"] if r["class"] == "streams"]
        check("%s: its fragments" % name, sum(r["messages_sent"] for r in carried) > n and
              enough(sum(r["bytes_sent"] for r in carried)) and enough(sum(r["bytes_received"] for r in carried)), carried)
        routes = [r for r in s["forwarding"]["routes"] if not r["passes"]]
        # If both ends open a stream at the same time, only the handshake of the stream that gives way was carried.
        lost = [sum(r[k] for r in carried) - sum(r[there] for r in routes)
                for k, there in (("messages_sent", "fragments_there"), ("messages_received", "fragments_back"))]
        check("%s: one route" % name, len(routes) == 1 and routes[0]["via"] == "g" and routes[0]["streams"] == 1 and
              all(0 <= n < 10 for n in lost), routes, carried)


def gateway(pid, name):
    s = stats(pid)
    f = s["forwarding"]
    routes = f["routes"]
    passed = [r for r in s["traffic"] if r["class"] == "forwarded"]
    check("%s: routes between the two" % name, len(routes) in (1, 2) and
          all(r["passes"] and {r["from"], r["to"]} in ({"a", "b"}, {"s", "t"}) for r in routes), routes)
    check("%s: one stream" % name, sum(r["streams"] for r in routes) == 1, routes)
    used = [r for r in routes if r["streams"]][0]
    check("%s: what came has left" % name,
          sum(r["messages_received"] for r in passed) == sum(r["messages_sent"] for r in passed) ==
          sum(r["fragments_there"] + r["fragments_back"] for r in routes), passed, routes)
    check("%s: to the byte" % name,
          sum(r["bytes_received"] for r in passed) == sum(r["bytes_sent"] for r in passed) ==
          sum(r["bytes_there"] + r["bytes_back"] for r in routes), passed, routes)
    check("%s: by network as by driver" % name, all(
        sum(r[k] for r in s["networks"]) == sum(r[k] for r in s["traffic"])
        for k in ("messages_sent", "bytes_sent", "messages_received", "bytes_received")), s["networks"], s["traffic"])
    check("%s: in both directions" % name, enough(used["bytes_there"]) and enough(used["bytes_back"]), routes)
    check("%s: nothing waits" % name, f["fragments_held"] == 0 == f["bytes_held"] == used["fragments_queued"], f)
    check("%s: something has" % name, f["fragments_held_most"] > 0 and f["bytes_held_most"] > 0, f)
    check("%s: nothing was sent again" % name, f["resends"] == 0 == used["resends"], f)


def main():
    ends, gate = sys.argv[2:4], sys.argv[4:]
    for i, pid in enumerate(ends):
        end(pid, "rank %d" % i, bool(gate))
    for pid in gate:
        gateway(pid, "gateway")


main()

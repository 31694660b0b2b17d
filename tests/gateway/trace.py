# SPDX-License-Identifier: BSD-3-Clause
"""trace.py [--overlap] FILE...: check timelines of processes, one of which forwarded a long message from rank 0 to rank 1
(hop long).  They must have trace events as documented, and show the message in both networks at once.  With --overlap,
single fragments must be in both networks at the same time, too.  Prints "ok" or "not ok" for each check."""

import json
import sys

LONG = 32 << 20  # hop.c


def check(name, good, *values):
    print("%s %s%s" % ("ok" if good else "not ok", name, "" if good else ": " + ", ".join(map(str, values))[:2000]))


def wrong(document):
    """Return the first breach of the description of the Trace Event Format, or None."""
    if not isinstance(document.get("traceEvents"), list) or document.get("displayTimeUnit") not in ("ms", "ns"):
        return "no traceEvents, or a strange displayTimeUnit"
    open_ones = {}
    for e in document["traceEvents"]:
        if e.get("ph") not in ("M", "X", "i", "b", "e") or not all(isinstance(e.get(k), int) for k in ("pid", "tid")):
            return "strange phase, or no numbers of process and thread: %s" % e
        if not isinstance(e.get("name"), str) or not e["name"]:
            return "no name: %s" % e
        if e["ph"] == "M":
            if not isinstance(e.get("args"), dict) or e["name"] not in ("process_name", "process_sort_index"):
                return "strange metadata: %s" % e
            continue
        if not isinstance(e.get("ts"), (int, float)) or not isinstance(e.get("cat"), str):
            return "no time or category: %s" % e
        if e["ph"] == "X" and not e.get("dur", -1) >= 0:
            return "no duration: %s" % e
        if e["ph"] == "i" and e.get("s") not in ("t", "p", "g"):
            return "an instant without scope: %s" % e
        if e["ph"] in "be":
            key = (e["pid"], e["cat"], e["id2"]["local"])
            if e["ph"] == "b":
                if key in open_ones:
                    return "begins twice: %s" % e
                open_ones[key] = e
            else:
                begin = open_ones.pop(key, None)
                if not begin or begin["name"] != e["name"] or begin["ts"] > e["ts"]:
                    return "ends without a beginning, or before it: %s" % e
    return "not ended: %s" % list(open_ones.values())[:3] if open_ones else None


def intervals(document, category, name):
    """Return (begin, end, args) of the events with this name, sorted by their beginning."""
    begun, found = {}, []
    for e in document["traceEvents"]:
        if e.get("cat") == category and name in e["name"]:
            key = e["id2"]["local"]
            if e["ph"] == "b":
                begun[key] = e
            else:
                b = begun.pop(key)
                found.append((b["ts"], e["ts"], b["args"]))
    return sorted(found, key=lambda i: i[:2])


def gateway(document, overlap):
    def passing(name):
        return [i for i in intervals(document, "fragment", name) if i[2]["passes"] and i[2]["bytes"] > 4096]
    came, left = passing("fragments from 0"), passing("fragments to 1")
    check("gateway: all fragments came and left", len(came) == len(left) and sum(i[2]["bytes"] for i in left) >= LONG and
          sum(i[2]["bytes"] for i in came) == sum(i[2]["bytes"] for i in left), len(came), len(left))
    both = sum(i[0] < came[-1][1] for i in left)
    check("gateway: the message is in both networks at once", both >= len(left) // 2, both, len(left))
    both = sum(any(i[0] < o[1] and o[0] < i[1] for i in came) for o in left)
    if overlap:
        check("gateway: single fragments are", both >= 5, both, len(left))
    print("# %d of %d fragments were sent while another one came" % (both, len(left)))


def end(document, rank):
    word = "receive from 0" if rank else "send to 1"
    messages = [i for i in intervals(document, "message", word) if i[2]["channel"] == "hop"]
    check("rank %d: one message" % rank, len(messages) == 1, messages)
    blocks = intervals(document, "block", "block from 0" if rank else "block to 1")
    check("rank %d: its block" % rank, len(blocks) == 1 and blocks[0][2]["bytes"] == LONG, blocks)
    check("rank %d: within it" % rank, messages[0][0] <= blocks[0][0] + 1 and blocks[0][1] <= messages[0][1] + 1, messages, blocks)
    pieces = intervals(document, "piece", "pieces from 0" if rank else "pieces to 1")
    check("rank %d: in pieces" % rank, 0.9 * LONG <= sum(i[2]["bytes"] for i in pieces) <= LONG, pieces)
    instants = [e["name"] for e in document["traceEvents"] if e.get("ph") == "i"]
    check("rank %d: request and grant" % rank, instants.count("grant to 0") == 1 if rank else
          instants.count("request to 1") == instants.count("granted by 1") == 1, instants)
    return messages[0]


def main():
    overlap = sys.argv[1] == "--overlap"
    documents = {}
    for name in sys.argv[1 + overlap:]:
        with open(name) as file:
            document = json.load(file)
        why = wrong(document)
        check("trace: its format", not why, name, why)
        if "rank" in document["otherData"]:
            documents[document["otherData"]["rank"]] = document
        else:  # merged
            pids = {p["rank"]: p["pid"] for p in document["otherData"]["merged"]}
            check("merged: three processes", sorted(pids) == [0, 1, 2] and len(set(pids.values())) == 3, pids)
            own = {rank: dict(document, traceEvents=[e for e in document["traceEvents"] if e["pid"] == pid])
                   for rank, pid in pids.items()}
            sent, came = end(own[0], 0), end(own[1], 1)
            check("merged: nothing comes before it is sent", sent[0] <= came[0], sent, came)
            names = {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
            check("merged: processes have names", len(names) == 3 and all(n.startswith("rank ") for n in names), names)
    for rank, document in documents.items():
        (lambda d: gateway(d, overlap) if rank == 2 else end(d, rank))(document)


main()

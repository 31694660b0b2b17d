# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that write lines, and a reader that counts damaged lines (output_test.sh).

output.py write KIND BYTES LINES [STREAM]   as a rank: LINES lines of about BYTES, in pieces of 3,000; KIND: text, json
output.py read KIND BYTES                   "<lines> <of which bad>" of standard input
"""
import json
import os
import sys


def line(kind, rank, size):
    if kind == "json":
        return json.dumps({"rank": rank, "data": [str(rank)] * (size // 5)}).encode()
    return bytes([ord("a") + rank]) * size


def write(kind, size, lines, stream=1):
    piece = 3000 if size < 10 ** 7 else 60000
    whole = line(kind, int(os.environ["PMI_RANK"]), size) + b"\n"
    for _ in range(lines):
        at = 0
        while at < len(whole):
            at += os.write(stream, whole[at : at + piece])


def read(kind, size):
    count = bad = 0
    right = {line(kind, rank, size): rank for rank in range(8)}
    for text in sys.stdin.buffer:
        count += 1
        text = text.rstrip(b"\n")
        if text.startswith(b"["):
            label, text = text.split(b"] ", 1)
            bad += kind == "json" or right.get(text) != int(label[1:])
        else:
            bad += text not in right
    print(count, bad)


if sys.argv[1] == "write":
    write(sys.argv[2], *map(int, sys.argv[3:]))
else:
    read(sys.argv[2], int(sys.argv[3]))

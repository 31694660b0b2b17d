#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A launcher of PMI-1 with wrong answers: liar.py LIE PROGRAM ARGUMENTS...  The job has two ranks: rank 0 is the program,
and rank 1 exists only in the store.  Exits with the program's status.

  none      a job of one, with true answers     garbage   rank 1's address is not an address
  other     rank 1's address is rank 0's        length    values are shorter than announced
  missing   rank 1 has no address               rank      rank 7 of 2
  refuse    init is refused                     noise     answers are not of the protocol
  endless   an answer that never ends           dies      the launcher ends before the fence
  silent    no answer at all
"""
import os
import socket
import subprocess
import sys

lie = sys.argv[1]
ours, its = socket.socketpair()
size = 1 if lie == "none" else 2
environment = dict(os.environ, PMI_FD=str(its.fileno()), PMI_RANK="7" if lie == "rank" else "0", PMI_SIZE=str(size))
program = subprocess.Popen(sys.argv[2:], env=environment, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
its.close()
store = {}


def get(key):
    name, rank, piece = key.rsplit(".", 2)
    if lie == "missing" and rank == "1":
        return None
    if rank == "1" and name == "mad-addr":
        if lie == "garbage":
            return "16:0123456789abcdef" if piece == "0" else None
        value = store.get(f"{name}.0.{piece}")
        if lie == "length" and value:
            return value[:len(value) // 2] if piece == "0" else ""
        return value
    return store.get(key)


def answer(words):
    command = words.get("cmd")
    if lie == "noise":
        return "HTTP/1.0 400 Bad Request\r\n\r\n"
    if command == "init":
        return "cmd=response_to_init rc=%d pmi_version=1 pmi_subversion=1\n" % (-1 if lie == "refuse" else 0)
    if command == "get_maxes":
        return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
    if command == "get_my_kvsname":
        return "cmd=my_kvsname kvsname=liar\n"
    if command == "put":
        store[words["key"]] = words["value"]
        return "cmd=put_result rc=0 msg=success\n"
    if command == "get":
        value = get(words["key"])
        return "cmd=get_result rc=-1 msg=no\n" if value is None else "cmd=get_result rc=0 value=%s\n" % value
    if command == "barrier_in":
        return "cmd=barrier_out\n"
    return "cmd=finalize_ack\n"


def serve():
    pending = b""
    while True:
        while b"\n" not in pending:
            got = ours.recv(65536)
            if not got:
                return
            pending += got
        line, pending = pending.split(b"\n", 1)
        words = dict(w.split("=", 1) for w in line.decode().split() if "=" in w)
        if lie == "dies" and words.get("cmd") == "barrier_in":
            ours.close()
            return
        if lie == "silent":
            continue
        if lie == "endless":
            while True:
                ours.sendall(b"cmd=endless " * 1000)
        ours.sendall(answer(words).encode())


try:
    serve()
except OSError:
    pass
sys.exit(program.wait())

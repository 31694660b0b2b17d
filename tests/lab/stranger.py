#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Strangers that connect to a Madeleine process, and processes that only pretend to be one.

  stranger.py scan|garbage|half|huge|version|proof ADDRESS   send this to the process with this address (a file)
  stranger.py which ADDRESS          print the version of the protocol that the process speaks
  stranger.py slow ADDRESS VERSION   send half a HELLO of this version, a byte at a time, and nothing more
        half: 400 connections that send nothing, until standard input ends; prints "ready"
  stranger.py fake-version|fake-silent|fake-garbage|fake-close ADDRESS NEW
        listen, write to NEW the address changed so that it leads here, and answer in this way until standard input ends
"""
import os
import select
import socket
import struct
import sys

HEAD = "<IHHI"  # magic, version, kind, length
HELLO, CHALLENGE, PROOF, REFUSE = 1, 2, 3, 5


def frame(version, kind, body, length=None):
    return struct.pack(HEAD, 0x4844414D, version, kind, len(body) if length is None else length) + body


def greeting(uid):
    """Return the body of HELLO to the process with this identity, as if the own network were authenticated."""
    return os.urandom(16) + uid + os.urandom(16) + bytes([0, 1, 0, 0])


def answer(s):
    """Return (version, kind, body) of the next frame from the process."""
    s.settimeout(30)
    head = s.recv(struct.calcsize(HEAD), socket.MSG_WAITALL)
    if len(head) < struct.calcsize(HEAD):
        sys.exit("stranger: the connection was closed, and nothing said")
    _, version, kind, length = struct.unpack(HEAD, head)
    return version, kind, s.recv(length, socket.MSG_WAITALL) if length else b""


def version_of(where):
    """Return the version that the process speaks, which is all that a stranger may learn."""
    with socket.create_connection(where, timeout=30) as s:
        s.sendall(frame(0, HELLO, bytes(52)))
        return answer(s)[0]


def entries(address):
    at = 32
    while at < len(address):
        fields = []
        for _ in range(3):
            fields.append(address[at + 1:at + 1 + address[at]])
            at += 1 + address[at]
        yield fields


def tcp_of(address):
    for driver, _, where in entries(address):
        if driver == b"tcp" and where[0] == 4:
            return socket.inet_ntoa(where[3:7]), where[1] | where[2] << 8
    sys.exit("stranger: no IPv4 in this address")


def moved(address, port):
    """Return an address with the same identity, but with our port, and with tcp only."""
    out = b""
    n = 0
    for driver, network, where in entries(address):
        if driver == b"tcp" and where[0] == 4:
            where = where[:1] + struct.pack("<H", port) + where[3:]
            for field in (driver, network, where):
                out += bytes([len(field)]) + field
            n += 1
    return bytes([address[0], n]) + struct.pack("<H", 32 + len(out)) + address[4:32] + out


def closed_by_peer(s):
    s.settimeout(30)
    try:
        while s.recv(4096):
            pass
    except ConnectionResetError:
        pass
    except socket.timeout:
        sys.exit("stranger: the connection was not closed within 30 s")


def attack(how, address):
    where = tcp_of(address)
    uid = address[4:20]
    if how == "half":
        held = [socket.create_connection(where, timeout=30) for _ in range(400)]
        print("ready", flush=True)
        sys.stdin.read()
        return len(held)
    version = version_of(where) if how in ("huge", "proof", "which") else 0
    if how == "which":
        print(version)
        return 0
    s = socket.create_connection(where, timeout=30)
    if how == "scan":
        s.close()
        return 0
    if how == "garbage":
        s.sendall(b"GET / HTTP/1.0\r\n\r\n" + os.urandom(4000))
    elif how == "huge":
        s.sendall(frame(version, HELLO, b"", length=0xFFFFFFFF))
    elif how == "version":
        s.sendall(frame(99, HELLO, greeting(uid)))
    elif how == "proof":
        s.sendall(frame(version, HELLO, greeting(uid)))
        if answer(s)[1] != CHALLENGE:
            sys.exit("stranger: it was refused before it could prove anything")
        s.sendall(frame(version, PROOF, os.urandom(200)))
        if answer(s)[1] != REFUSE:
            sys.exit("stranger: a wrong proof was not refused")
    elif how == "slow":
        for byte in frame(int(sys.argv[3]), HELLO, greeting(uid))[:20]:
            try:
                s.send(bytes([byte]))
            except (BrokenPipeError, ConnectionResetError):
                return 0  # the process had closed the connection, as it should, before all was sent
            select.select([], [], [], 0.01)
    closed_by_peer(s)
    return 0


def fake(how, address, name):
    where = tcp_of(address)
    listener = socket.create_server((where[0], 0))
    with open(name + ".new", "wb") as f:
        f.write(moved(address, listener.getsockname()[1]))
    os.rename(name + ".new", name)
    held = []
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        s, _ = listener.accept()
        if how == "fake-version":
            s.sendall(frame(99, CHALLENGE, os.urandom(20)))
        elif how == "fake-garbage":
            s.sendall(b"220 smtp.example.com ESMTP ready\r\n")
        elif how == "fake-close":
            s.close()
        held.append(s)


def main():
    with open(sys.argv[2], "rb") as f:
        address = f.read()
    if sys.argv[1].startswith("fake-"):
        fake(sys.argv[1], address, sys.argv[3])
    else:
        attack(sys.argv[1], address)


main()

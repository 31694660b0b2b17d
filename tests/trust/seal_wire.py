# SPDX-License-Identifier: BSD-3-Clause
"""An attacker on the path of a sealed network reads, changes, drops, repeats, swaps, cuts and forges records.  No part
of a message is visible, nothing wrong is delivered, and the process that notices reports why."""
import threading

from peer import *

SEAL_ENV = {"MAD_DRIVERS": "tcp,self", "MAD_CONNECT_TIMEOUT": "3000", "MAD_TCP_SECURITY": "seal"}
PLAIN_ENV = dict(SEAL_ENV, MAD_TCP_SECURITY="auth")
TEXTS = ["the %s message of this test, which nobody else may read" % n for n in ("first", "second", "third", "fourth", "fifth")]


def called_at(address, port):
    """Return the address, with this port in its entry of tcp."""
    where = find(address, b"tcp")[2]
    return address.replace(where, where[:1] + struct.pack("<H", port) + where[3:])


class Wire:
    """Forward records from a connecting process to a target, and harm those from the connecting process; record all of
    them."""

    def __init__(self, target, harm=None):
        self.target, self.harm, self.seen = target, harm, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = called_at(target.address, self.listener.getsockname()[1])
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                caller, _ = self.listener.accept()
                onward = socket.create_connection(tcp_of(self.target.address), 5)
            except OSError:
                return
            threading.Thread(target=self.carry, args=(caller, onward, self.harm), daemon=True).start()
            threading.Thread(target=self.carry, args=(onward, caller, None), daemon=True).start()

    def carry(self, source, sink, harm):
        number = 0
        try:
            while True:
                if harm is None:
                    out = source.recv(65536)
                    if not out:
                        break
                    self.seen += out
                else:
                    head = read_n(source, 5)
                    record = head + read_n(source, struct.unpack(">H", head[3:])[0])
                    self.seen += record
                    out = harm(number, record)
                    number += 1
                    if out is None:
                        break
                sink.sendall(out)
        except (OSError, EOFError):
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def say_all(a, wire):
    """Send all texts through the wire; return what became of each."""
    a.lines.clear()
    a.say("peer " + wire.address.hex())
    number = a.wait("peer ", 5).split()[1]
    for text in TEXTS:
        a.say("send %s %s" % (number, text))
    end = time.monotonic() + 20
    while len(a.holding("sent to")) < len(TEXTS) and time.monotonic() < end:
        a.read(0.05)
    return a.holding("sent to")


def delivered(b):
    b.drain()
    return [line.split(": ", 1)[1] for line in b.holding("got from")]


def reads():
    for name, env, shows in (("auth", PLAIN_ENV, True), ("seal", SEAL_ENV, False)):
        a, b = Target("A", env), Target("B", env)
        wire = Wire(b, None if shows else lambda number, record: record)
        said = say_all(a, wire)
        check("%s: all arrives" % name, delivered(b) == TEXTS and all("success" in s for s in said), said, b.lines)
        for what, part in (("a message", TEXTS[0][4:30].encode()), ("a channel's name", b"chat"), ("an identity", uid(a.address)),
                           ("an address", a.address[-20:])):
            check("%s: a capture shows %s %s" % (name, "" if shows else "nothing of", what), (part in wire.seen) == shows)
        a.end()
        b.end()


def at(number, change):
    return lambda n, record: change(record) if n == number else record


def held(number, release):
    """Hold back the record of this number until the next one has arrived."""
    kept = []

    def harm(n, record):
        if n == number:
            kept.append(record)
            return b""
        return release(kept.pop(), record) if kept else record
    return harm


def flip(where):
    return lambda r: r[:where] + bytes([r[where] ^ 1]) + r[where + 1:]


CAUSE = "is not as the peer sent it"
NO_RECORD = "is no sealed record"
# Records from the active side: 0 is its hello of TLS, 1 the end of the TLS handshake, 2 and 3 are HELLO and PROOF, then
# packets.
HARM = [
    ("changes a packet", at(6, flip(9)), CAUSE),
    ("changes a packet's tag", at(6, flip(-1)), CAUSE),
    ("changes a record's type", at(6, flip(0)), NO_RECORD),
    ("shortens a record", at(6, lambda r: r[:3] + struct.pack(">H", len(r) - 6) + r[5:-1]), CAUSE),
    ("drops a packet", at(5, lambda r: b""), CAUSE),
    ("repeats a packet", at(6, lambda r: r + r), CAUSE),
    ("swaps two packets", held(5, lambda first, second: second + first), CAUSE),
    ("forges a record", at(6, lambda r: b"\x17\x03\x03" + struct.pack(">H", 60) + os.urandom(60)), CAUSE),
    ("forges an alert", at(6, lambda r: b"\x15\x03\x03\x00\x02\x01\x00"), NO_RECORD),
    ("forges a frame in the clear", at(6, lambda r: frame(HELLO, bytes(52))), NO_RECORD),
    ("cuts the connection", lambda n, r: r if n < 6 else None, "without TLS's close_notify"),
    ("changes HELLO", at(2, flip(20)), CAUSE),
    ("repeats HELLO", at(2, lambda r: r + r), CAUSE),
    ("drops PROOF", at(3, lambda r: b""), None),
    ("changes the hello of TLS", at(0, flip(60)), "or its call was changed on the way"),
    ("changes the end of TLS", at(1, flip(20)), "the handshake of TLS failed"),
]


def harms():
    for name, harm, cause in HARM:
        a, b = Target("A", SEAL_ENV), Target("B", SEAL_ENV)
        say_all(a, Wire(b, harm))
        got = delivered(b)
        check("%s: nothing wrong is delivered" % name, got == TEXTS[:len(got)], got)
        if cause:
            lines = b.holding(cause) + a.holding(cause)
            check("%s: the cause is reported" % name, len(lines) >= 1, b.lines, a.lines)
        check("%s: both go on" % name, a.answers() and b.answers())
        c = Target("C", SEAL_ENV)
        said = c.send(b, "hello")
        check("%s: members reach it" % name, said and "success" in said, said)
        for t in (a, b, c):
            t.end()


reads()
harms()
finish()

# SPDX-License-Identifier: BSD-3-Clause
"""An attacker without the key relays a connection: to another process, back to its origin, or to the right process with
a frame changed.  No process accepts a message that was not meant for it, and each end reports why."""
import threading

from peer import *

ENV = {"MAD_DRIVERS": "tcp,self", "MAD_CONNECT_TIMEOUT": "3000"}


class Relay:
    """Listen in the place of a target that has ended, and forward all bytes to another process."""

    def __init__(self, place, to, change):
        self.to, self.change, self.seen = to, change, b""
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(place)
        self.listener.listen(5)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                caller, _ = self.listener.accept()
                onward = socket.create_connection(tcp_of(self.to), 5)
            except OSError:
                return
            threading.Thread(target=self.carry, args=(caller, onward, 0), daemon=True).start()
            threading.Thread(target=self.carry, args=(onward, caller, 1), daemon=True).start()

    def carry(self, source, sink, side):
        try:
            while True:  # the handshake's frames; all later bytes are forwarded unchanged
                kind, body = read_frame(source)
                kind, body = self.change(side, kind, body)
                sink.sendall(frame(kind, body))
                if kind in (PROOF, VERDICT, REFUSE):
                    break
            while True:
                got = source.recv(65536)
                if not got:
                    break
                self.seen += got
                sink.sendall(got)
        except (OSError, EOFError, struct.error):
            pass
        sink.close()


def attack(name, to_self, change, cause):
    """Let A connect to B, which has ended, through the relay to C or to A itself."""
    a, b, c = Target("A", ENV), Target("B", ENV), Target("C", ENV)
    place = tcp_of(b.address)
    b.say("quit")
    b.wait("bye", 10)
    b.end()
    to = a if to_self else c
    relay = Relay(place, to.address, lambda side, kind, body: change(to, side, kind, body))
    said = a.send(b, "secret for B only")
    c.drain()
    check("%s: nobody takes the message" % name, not a.holding("got from") and not c.holding("got from"), a.lines, c.lines)
    check("%s: the sender gets an error" % name, said and "success" not in said, said)
    check("%s: nothing of it travels" % name, b"secret" not in relay.seen)
    lines = to.holding(cause)
    check("%s: the process that was called says why, once" % name, len(lines) == 1, to.lines)
    check("%s: both go on" % name, a.answers() and c.answers())
    said = a.send(c, "hello")
    check("%s: members reach each other" % name, said and "success" in said, said)
    relay.listener.close()
    a.end()
    c.end()


def want(to, side, kind, body):
    """HELLO names the process to which the connection is relayed."""
    return kind, body[:16] + uid(to.address) + body[32:] if kind == HELLO else body


def want_as_other(to, side, kind, body):
    """HELLO also names another origin, so that the process does not recognise itself."""
    return kind, body[:16] + uid(to.address) + os.urandom(16) + body[48:] if kind == HELLO else body


PROOF_TEXT = "does not hold the job's key, or its call was changed on the way"
attack("to another process", False, want, PROOF_TEXT)
attack("back to its caller", True, want, "claims to be this process itself")
attack("back to its caller in disguise", True, want_as_other, PROOF_TEXT)


def change_in(kind_changed, at):
    def change(to, side, kind, body):
        kind, body = want(to, side, kind, body)
        if kind == kind_changed:
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
        return kind, body
    return change


attack("with another nonce", False, change_in(HELLO, 0), PROOF_TEXT)
attack("with another role", False, change_in(HELLO, 48), PROOF_TEXT)
attack("with other security", False, change_in(HELLO, 49), "security for this network")
finish()

# SPDX-License-Identifier: BSD-3-Clause
"""A member gives names and texts that a terminal obeys (its title, its colours, what was written before), and a newline, by
which a line of a log can be forged: all of them are shown as \\xNN."""
from peer import *

EVIL = b"\x1b]0;owned\x07\x1b[2J\nmad: core: error: forged\xc2\x9b31m\xff"
PLAIN = r"\x1b]0;owned\x07\x1b[2J\x0amad: core: error: forged\xc2\x9b31m\xff"


def is_plain(lines):
    return not any(c < " " or "\x7f" <= c for line in lines for c in line)


# The name of a network, in the address of an unreachable peer: in the log, and in an event.
target = Target("target", {"MAD_LOG": "debug", "MAD_DRIVERS": "self,tcp"})
nowhere = make_address(os.urandom(16), [(b"tcp", EVIL, b"\4\1\0\x7f\0\0\1\x20")])
target.say("peer " + nowhere.hex())
number = target.wait("peer ", 5).split()[1]
target.say("send %s x" % number)
target.wait("sent to", 10)
target.drain()
shown = target.holding(PLAIN[:30])
check("network: shown", len(shown) > 0, *target.lines)
check("network: nothing for a terminal", is_plain(target.lines), *[repr(line) for line in target.lines])
check("network: no line of its own", not [line for line in target.lines if line.startswith("mad: core: error: forged")])
check("network: an event", len([line for line in shown if line.startswith("event: ")]) > 0, *target.lines)
check("the target answers", target.answers())
target.end()

# The text of a closed stream: in the log of the gateway, and in the fragment that the gateway forwards.
gateway = Target("gateway", dict(GATEWAY, MAD_DRIVERS="tcp,self,virtual", MAD_LOG="debug"))
network = find(gateway.address, b"tcp")[1]
virtual = find(gateway.address, b"virtual")[1]


def member(host, flags):
    return make_address(os.urandom(16), [(b"tcp", network, b"\4\1\0\x7f\0\0\1\x08"), (b"virtual", virtual, flags + host)])


def fragment_of(s, kind):
    """Return the body of the next fragment of this kind, and its label."""
    while True:
        what, flags, _, n, _, label = struct.unpack("<BBHIII", read_n(s, 16))
        body = read_n(s, n)
        if what == FORWARD and flags & 0x7F == kind:
            return body, label


there = member(b"b", b"\4")
source, left = dial(gateway.address, member(b"a", b"\0")), dial(gateway.address, there, role=GATEWAY_ROLE)
source.sendall(fragment(F_OPEN, open_body(there), channel=16))
_, label = fragment_of(left, F_OPEN)
left.sendall(fragment(F_CLOSE, close_body(3, 0, EVIL), label=label, opener=False))
body, _ = fragment_of(source, F_CLOSE)
check("close: passed on plain", body[32:].decode("latin1") == PLAIN, body[32:])
gateway.drain()
check("close: nothing for a terminal", is_plain(gateway.lines), *[repr(line) for line in gateway.lines])
check("the gateway answers", gateway.answers())
gateway.end()
finish()

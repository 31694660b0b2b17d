# SPDX-License-Identifier: BSD-3-Clause
"""A member opens a stream on which 65535 gateways may follow, so that gateways which have lost their ways may hand it to each
other for as long: the first gateway lets no more follow than an end of this library asks for."""
from peer import *

ALLOWED = 16  # maximum number of gateways on a path: GW_HOPS in state.h

gateway = Target("gateway", dict(GATEWAY, MAD_DRIVERS="tcp,self,virtual"))
network = find(gateway.address, b"tcp")[1]
virtual = find(gateway.address, b"virtual")[1]


def member(host, flags):
    return make_address(os.urandom(16), [(b"tcp", network, b"\4\1\0\x7f\0\0\1\x08"), (b"virtual", virtual, flags + host)])


def followers(asked, label):
    """Return the number of further gateways that the gateway permits, as the next process sees it; None if it forwards
    nothing."""
    source.sendall(fragment(F_OPEN, open_body(there, stream=label + 1), label=label, channel=asked))
    left.settimeout(5)
    try:
        while True:
            kind, flags, channel, n, _, _ = struct.unpack("<BBHIII", read_n(left, 16))
            read_n(left, n)
            if kind == FORWARD and flags & 0x7F == F_OPEN:
                return channel
    except (socket.timeout, EOFError):
        return None


there = member(b"b", b"\4")  # a daemon: streams to it use the lane on which it has connected
source, left = dial(gateway.address, member(b"a", b"\0")), dial(gateway.address, there, role=GATEWAY_ROLE)
for label, (asked, expected) in enumerate(((ALLOWED, ALLOWED - 1), (1, 0), (65535, ALLOWED - 1), (ALLOWED + 1, ALLOWED - 1))):
    got = followers(asked, label)
    check("%d gateways may follow" % asked, got == expected, "the next process sees %s, not %d" % (got, expected))
gateway.drain()
said = gateway.holding("gateways may follow")
check("explained once", len(said) == 1, *(said or gateway.lines))
check("the gateway answers", gateway.answers())
gateway.end()
finish()

# SPDX-License-Identifier: BSD-3-Clause
"""A member announces channels that nobody opens: all numbers at once; all numbers again on one connection after
another; and channels with ever new names, each of which it closes again."""
from peer import *

BOUND = 4096  # "channels" in doc/limits.md
target = Target("target", {"MAD_DRIVERS": "tcp,self"})
before = target.memory()


def flood(names, close):
    """Announce channels from a new peer, and return how many names were sent before the target ended the peer."""
    flooder = dial(target.address, make_address(os.urandom(16), [SELF]))
    flooder.settimeout(20)
    try:
        for i in range(names):
            number = i % 65535
            flooder.sendall(packet(CHANNEL, channel=number, body=b"c%08d\0" % i) +
                            (packet(CLOSE, channel=number) if close else b""))
            if close and i % 64 == 63:
                read_n(flooder, 64 * 16)  # the answers: CLOSED
        flooder.sendall(packet(CREDIT, body=bytes(8)))
        time.sleep(0.2)
        flooder.sendall(packet(CREDIT, body=bytes(8)))
    except (OSError, EOFError):
        return False
    return True


kept = flood(65535, False)
check("65,535 channels are too many", not kept)
line = target.wait("channels that are not open here", 10)
check("one line says what, how much, how much is allowed, and the remedy", line and "4096 are allowed" in line, target.lines)
grown = target.memory() - before
check("memory is bounded: %.1f MiB more" % grown, grown < 8)
for _ in range(8):
    flood(4096, False)
target.drain(1)
grown = target.memory() - before
check("what lost peers had announced is given back: %.1f MiB more" % grown, grown < 24)
first = target.memory()
check("names that are closed again are no matter", flood(40000, True))
grown = target.memory() - first
check("and leave nothing: %.1f MiB more" % grown, grown < 8)
member = Target("member", {"MAD_DRIVERS": "tcp,self"})
said = member.send(target, "hello")
check("a member is served", said and "success" in said and target.wait("hello", 5), said)
member.end()
target.end()
finish()

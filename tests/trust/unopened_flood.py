# SPDX-License-Identifier: BSD-3-Clause
"""A member sends as much as its credits allow on channels that nobody opens: on many channels at once; and from ever
new identities, which leave and are not forgotten while their messages wait."""
from peer import *

target = Target("target", {"MAD_DRIVERS": "tcp,self"})
before = target.memory()
FLOOR = 65536


def fill(channels, name):
    """Use up the credit floor of each of these channels with messages of 0 bytes, from a new peer; return False if the
    peer was ended."""
    flooder = dial(target.address, make_address(os.urandom(16), [SELF]))
    flooder.settimeout(20)
    empty = b"".join(packet(MSG, 3, 0, b"", seq, 64) for seq in range(FLOOR // 64))
    try:
        for c in range(channels):
            flooder.sendall(packet(CHANNEL, channel=c, body=b"%s%d\0" % (name, c)) +
                            empty.replace(packet(MSG, 3, 0, b"", 0, 0)[:4], packet(MSG, 3, c, b"", 0, 0)[:4]))
        for _ in range(2):
            time.sleep(0.2)
            flooder.sendall(packet(CREDIT, body=bytes(8)))
    except OSError:
        return False
    return True


check("a little is kept for who opens the channel later", fill(4, b"few"))
check("4,000 channels full of messages are too much", not fill(4000, b"many"))
line = target.wait("wait on channels that are not open here", 10)
check("one line says what, how much, how much is allowed, and the remedy", line and "67108864 are allowed" in line,
      target.lines[-5:])
for i in range(12):
    fill(60, b"n%d-" % i)
target.drain(0.5)
grown = target.memory() - before
check("lost peers' messages are bounded, too: %.0f MiB more" % grown, grown < 360)
member = Target("member", {"MAD_DRIVERS": "tcp,self"})
said = member.send(target, "hello")
check("a member is served", said and "success" in said and target.wait("hello", 5), said)
member.end()
target.end()
finish()

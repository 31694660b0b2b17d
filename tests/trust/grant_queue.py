# SPDX-License-Identifier: BSD-3-Clause
"""A member announces blocks that the target does not want, and does not read the answers (GRANT, CREDIT): they pile up at the
target, up to a bound."""
from peer import *

BOUND = 8  # MiB, "ctrl" in doc/limits.md
BLOCKS = 900
target = Target("target", {"MAD_DRIVERS": "tcp,self"})
flooder = dial(target.address, make_address(os.urandom(16), [SELF]))
flooder.settimeout(20)
before = target.memory()
inline = struct.pack("<Q", 1) + b"x"
announced = b"".join(struct.pack("<QII", 100000 | 1 << 48 | 1 << 50, 1 << 20 | i, 0) for i in range(BLOCKS))


def taken():
    """Wait until the target has taken the message, and so returned its credit; False if the connection has ended."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        got = [line for line in target.lines if line.startswith("got from")]
        if got:
            target.lines.remove(got[0])
            return True
        if target.holding("peer 1: "):
            return False
        target.read(0.05)
    return False


flooder.sendall(packet(CHANNEL, channel=1, body=b"chat\0"))
sent = 0
try:
    for seq in range(4000):
        body = inline + announced
        data = packet(MSG, 3, 1, body, seq, cost(16 + len(body)))
        flooder.sendall(data)
        sent += len(data)
        if not taken():
            break
except OSError:
    pass
grown = target.memory() - before
check("memory is bounded: %.0f MiB more after %d MiB" % (grown, sent >> 20), grown < BOUND + 8)
line = target.wait("control packets wait for it to read", 10)
check("one line says what, how much, how much is allowed, and the remedy", line and "8388608 are allowed" in line,
      target.lines[-5:])
member = Target("member", {"MAD_DRIVERS": "tcp,self"})
said = member.send(target, "hello")
check("a member is served", said and "success" in said and target.wait("hello", 5), said)
member.end()
target.end()
finish()

# SPDX-License-Identifier: BSD-3-Clause
"""A member sends requests (CHANNEL, CLOSE) and does not read the answers (CLOSED): these pile up at the target, up to a
bound."""
from peer import *

BOUND = 8  # MiB, "ctrl" in doc/limits.md
target = Target("target", {"MAD_DRIVERS": "tcp,self"})
flooder = dial(target.address, make_address(os.urandom(16), [SELF]))
flooder.settimeout(20)
before = target.memory()
asked = (packet(CHANNEL, channel=1, body=b"x\0") + packet(CLOSE, channel=1)) * 4000
sent = 0
try:
    for _ in range(400):
        flooder.sendall(asked)
        sent += len(asked)
except OSError:
    pass
grown = target.memory() - before
check("memory is bounded: %.0f MiB more after %d MiB" % (grown, sent >> 20), grown < BOUND + 8)
line = target.wait("control packets wait for it to read", 10)
check("one line says what, how much, how much is allowed, and the remedy", line and "8388608 are allowed" in line, target.lines)
target.drain()
check("one line", len([x for x in target.holding("control packets wait") if "event" not in x]) == 1, target.lines)
member = Target("member", {"MAD_DRIVERS": "tcp,self"})
said = member.send(target, "hello")
check("a member is served", said and "success" in said and target.wait("hello", 5), said)
check("it still answers", target.answers(), target.lines[-5:])
member.end()
target.end()
finish()

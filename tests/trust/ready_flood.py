# SPDX-License-Identifier: BSD-3-Clause
"""A member sends a gateway fragments that cost no credit, to a process that does not read: READY of any length, READY
beyond what credit allows, and MOVE.  The gateway stays within its budget."""
from peer import *

MIB = 1 << 20
ENV = dict(GATEWAY, MAD_DRIVERS="tcp,self,virtual", MAD_FORWARD_BUDGET="2M")


def start():
    """Start a gateway, a process that reads nothing, and a process that floods it, with a stream to the second."""
    target = Target("gateway", ENV)
    net = find(target.address, b"tcp")[1]
    virtual = find(target.address, b"virtual")[1]

    def own(identity, host, flags):
        return make_address(identity, [(b"tcp", net, b"\x04" + struct.pack("<H", 2049) + socket.inet_aton("127.0.0.1")),
                                       (b"virtual", virtual, flags + host)])
    far = own(os.urandom(16), b"b", b"\4")
    deaf = dial(target.address, far, role=GATEWAY_ROLE)
    flooder = dial(target.address, own(os.urandom(16), b"a", b"\0"))
    flooder.settimeout(10)
    flooder.sendall(fragment(F_OPEN, open_body(far), label=0, channel=16))
    deaf.settimeout(5)
    return target, deaf, flooder, len(deaf.recv(4096))


def flood(name, body, count, text, kind=F_READY, limit=4):
    target, deaf, flooder, opened = start()
    check("the stream is opened, " + name, opened > 24, opened)
    before = target.memory()
    blob = fragment(kind, body, seq=2, label=0)
    many = max(1, (1 << 16) // len(blob))
    sent = 0
    try:
        while sent < count:
            flooder.sendall(blob * many)
            sent += len(blob) * many
            target.read()
    except OSError:
        pass
    target.drain(0.5)
    grown = target.memory() - before
    check("memory keeps within the budget, %s: %.1f MiB more after %.1f MiB" % (name, grown, sent / MIB), grown < limit)
    if text:
        check("one line says why, " + name, len([x for x in target.holding(text) if "event" not in x]) == 1, target.lines)
    check("it still answers, " + name, target.answers(), target.lines[-5:])
    target.end()


flood("long READY", bytes(8 * MIB - 64), 40 * MIB, "a fragment of kind 5 with")
flood("READY", READY_BODY, 16 * MIB, "more fragments than credits")
flood("MOVE", b"", 8 * MIB, None, kind=F_MOVE)
finish()

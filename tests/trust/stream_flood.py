# SPDX-License-Identifier: BSD-3-Clause
"""A member floods a gateway with fragments about streams, and reads nothing: labels that skip thousands, probes
(PING), refused streams, acknowledgements, announcements of gateways that do not exist, and handshakes with the
gateway itself."""
from peer import *

ENV = dict(GATEWAY, MAD_DRIVERS="tcp,self,virtual", MAD_FORWARD_BUDGET="2M")


class Gateway:
    def __init__(self):
        self.target = Target("gateway", ENV)
        self.net = find(self.target.address, b"tcp")[1]
        self.virtual = find(self.target.address, b"virtual")[1]
        self.before = self.target.memory()
        self.members = []

    def address(self, host, flags=b"\0", port=2049, pad_to=0):
        return make_address(os.urandom(16), [(b"tcp", self.net, b"\x04" + struct.pack("<H", port) +
                                              socket.inet_aton("127.0.0.1")), (b"virtual", self.virtual, flags + host)],
                            pad_to)

    def member(self):
        s = dial(self.target.address, self.address(b"a"))
        s.settimeout(10)
        self.members.append(s)  # if closed with unread answers, it would be reset, and the gateway lose data
        return s

    def flood(self, s, fragments):
        """Send all of them, or stop when the gateway ends the connection."""
        part = b""
        try:
            for f in fragments:
                part += f
                if len(part) > 1 << 16:
                    s.sendall(part)
                    self.target.read()
                    part = b""
            s.sendall(part)
        except OSError:
            return False
        return True

    def mapped(self):
        """Return the private mapped memory, in MiB, pages of zeros included."""
        with open("/proc/%d/status" % self.target.process.pid) as f:
            return int(next(line for line in f if line.startswith("VmData")).split()[1]) / 1024

    def end(self, name, limit=4):
        self.target.drain(0.5)
        grown = self.target.memory() - self.before
        check("memory is bounded, %s: %.1f MiB more" % (name, grown), grown < limit)
        check("it still answers, " + name, self.target.answers(), self.target.lines[-5:])
        self.target.end()


def lines(g, text):
    g.target.wait(text, 10)
    return [x for x in g.target.holding(text) if "event" not in x]


# One stream stays, while others, with much higher numbers, come and go.
g = Gateway()
s = g.member()
far = g.address(b"b", b"\4")
deaf = dial(g.target.address, far, role=GATEWAY_ROLE)
deaf.settimeout(0.1)
good = g.flood(s, [fragment(F_OPEN, open_body(far, stream=1), label=0, channel=16)])
mapped = g.mapped()
for i in range(600):
    label = 4096 * (i + 1)
    good &= g.flood(s, [fragment(F_OPEN, open_body(far, stream=2 + i), label=label, channel=16),
                        fragment(F_CLOSE, close_body(2, 0), label=label)])
    for end in (s, deaf):  # so that nothing else is at its bound
        try:
            end.settimeout(0.001)
            end.recv(1 << 16)
        except OSError:
            pass
    s.settimeout(10)
check("labels that skip thousands are taken", good)
mapped = g.mapped() - mapped
check("their table follows the streams that are open: %.1f MiB more are mapped" % mapped, mapped < 8)
g.end("labels that skip thousands")
deaf.close()

g = Gateway()
check("questions without a stream end the connection",
      not g.flood(g.member(), (fragment(F_PING, ask=1, label=i) for i in range(400000))))
found = lines(g, "answers about streams wait for it to read")
check("one line says why, questions", len(found) == 1 and "are allowed" in found[0], g.target.lines[-5:])
g.end("questions")

g = Gateway()
nowhere = make_address(os.urandom(16), [(b"virtual", g.virtual, b"\0x")])
g.flood(g.member(), (fragment(F_OPEN, open_body(nowhere, stream=i), label=i, channel=16) for i in range(60000)))
found = lines(g, "answers about streams wait for it to read")
check("one line says why, refused", len(found) == 1 and "are allowed" in found[0], g.target.lines[-5:])
g.end("streams that are refused")

g = Gateway()
for _ in range(4):
    g.flood(g.member(), (fragment(F_KNOW, g.address(b"g", b"\7", pad_to=8000)) for _ in range(1000)))
found = lines(g, "addresses are known from it alone")
check("a line says what is ignored, knowledge", found and "are allowed" in found[0] and "further ones are ignored" in found[0],
      g.target.lines[-5:])
g.end("knowledge")

g = Gateway()
s = g.member()
g.flood(s, [fragment(F_OPEN, open_body(g.target.address), label=0, channel=16)])
g.flood(s, (fragment(F_ACK, label=0, ack=0, ask=1) for _ in range(400000)))
g.end("acknowledgements that are asked for")

g = Gateway()
files = g.target.descriptors()
g.flood(g.member(), (fragment(F_OPEN, open_body(g.target.address, stream=i), label=i, channel=16) for i in range(3000)))
g.target.drain(1)
check("descriptors are bounded: %d more" % (g.target.descriptors() - files), g.target.descriptors() - files < 700)
g.end("handshakes")
finish()

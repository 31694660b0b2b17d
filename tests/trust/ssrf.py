# SPDX-License-Identifier: BSD-3-Clause
"""A member makes a gateway connect to invented addresses.  The gateway makes few connections at a time, on its own
networks only, and does not report what it found there.  Processes that the gateway does not know are reached all the
same."""
from peer import *

TIMEOUT = 1500  # ms: MAD_CONNECT_TIMEOUT
ENV = dict(GATEWAY, MAD_DRIVERS="tcp,self,virtual", MAD_CONNECT_TIMEOUT=str(TIMEOUT))
gateway = Target("gateway", ENV)
net = find(gateway.address, b"tcp")[1]
virtual = find(gateway.address, b"virtual")[1]


def address(host, port, ip="127.0.0.1", identity=None):
    """The address of a daemon, so that its streams use existing connections."""
    return make_address(identity or os.urandom(16), [(b"tcp", net, b"\x04" + struct.pack("<H", port) + socket.inet_aton(ip)),
                                                     (b"virtual", virtual, b"\4" + host)])


def listener(backlog):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(backlog)
    return s, s.getsockname()[1]


class Member:
    def __init__(self):
        self.socket = dial(gateway.address, address(b"a", 2049), role=GATEWAY_ROLE)
        self.label = 0
        self.bytes = b""

    def open(self, to, stream=None):
        label, self.label = self.label, self.label + 1
        self.socket.sendall(fragment(F_OPEN, open_body(to, stream=stream or label + 1), label=label, channel=16))
        return label

    def fragments(self, seconds):
        """Yield (when, kind, label, body) of each fragment that arrives."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while len(self.bytes) >= 16:
                n = struct.unpack("<I", self.bytes[4:8])[0]
                if len(self.bytes) < 16 + n:
                    break
                yield time.monotonic(), self.bytes[1] & 0x7f, struct.unpack("<I", self.bytes[12:16])[0], self.bytes[24:16 + n]
                self.bytes = self.bytes[16 + n:]
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                self.bytes += self.socket.recv(65536)
            except TimeoutError:
                pass

    def refusal(self, to, seconds=6):
        """Return (seconds, status, what, text) of the CLOSE that answers; None if there was none."""
        began, label = time.monotonic(), self.open(to)
        for when, kind, of, body in self.fragments(seconds):
            if kind == F_CLOSE and of == label:
                return (when - began,) + struct.unpack("<II", body[:8]) + (body[8:].decode(),)
        return None


# Attempts to learn something about a port.
silent, silent_port = listener(16)
closed, closed_port = listener(1)
closed.close()
answers = {"closed": Member().refusal(address(b"b", closed_port)), "open": Member().refusal(address(b"b", silent_port))}
identity = os.urandom(16)
liar = dial(gateway.address, address(b"b", closed_port, identity=identity), role=GATEWAY_ROLE)
liar.close()
time.sleep(0.3)
answers["claimed by a caller"] = Member().refusal(address(b"b", closed_port, identity=identity))
member = Member()
twice = address(b"b", closed_port)
member.refusal(twice, 0.3)
answers["the second time"] = member.refusal(twice)
check("all calls that fail are answered", all(answers.values()), answers)
if all(answers.values()):
    check("with the same words, which say nothing of the port",
          len({a[1:] for a in answers.values()}) == 1 and "refused" not in answers["closed"][3], answers)
    times = [a[0] for a in answers.values()]
    check("and after the same time", min(times) > TIMEOUT / 1000 and max(times) - min(times) < 0.7, answers)

# How many calls.
hole, port = listener(2048)
files = gateway.descriptors()
member = Member()
for _ in range(900):
    member.open(address(b"b", port))
time.sleep(1)
hole.setblocking(False)
called = []
try:
    while True:
        called.append(hole.accept()[0])
except BlockingIOError:
    pass
check("%d calls of 900 are made" % len(called), len(called) <= 16)
check("descriptors: %d more" % (gateway.descriptors() - files), gateway.descriptors() - files <= 20)
line = gateway.wait("calls are under way for it", 5)
check("a line says what is refused", line and "16 are allowed" in line, gateway.lines[-5:])

# Where to.
for name, to in (("another subnet", address(b"b", 7000, "10.99.0.1")), ("a privileged port", address(b"b", 22)),
                 ("a host that is not in the file", address(b"z", 7000))):
    said = Member().refusal(to, 3)
    check(name + " is refused at once", said and said[0] < 0.5 and not said[3].count("refused"), said)
check("a line says so", gateway.wait("which this gateway shares with that host: this gateway does not connect to it", 5), gateway.lines[-5:])

# A process that the gateway does not know is reached; its handshake comes back.
time.sleep(TIMEOUT / 1000 + 1)
there = Target("there", dict(ENV, MAD_HOST="b"))
member = Member()
# The streams of a rank use a lane of their own; G makes the link of that lane when a stream needs it.
label = member.open(there.address)
caller = os.urandom(16)
member.socket.sendall(fragment(F_HELLO, hello_frame(uid(there.address), caller), seq=1, label=label))
back = next((body for _, kind, of, body in member.fragments(5) if kind == F_HELLO and of == label), b"")
check("a process that the gateway does not know is reached", back[:4] == struct.pack("<I", MAGIC), back, gateway.lines[-5:])
there.end()
check("it still answers", gateway.answers(), gateway.lines[-5:])
gateway.end()
finish()

# SPDX-License-Identifier: BSD-3-Clause
"""Gateways between A and B, written by hand, of a virtual channel that is encrypted from end to end.  They have the gateways'
key and see all fragments.  Each of them drops, repeats, reorders, changes or makes up some; then nothing wrong is delivered,
and the cause is reported.  An honest one beside it brings what the other one has spoilt."""
import threading

from peer import *

NETWORKS = ('networks = { x = { driver = "tcp"; hosts = "a,g,h"; }; y = { driver = "tcp"; hosts = "b,g,h"; }; };'
            'virtual_channels = { all = { over = "x, y"; encrypt = "%s"; }; };')
HEAD = struct.Struct("<BBHIII")
OPEN = struct.Struct("<QQII16s")
CARRIED = (F_PACKET, F_HELLO, F_READY, F_ACK)


class Fragment:
    def __init__(self, header, body):
        _, flags, self.channel, _, self.seq, self.label = HEAD.unpack(header)
        self.kind, self.opener, self.body = flags & 0x7F, flags & OPENER, body

    def bytes(self):
        return HEAD.pack(FORWARD, self.kind | self.opener, self.channel, len(self.body), self.seq, self.label) + self.body

    def copy(self):
        return Fragment(self.bytes()[:16], self.body)


class Gateway:
    """A process on host, connected to A and B.  spoil(gateway, way, fragment) returns the fragments that go on instead; way
    is 0 from A to B, 1 back."""

    def __init__(self, host, a, b, spoil=None):
        network = find(a.address, b"virtual")[1]
        self.own = make_address(os.urandom(16), [SELF, (b"virtual", network, b"\x07" + host)])
        self.ends = [dial(t.address, self.own, role=GATEWAY_ROLE) for t in (a, b)]
        self.spoil = spoil or (lambda gateway, way, fragment: [fragment])
        self.seen = b""
        self.passed = 0
        self.labels = [0, 0]  # next label of our own, on the link to A and on the link to B
        self.routes = {}      # (end, label, opened by us) -> (other end, label, opened by us)
        self.lock = threading.Lock()
        self.stop = False
        for end in self.ends:
            end.settimeout(0.1)
        self.threads = [threading.Thread(target=self.serve, args=(end,)) for end in (0, 1)]
        for t in self.threads:
            t.start()

    def read(self, end, n):
        out = b""
        while len(out) < n:
            try:
                got = self.ends[end].recv(n - len(out))
            except TimeoutError:
                if self.stop:
                    return None
                continue
            except OSError:
                return None
            if not got:
                return None
            out += got
        return out

    def serve(self, end):
        while not self.stop:
            header = self.read(end, 16)
            body = header and self.read(end, struct.unpack("<I", header[4:8])[0])
            if body is None:
                return
            with self.lock:
                self.seen += header + body
                if header[0] == FORWARD:
                    self.take(end, Fragment(header, body))

    def say(self, end, fragment):
        try:
            self.ends[end].settimeout(5)
            self.ends[end].sendall(fragment.bytes())
            self.ends[end].settimeout(0.1)
        except OSError:
            pass

    def say_to(self, end, ours, label, kind, body, **head):
        """Forward a fragment about a stream; opened by us: on this hop."""
        self.say(end, Fragment(*split(fragment(kind, body, label=label, opener=ours, **head))))

    def take(self, end, f):
        other = 1 - end
        if f.kind in (F_OPEN, F_TRY):
            label, self.labels[other] = self.labels[other], self.labels[other] + 1
            self.routes[end, f.label, False] = other, label, True
            self.routes[other, label, True] = end, f.label, False
            self.say_to(end, False, f.label, F_CREDIT, struct.pack("<Q", 1 << 62))
            f.channel -= 1
            f.body = f.body[:8] + struct.pack("<Q", 1 << 62) + f.body[16:]
        elif f.kind == F_PING:
            if f.body[4]:
                self.say_to(end, not f.opener, f.label, F_PING, b"")
            return
        elif f.kind not in CARRIED + (F_CLOSE,):
            return
        self.passed += f.kind == F_PACKET
        for out in self.spoil(self, end, f):
            self.pass_on(end, out)

    def pass_on(self, end, f):
        """Forward as an honest gateway does."""
        route = self.routes.get((end, f.label, not f.opener))
        if not route:
            return
        out = f.copy()
        out.label, out.opener = route[1], OPENER if route[2] else 0
        self.say(route[0], out)

    def streams(self, end):
        """Return (label, opened by us) of the streams to this end."""
        return [(label, ours) for e, label, ours in self.routes if e == end]

    def end(self):
        self.stop = True
        for end in self.ends:
            end.close()
        for t in self.threads:
            t.join()


def split(bytes_):
    return bytes_[:16], bytes_[16:]


def changed(f, at):
    out = f.copy()
    out.body = f.body[:at] + bytes([f.body[at] ^ 1]) + f.body[at + 1:]
    return out


def world(encrypt="end-to-end", **more):
    text = (NETWORKS % encrypt).encode().hex()
    env = dict(MAD_DRIVERS="self,tcp,virtual", MAD_TOPOLOGY="hex:" + text, MAD_FORWARD_DETECT="1000",
               MAD_FORWARD_DEADLINE="4000", **more)
    return [Target(host.upper(), dict(env, MAD_HOST=host, MAD_TCP_NETWORK="lo=" + net)) for host, net in ("ax", "by")]


def know(a, b):
    """Return the number that A has for B."""
    a.lines.clear()
    a.say("peer " + b.address.hex())
    return a.wait("peer ", 5).split()[1]


def send(a, number, what, seconds=15):
    a.lines = [line for line in a.lines if "sent to" not in line]
    a.say(what % number)
    return a.wait("sent to", seconds)


SECRET = "the small secret"
LONG = "the long secret " * 300   # header and body are sealed separately
BIG = 700000                      # sent after a grant, in several fragments


def messages(a, b, number):
    """Send one message of each kind from A; return True if all arrive, and are right."""
    said = [send(a, number, "send %%s %s" % SECRET), send(a, number, "send %%s %s" % LONG),
            send(a, number, "big %%s %d" % BIG)]
    good = all(s and "success" in s for s in said) and b.wait("got big", 10) and b.holding(": right")
    return bool(good and b.holding("got from peer") and b.holding(SECRET) and b.holding(LONG[:100])), said


def wrong(t):
    """Return the messages that were delivered but not sent."""
    out = [line for line in t.lines if "WRONG" in line]
    return out + [line for line in t.lines if line.startswith("got from") and SECRET not in line and
                  not LONG.startswith(line.split(": ", 1)[1])]


def honest():
    a, b = world()
    gateway = Gateway(b"g", a, b)
    good, said = messages(a, b, know(a, b))
    check("an honest gateway brings the messages", good, said, a.lines, b.lines)
    check("what it has seen shows nothing of them", gateway.passed > 5 and b"secret" not in gateway.seen and
          b"chat" not in gateway.seen)
    gateway.end()
    for t in (a, b):
        t.end()
    a, b = world("none")
    gateway = Gateway(b"g", a, b)
    good, said = messages(a, b, know(a, b))
    check("without encryption it would", good and b"the small secret" in gateway.seen and b"the big secret" in gateway.seen,
          said, a.lines, b.lines)
    gateway.end()
    for t in (a, b):
        t.end()


def attack(name, spoil, cause, alone=True, beside=True):
    """Send messages through a gateway that spoils fragments; first alone, then with an honest gateway in parallel."""
    for gateways in [1] * alone + [2] * beside:
        a, b = world()
        state.clear()
        bad = Gateway(b"g", a, b, spoil)
        number = know(a, b)
        first = send(a, number, "send %%s %s" % SECRET)
        check("%s, %d: the first comes" % (name, gateways), first and "success" in first and b.wait(SECRET, 10), a.lines, b.lines)
        good_one = Gateway(b"h", a, b) if gateways == 2 else None
        state["armed"] = True
        good, said = messages(a, b, number)
        for t in (a, b):
            t.drain()
        lines = [line for t in (a, b) for line in t.holding(cause) if line.startswith("mad:")]
        check("%s, %d: nothing wrong is delivered" % (name, gateways), not wrong(a) and not wrong(b), wrong(a), wrong(b))
        check("%s, %d: the cause is reported" % (name, gateways), 1 <= len(lines) <= 4, a.lines, b.lines)
        if good_one:
            check("%s: by the honest gateway all comes" % name, good, said, a.lines, b.lines)
            good_one.end()
        check("%s, %d: both go on" % (name, gateways), a.answers() and b.answers())
        bad.end()
        for t in (a, b):
            t.end()


state = {}


def counts(kind, way=0):
    """Return how many of these have arrived since the attack began."""
    key = kind, way
    state[key] = state.get(key, 0) + 1
    return state[key]


def change(at):
    def spoil(gateway, way, f):
        if state.get("armed") and f.kind == F_PACKET and not way and counts("change") % 3 == 0 and len(f.body) > at:
            return [changed(f, at)]
        return [f]
    return spoil


def change_long(gateway, way, f):
    """Change the body of a long packet."""
    if state.get("armed") and f.kind == F_PACKET and not way and len(f.body) > 2000:
        return [changed(f, 1500)]
    return [f]


def change_number(gateway, way, f):
    if state.get("armed") and f.kind == F_PACKET and not way and counts("number") == 2:
        f.seq -= 1
    return [f]


def drop(gateway, way, f):
    if state.get("armed") and f.kind == F_PACKET and not way and counts("drop") == 1:
        return []
    return [f]


def repeat(gateway, way, f):
    if state.get("armed") and f.kind == F_PACKET and not way:
        return [f, f]
    return [f]


def reorder(gateway, way, f):
    if not state.get("armed") or f.kind != F_PACKET or way:
        return [f]
    held = state.pop("held", None)
    if held:
        return [f, held]
    state["held"] = f
    return []


def forge_ack(gateway, way, f):
    """Acknowledge more than has arrived."""
    if state.get("armed") and f.kind == F_PACKET and not way and counts("ack") == 2:
        forged = f.copy()
        forged.kind, forged.seq, forged.body = F_ACK, 1, struct.pack("<II", f.seq + 3, 0) + bytes(16)
        for label, ours in gateway.streams(0):
            forged.label, forged.opener = label, OPENER if ours else 0
            gateway.say(0, forged)
        return []
    return [f]


def forge_head_ack(gateway, way, f):
    """Change the header of a packet of B."""
    if state.get("armed") and f.kind == F_PACKET and way:
        return [changed(f, 0)]
    return [f]


def forge_ready(gateway, way, f):
    if state.get("armed") and f.kind == F_PACKET and not way and counts("ready") == 1:
        forged = f.copy()
        forged.kind, forged.body = F_HELLO, f.body[:8] + b"x"
        return [forged, f]
    return [f]


def forge_close(gateway, way, f):
    if state.get("armed") and f.kind == F_PACKET and not way and counts("close") == 2:
        forged = f.copy()
        forged.kind, forged.seq, forged.body = F_CLOSE, 0, bytes(8) + struct.pack("<II16s", 5, 0, bytes(16)) + b"the peer has ended"
        return [forged]
    return [f]


def take_over():
    """A gateway that has seen the stream's number, turn and proofs resumes it as if it were A."""
    for encrypt in ("end-to-end", "none"):
        a, b = world(encrypt)
        gateway = Gateway(b"g", a, b)
        number = know(a, b)
        said = send(a, number, "send %%s %s" % SECRET)
        opened = gateway.seen.find(struct.pack("<BB", FORWARD, F_OPEN | OPENER))
        body = gateway.seen[opened + 24:]
        stream = OPEN.unpack(body[:OPEN.size])[1]
        address = body[OPEN.size:OPEN.size + struct.unpack("<H", body[OPEN.size + 2:OPEN.size + 4])[0]]
        intruder = dial(b.address, make_address(os.urandom(16), [SELF]))
        for label, (kind, turn, ack) in enumerate([(F_OPEN, 2, 8), (F_TRY, 4, 8), (F_OPEN, 0x7FFFFFF0, 1)]):
            intruder.sendall(fragment(kind, open_body(address, stream=stream, turn=turn, ack=ack, proof=os.urandom(16)),
                                      label=label, channel=5))
        closes = 0
        try:
            while closes < 3:
                header = read_n(intruder, 16)
                f = Fragment(header, read_n(intruder, struct.unpack("<I", header[4:8])[0]))
                closes += header[0] == FORWARD and f.kind == F_CLOSE
                check("%s: nothing of the stream comes to the intruder" % encrypt, header[0] != FORWARD or f.kind == F_CLOSE, f.kind)
        except (EOFError, OSError) as e:
            check("%s: the intruder is answered" % encrypt, False, e)
        b.drain()
        check("%s: each attempt is refused" % encrypt, closes == 3, closes)
        lines = b.holding("but not the secret of its ends")
        check("%s: one line says so" % encrypt, len(lines) == 1, b.lines)
        good, again = messages(a, b, number)
        check("%s: the stream goes on as it was" % encrypt, good and said and "success" in said, again, a.lines, b.lines)
        intruder.close()
        gateway.end()
        for t in (a, b):
            t.end()


def replay():
    """The stream moves from one gateway to another, and both record it.  The second gateway sends again what the first
    has seen."""
    a, b = world()
    first, taken = Gateway(b"g", a, b, lambda gateway, way, f: [f] + old(gateway, way, f)), []
    second_opens = []

    def old(gateway, way, f):
        if not way and f.kind in (F_PACKET, F_ACK, F_READY):
            taken.append(f.copy())
        return []

    def again(gateway, way, f):
        """Replace each fragment by the one that had the same number before, and then send the whole record again."""
        if f.kind == F_OPEN:
            second_opens.append(f.copy())
        if way or f.kind != F_PACKET or state.get("replayed"):
            return [f]
        state["replayed"] = True
        out = []
        for t in taken:
            t = t.copy()
            t.label, t.opener = f.label, f.opener
            out.append(t)
        return out + [f]

    state.clear()
    number = know(a, b)
    said = send(a, number, "send %%s %s" % SECRET)
    second = Gateway(b"h", a, b, again)
    first.end()
    good, again_said = messages(a, b, number)
    b.drain()
    check("replay: the stream has moved to the other gateway", second.passed > 0 and second_opens, a.lines, b.lines)
    check("replay: nothing is delivered twice", len(b.holding(SECRET)) == 2 and not wrong(b), b.lines)
    check("replay: the cause is reported", b.holding("manipulates data") or b.holding("sent a fragment of this stream again"), b.lines)
    check("replay: all comes", good, again_said, a.lines, b.lines)
    b.lines.clear()
    intruder = dial(b.address, make_address(os.urandom(16), [SELF]))
    for label, f in enumerate(second_opens):
        intruder.sendall(fragment(f.kind, f.body[8:], label=label, channel=5))
    refused = 0
    try:
        while refused < len(second_opens):
            header = read_n(intruder, 16)
            f = Fragment(header, read_n(intruder, struct.unpack("<I", header[4:8])[0]))
            refused += header[0] == FORWARD and f.kind == F_CLOSE
            check("replay: nothing comes by the old opening", header[0] != FORWARD or f.kind == F_CLOSE, f.kind)
    except (EOFError, OSError):
        pass
    check("replay: the old opening, with its proof, is refused", second_opens and refused == len(second_opens), refused)
    good, again_said = messages(a, b, number)
    check("replay: the stream goes on", good, again_said, a.lines, b.lines)
    intruder.close()
    second.end()
    for t in (a, b):
        t.end()


def unproved_ready():
    """The proof that ends the handshake is not the peer's: no packet is sent to its author."""
    for encrypt in ("end-to-end", "none"):
        a, b = world(encrypt)
        gateway = Gateway(b"g", a, b, lambda gateway, way, f: [changed(f, 12) if f.kind == F_READY and not way else f])
        said = send(a, know(a, b), "send %%s %s" % SECRET)
        for t in (a, b):
            t.drain()
        check("%s: without the proof of the ends nothing is delivered" % encrypt, not b.holding("got from"), said, b.lines)
        lines = [line for line in b.lines if "the end of the handshake does not come from the peer" in line and "event" not in line]
        check("%s: the cause is reported" % encrypt, 1 <= len(lines) <= 3, a.lines, b.lines)
        check("%s: both go on" % encrypt, a.answers() and b.answers())
        gateway.end()
        for t in (a, b):
            t.end()


def speaks():
    """A gateway opens a channel itself."""
    a, b = world()
    gateway = Gateway(b"g", a, b)
    b.say("echo x")
    gateway.ends[1].sendall(packet(CHANNEL, channel=0, body=b"chat\0") + message(0, b"made up by a gateway"))
    b.drain(1)
    check("a message of the gateway itself is not taken", not b.holding("made up"), b.lines)
    lines = [line for line in b.holding("only forwards") if line.startswith("mad:")]
    check("one line says so", len(lines) == 1, b.lines)
    check("the process goes on", b.answers())
    gateway.end()
    for t in (a, b):
        t.end()


CASES = {
    "honest": honest,
    "change": lambda: (attack("a byte of the head", change(4), "manipulates data"),
                       attack("a byte of the packet", change(30), "manipulates data"),
                       attack("a byte of a long packet", change_long, "manipulates data")),
    "number": lambda: attack("the number", change_number, "again", alone=False),
    "drop": lambda: attack("dropped", drop, "missing or out of order"),
    "repeat": lambda: attack("repeated", repeat, "again"),
    "reorder": lambda: attack("in another order", reorder, "missing or out of order"),
    "ack": lambda: (attack("an acknowledgement", forge_ack, "an acknowledgement does not come from the peer"),
                    attack("what a head acknowledges", forge_head_ack, "manipulates data")),
    "ready": lambda: attack("a handshake that goes on", forge_ready, "a part of the handshake arrived after its end"),
    "proof": unproved_ready,
    "close": lambda: attack("an end", forge_close, "without the peer's proof"),
    "take_over": take_over,
    "replay": replay,
    "speaks": speaks,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        CASES[chosen]()
    finish()

# SPDX-License-Identifier: BSD-3-Clause
"""A member changes what it has put into shared memory while the target reads it: the length in an address, and the length of
an entry in it, of a gateway that is made known and of streams that are opened.  A second member with that identity then calls,
which has the target use what it keeps."""
import itertools

from peer import *

SECONDS = float(os.environ.get("SECONDS_EACH", "8"))
directory = os.environ["TRUST_SCRATCH"] + "/shm"
os.mkdir(directory, 0o700)
target = Target("target", dict(GATEWAY, MAD_DRIVERS="shm,tcp,self,virtual", MAD_SHM_DIR=directory, MAD_LOG="warning"))
network = find(target.address, b"virtual")[1]


def process(identity, host, *more, pad_to=0):
    """Return the address of a process that forwards on this host."""
    return make_address(identity, [*more, (b"virtual", network, b"\1" + host)], pad_to)


class Flipper:
    """Start a process that changes 16 bits of a link's memory again and again."""

    def __init__(self, fd):
        self.process = subprocess.Popen([BUILD + "/tests/trust/flip", str(fd)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, pass_fds=[fd])

    def flip(self, offset, a, b):
        self.process.stdin.write(b"%d %d %d\n" % (offset, a, b))
        self.process.stdin.flush()
        self.process.stdout.readline()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Attacker:
    """A member over shared memory that changes packets after it has sent them."""

    def __init__(self):
        self.link = Shm(target.address, process(os.urandom(16), b"a", SELF), directory)
        self.flipper = Flipper(self.link.fd)
        self.labels = itertools.count(1)

    def end(self):
        self.flipper.end()
        self.link.socket.close()

    def is_refused(self):
        return readable(self.link.socket, 0)

    def send(self, bytes_, at, to):
        """Send a fragment, and change the 16 bits at offset `at` of its body to `to` and back, again and again."""
        unit = 8
        where = self.link.unit(unit)
        self.link.memory[where:where + len(bytes_) - 16] = bytes_[16:]
        self.flipper.flip(where + at, struct.unpack_from("<H", bytes_, 16 + at)[0], to)
        self.link.cell(bytes_[:16], unit + 1)
        time.sleep(0.01)
        self.flipper.flip(0, 0, 0)


def fragments(attacker, address, entry):
    """Yield (packet, offset of the 16 bits in its body, their other value)."""
    label = next(attacker.labels)
    opening = open_body(address, stream=int.from_bytes(os.urandom(7), "little"))
    yield fragment(F_KNOW, address), 8 + 2, 0xFFFF
    yield fragment(F_KNOW, address), 8 + entry, 0xFFFF
    yield fragment(F_OPEN, opening, label=label, channel=8), 8 + 24 + 2, 0xFFFF
    yield fragment(F_OPEN, opening, label=label + 1, channel=8), 8 + 24 + entry, 0xFFFF
    yield fragment(F_TRY, opening, label=label + 2, channel=8), 8 + 24 + 2, 0xFFFF
    attacker.labels = itertools.count(label + 3)


attacker, tries, refused = None, 0, 0
end = time.monotonic() + SECONDS
while time.monotonic() < end and target.alive():
    identity = os.urandom(16)
    address = process(identity, b"b", tcp_entry("127.0.0.1", 9), pad_to=600)
    entry = address.index(b"\x07virtual") & ~1
    try:
        attacker = attacker or Attacker()
        for what in fragments(attacker, address, entry):
            tries += 1
            attacker.send(*what)
            if attacker.is_refused():
                raise EOFError
        second = dial(target.address, process(identity, b"b", SELF))
        time.sleep(0.01)
        second.close()
    except (OSError, EOFError):
        refused += 1
        if attacker:
            attacker.end()
        attacker = None
    target.read()
if attacker:
    attacker.end()
check("the target lives after %d fragments that change while it reads them" % tries, target.alive(), target.process.poll(),
      target.lines[-5:])
check("it says why a link ended", not refused or target.holding("malformed address") or
      target.holding("a malformed OPEN of a stream"), refused, target.lines[-5:])
member = Target("member", {"MAD_DRIVERS": "tcp,self"})
said = member.send(target, "x")
check("a member is served", said and "success" in said, said)
member.end()
check("it still answers", target.answers(), target.lines[-5:])
check("and ends in order", target.end() in (0, -signal.SIGTERM), target.process.returncode)
finish()

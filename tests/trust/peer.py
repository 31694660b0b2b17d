# SPDX-License-Identifier: BSD-3-Clause
"""A hand-written peer, for attacks on a process of the library: handshake, packets, fragments, the shm driver's memory.

An attack is a script beside this one.  An attack starts a Target, communicates with it through the functions below, and
prints one line per check with check().  doc/wire.md has the layouts."""
import array
import fcntl
import hashlib
import hmac
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD", "build")
KEY = b"0123456789abcdef0123456789abcdef"  # the job's, as target.c has it
MAGIC, VERSION = 0x4844414D, 13
HELLO, CHALLENGE, PROOF, VERDICT, REFUSE = 1, 2, 3, 4, 5
failures = 0


def check(name, good, *why):
    """Print "ok NAME", or "not ok NAME" and the values that show the failure."""
    global failures
    print("%s %s" % ("ok" if good else "not ok", name), flush=True)
    if not good:
        failures += 1
        for w in why:
            print("  %s" % (w,), flush=True)
    return good


def finish():
    sys.exit(1 if failures else 0)


def readable(stream, seconds):
    """True if there is something to read within these seconds.  (select refuses descriptors from 1024 on.)"""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Target:
    """A process that uses the library (target.c), driven by lines on its standard input."""

    def __init__(self, name, env=None, program=None):
        full = dict(os.environ, MAD_TCP_INTERFACES="lo", MAD_SPIN="0")
        full.update(env or {})
        self.name = name
        self.lines = []
        self.partial = b""
        self.process = subprocess.Popen([program or BUILD + "/tests/trust/target"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=full, bufsize=0)
        line = self.wait("address ", 30)
        if not line:
            sys.exit("target %s did not start: %s" % (name, self.lines))
        self.address = bytes.fromhex(line.split()[1])

    def read(self, seconds=0.0):
        """Read the lines that have arrived; return False if there were none within these seconds."""
        if not readable(self.process.stdout, seconds):
            return False
        got = os.read(self.process.stdout.fileno(), 65536)
        if not got:
            return False
        lines = (self.partial + got).split(b"\n")
        self.partial = lines.pop()
        self.lines += [line.decode("latin1") for line in lines]
        return True

    def wait(self, text, seconds):
        """Return the first line that contains the text; None if there was none within these seconds."""
        end = time.monotonic() + seconds
        while True:
            for line in self.lines:
                if text in line:
                    return line
            if time.monotonic() > end:
                return None
            self.read(0.05)

    def drain(self, seconds=0.3):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)

    def holding(self, text):
        return [line for line in self.lines if text in line]

    def say(self, text):
        try:
            os.write(self.process.stdin.fileno(), (text + "\n").encode())
        except BrokenPipeError:
            pass

    def send(self, target, text, seconds=15):
        """Send a message to another target; return the line with its status."""
        self.lines.clear()
        self.say("peer " + target.address.hex())
        number = self.wait("peer ", 5).split()[1]
        self.say("send %s %s" % (number, text))
        return self.wait("sent to", seconds)

    def alive(self):
        return self.process.poll() is None

    def answers(self, seconds=10):
        """Return True if the target still runs its loop."""
        mark = os.urandom(4).hex()
        self.say("echo " + mark)
        return self.alive() and self.wait("echo " + mark, seconds) is not None

    def memory(self):
        """Return its resident memory, in MiB."""
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) / 1024

    def processor(self):
        """Return its seconds of processor time."""
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def end(self):
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


# ---- Addresses ------------------------------------------------------------------------------------------------------

SELF = (b"self", b"self", b"")


def entries(address):
    """Yield (driver, network, bytes) of each adapter in an address."""
    at, out = 32, []
    while at < len(address):
        entry = []
        for _ in range(3):
            n = address[at]
            entry.append(address[at + 1:at + 1 + n])
            at += 1 + n
        out.append(tuple(entry))
    return out


def uid(address):
    return address[4:20]


def make_address(identity, adapters, pad_to=0):
    """Return an address with this identity; padded with entries of unknown drivers to about this length."""
    body = b"".join(bytes([len(field)]) + field for adapter in adapters for field in adapter)
    while 32 + len(body) < pad_to:
        n = min(200, max(0, pad_to - 32 - len(body) - 3))
        body += b"\0\0" + bytes([n]) + b"p" * n
    return struct.pack("<BBH", 2, 0, 32 + len(body)) + identity + bytes(8) + b"\xff" * 4 + body


def find(address, driver):
    return next((e for e in entries(address) if e[0] == driver), None)


def tcp_of(address):
    """Return (host, port) of the IPv4 entry."""
    for driver, _, where in entries(address):
        if driver == b"tcp" and where[0] == 4:
            return socket.inet_ntoa(where[3:7]), where[1] | where[2] << 8
    return None


def tcp_entry(host, port, prefix=8):
    """Return an entry of tcp for an adapter; its network is the subnet."""
    return b"tcp", b"", b"\x04" + struct.pack("<H", port) + socket.inet_aton(host) + bytes([prefix])


# ---- Handshake ------------------------------------------------------------------------------------------------------

def frame(kind, body, version=VERSION):
    return struct.pack("<IHHI", MAGIC, version, kind, len(body)) + body


def read_n(s, n):
    out = b""
    while len(out) < n:
        got = s.recv(n - len(out))
        if not got:
            raise EOFError
        out += got
    return out


def read_frame(s):
    _, _, kind, n = struct.unpack("<IHHI", read_n(s, 12))
    return kind, read_n(s, n)


def derive(key, label):
    """HKDF-SHA-256 without a salt: return the first 32 bytes."""
    fresh = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(fresh, label + b"\1", hashlib.sha256).digest()


RANK_KEY, GATEWAY_KEY = derive(KEY, b"madeleine rank key"), derive(KEY, b"madeleine gateway key")
RANK, GATEWAY_ROLE = 0, 1  # roles
NONE, AUTH, SEAL = 0, 1, 2  # security of a network


def hello_frame(target, own, role=RANK, security=AUTH):
    """Return the whole frame HELLO from the process with the identity own to the one with the identity target."""
    return frame(HELLO, os.urandom(16) + target + own + bytes([role, security, 0, 0]))


def greet(s, target, own, role=RANK, security=AUTH):
    """Send HELLO, and return both frames of the exchange so far."""
    hello = hello_frame(uid(target), uid(own), role, security)
    s.sendall(hello)
    kind, challenge = read_frame(s)
    if kind != CHALLENGE:
        raise ConnectionError("no challenge, but %d %s" % (kind, challenge.hex()))
    return hello, frame(CHALLENGE, challenge)


def proof(key, side, driver, said, kind, body, binding=bytes(32)):
    """Return the proof for a frame of this kind; it precedes the body."""
    head = struct.pack("<IHHI", MAGIC, VERSION, kind, 32 + len(body))
    return hmac.new(key, side + driver + b"\0" + binding + b"".join(said) + head + body, hashlib.sha256).digest()


def prove(s, own, said, lane=0, floor=65536, key=None, driver=b"tcp"):
    """Send PROOF, and read VERDICT."""
    key = key or (GATEWAY_KEY if GATEWAY_ROLE in (said[0][12 + 48], said[1][12 + 16]) else RANK_KEY)
    body = struct.pack("<QII", floor, lane, 0) + own
    s.sendall(frame(PROOF, proof(key, b"A", driver, said, PROOF, body) + body))
    kind, verdict = read_frame(s)
    if kind != VERDICT:
        raise ConnectionError("refused: %d %s" % (kind, verdict.hex()))
    status = struct.unpack("<I", verdict[32:36])[0]
    if status:
        raise ConnectionError("verdict %d" % status)


def shake(s, target, own, role=RANK, security=AUTH, **how):
    prove(s, own, greet(s, target, own, role, security), **how)


def dial(target, own, **how):
    """A link of tcp to the target, from the process with the address own."""
    s = socket.create_connection(tcp_of(target), 5)
    s.settimeout(5)
    shake(s, target, own, **how)
    return s


# ---- Packets and fragments ------------------------------------------------------------------------------------------

MSG, DATA, CHANNEL, GRANT, CREDIT, MISMATCH, BYE, CLOSE, CLOSED, FORWARD, SHARE = range(1, 12)
F_PACKET, F_OPEN, F_CREDIT, F_HELLO, F_READY, F_CLOSE, F_ACK, F_PING, F_MOVE, F_TRY, F_KNOW = range(1, 12)
OPENER = 0x80


def packet(kind, flags=0, channel=0, body=b"", seq=0, aux=0):
    return struct.pack("<BBHIII", kind, flags, channel, len(body), seq, aux) + body


def cost(n):
    return (n + 63) & ~63


def message(channel, data, seq=0):
    """Return a message of one block, in one packet."""
    body = struct.pack("<Q", len(data)) + data
    return packet(MSG, 3, channel, body, seq, cost(16 + len(body)))


def fragment(kind, body=b"", seq=0, label=0, channel=0, ack=0, ask=0, opener=True):
    return packet(FORWARD, kind | (OPENER if opener else 0), channel, struct.pack("<II", ack, ask) + body, seq, label)


def open_body(address, limit=1 << 40, stream=1, turn=0, ack=0, proof=bytes(16)):
    return struct.pack("<QQII", limit, stream, turn, ack) + proof + address


def close_body(status, what, text=b"", proof=bytes(16)):
    return struct.pack("<II", status, what) + proof + text


READY_BODY = bytes(48)  # proof and key; both are zero for an end without a key


# ---- shm ------------------------------------------------------------------------------------------------------------

_layout = {}


def layout():
    """Return offsets and sizes of shm.h, as target.c was compiled with them."""
    if not _layout:
        out = subprocess.check_output([BUILD + "/tests/trust/target", "layout"]).decode()
        _layout.update((k, int(v)) for k, v in (line.split("=") for line in out.split()))
    return _layout


F_SEAL_FUTURE_WRITE = 0x10  # no process can map the memory for writing any more
LENGTH_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def memory_make(size, seals=LENGTH_SEALS, flags=0):
    """Return a memfd, and a mapping of it that was made before it was sealed."""
    fd = os.memfd_create("peer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    os.ftruncate(fd, size)
    view = mmap.mmap(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd, view


def event_make(count=2**64 - 2, flags=os.EFD_SEMAPHORE | os.EFD_NONBLOCK):
    """Return what a process passes so that others can wake it: an eventfd whose count does not run out."""
    fd = os.eventfd(0, flags | os.EFD_CLOEXEC)
    if count:
        os.write(fd, struct.pack("<Q", count))
    return fd


class Shm:
    """The active side of a shm link.  passed: function that replaces the descriptors of a correct offer (event, bell,
    memory).  offer: function that replaces its 24 bytes."""

    def __init__(self, target, own, directory, event=None, asleep=0, passed=list, offer=bytes):
        at = layout()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(directory + "/" + find(target, b"shm")[2].hex())
        shake(self.socket, target, own, driver=b"shm")
        self.fd, self.memory = memory_make(at["region"])
        self.bell_fd, self.bell = memory_make(4096, LENGTH_SEALS | F_SEAL_FUTURE_WRITE)
        self.bell[0:8] = struct.pack("<II", asleep, 1)
        head = struct.pack("<II", 0x6D6873, at["layout"]) + os.urandom(16)
        self.memory[0:24] = head
        self.out = at["half"]
        self.event = event_make() if event is None else event
        self.n = 0
        socket.send_fds(self.socket, [offer(head)], passed([self.event, self.bell_fd, self.fd]))
        answer, self.fds, _, _ = socket.recv_fds(self.socket, 24, 4)
        if len(answer) != 24:
            raise EOFError("the offer was not answered")

    def ring(self):
        try:
            os.preadv(self.fds[0], [bytearray(8)], -1, os.RWF_NOWAIT)
        except OSError:
            pass

    def cell(self, data, run=0):
        at = self.out + layout()["cells"] + self.n % 64 * 64
        self.memory[at + 8:at + 64] = data[:56].ljust(56, b"\0")
        self.n += 1
        self.memory[at:at + 8] = struct.pack("<Q", self.n & 0xFFFFFFFF | run << 32)
        self.ring()

    def close(self):
        self.socket.close()
        for fd in self.fds + [self.event, self.bell_fd, self.fd]:
            try:
                os.close(fd)
            except OSError:
                pass

    def unit(self, unit):
        """Return the offset of a unit in the memory."""
        return self.out + layout()["units"] + unit * 2048

    def send(self, bytes_, unit=None):
        """Send a packet; its body is in this unit unless it fits into a cell."""
        if unit is None:
            self.cell(bytes_)
        else:
            self.memory[self.unit(unit):self.unit(unit) + len(bytes_) - 16] = bytes_[16:]
            self.cell(bytes_[:16], unit + 1)


# Two clusters with a gateway in between; a Target can be that gateway.
TOPOLOGY = b'networks = { x = { driver = "tcp"; hosts = "a,g"; }; y = { driver = "tcp"; hosts = "b,g"; }; };'
GATEWAY = {"MAD_TOPOLOGY": "hex:" + TOPOLOGY.hex(), "MAD_HOST": "g"}

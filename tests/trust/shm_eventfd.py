# SPDX-License-Identifier: BSD-3-Clause
"""A member passes descriptors of wrong kinds, or does everything possible with shared ones.  Each attack is a new peer
of one target; another member continues to send to that target."""
import pty
import stat
import tempfile
import threading

from peer import *

PLACE = os.environ["TRUST_SCRATCH"] + "/shm"
os.makedirs(PLACE, mode=0o700, exist_ok=True)
ENV = {"MAD_DRIVERS": "shm,self", "MAD_SHM_DIR": PLACE}
kept_null = os.open("/dev/null", os.O_RDWR)
STALL = 0.6  # seconds for which an attack may delay the target's loop, on a loaded machine
kept = []  # descriptors that stay open as long as this script runs


def keep(fd):
    kept.append(fd)
    return fd


def stranger():
    return make_address(os.urandom(16), [SELF])


def shm(**how):
    return Shm(target.address, stranger(), PLACE, **how)


def busy(link):
    """Make the target answer, so that it rings a sleeping peer."""
    link.send(packet(CHANNEL, channel=1, body=b"x\0"))
    link.send(packet(CLOSE, channel=1))


def harmed(name):
    """Check that the target still runs, and receives from a member."""
    began = time.monotonic()
    check(name + ": the target answers", target.answers(), target.process.poll(), target.lines[-5:])
    took = time.monotonic() - began
    check(name + ": it did not stand still", took < STALL, "%.2f s" % took)


def refused(name, text, **how):
    """Check that an offer is refused, with one line in the log."""
    target.drain(0.05)
    target.lines.clear()
    open_before = target.descriptors()
    try:
        link = shm(**how)
        check(name + ": refused", False, "the offer was answered")
        busy(link)
        link.close()
    except (OSError, EOFError):
        check(name + ": refused", target.wait(text, 5), target.lines[-5:])
    target.drain(0.1)
    lines = target.holding(": shm")
    check(name + ": one line", len([line for line in lines if not line.startswith("event")]) == 1, target.lines)
    harmed(name)
    check(name + ": no descriptor stays", target.descriptors() <= open_before, open_before, target.descriptors())


def instead(at, fd):
    """Pass this descriptor in the place of one of an offer."""
    return lambda fds: fds[:at] + [fd] + fds[at + 1:]


def full_pipe():
    _, w = os.pipe()
    kept.append(_)
    os.set_blocking(w, False)
    try:
        while True:
            os.write(w, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(w, True)
    return w


def readerless_pipe():
    r, w = os.pipe()
    os.close(r)
    return w


EVENT, BELL, MEMORY = range(3)


def events_wrong():
    ends = socket.socketpair()
    file, _ = tempfile.mkstemp(dir=os.environ["TRUST_SCRATCH"])
    wrong = {"a pipe without a reader": readerless_pipe(), "a full pipe": full_pipe(), "a socket": ends[0].fileno(),
             "a file": file, "/dev/null": os.open("/dev/null", os.O_RDWR), "a terminal": pty.openpty()[1],
             "a memfd": os.memfd_create("anon_inode:[eventfd]"), "an epoll set": select.epoll().fileno(),
             "a path": os.open("/", os.O_PATH), "an eventfd at its maximum that waits": event_make(flags=0),
             "an eventfd of few counts": event_make(5), "an empty eventfd": event_make(0)}
    wrong["an epoll set"] = select.epoll().detach() if hasattr(select.epoll(), "detach") else os.open("/", os.O_RDONLY)
    for name, fd in wrong.items():
        refused(name + " as event", "is not an eventfd in semaphore mode", event=fd, asleep=1)


def memory_wrong():
    size = layout()["region"]
    read_only, _ = memory_make(size)
    wrong = {"memory that is not sealed": memory_make(size, 0)[0], "memory that is too short": memory_make(size - 4096)[0],
             "memory that is too long": memory_make(size + 4096)[0],
             "memory sealed against writing": memory_make(size, LENGTH_SEALS | F_SEAL_FUTURE_WRITE)[0],
             "memory open to read": os.open("/proc/self/fd/%d" % read_only, os.O_RDONLY),
             "/dev/zero": os.open("/dev/zero", os.O_RDWR), "an eventfd": event_make()}
    for name, fd in wrong.items():
        refused(name, "whose length is sealed", passed=instead(MEMORY, fd))
    bells = {"a bell that all can write": memory_make(4096)[0],
             "a bell that is not sealed": memory_make(4096, 0)[0],
             "a bell that is too short": memory_make(10, LENGTH_SEALS | F_SEAL_FUTURE_WRITE)[0],
             "a bell that is a pipe": os.pipe()[0]}
    for name, fd in bells.items():
        refused(name, "that only their owner can write", passed=instead(BELL, fd))


def counts_wrong():
    for n in (0, 1, 2):
        refused("%d descriptors" % n, "%d descriptors came" % n, passed=lambda fds, n=n: fds[:n])
    refused("4 descriptors", "4 descriptors came", passed=lambda fds: fds + fds[:1])
    for n in (5, 200, 253):
        refused("%d descriptors" % n, "%d descriptors came" % n, passed=lambda fds, n=n: (fds * 100)[:n])
    refused("half an offer", "is malformed", offer=lambda b: b[:11])
    refused("another magic", "is malformed", offer=lambda b: b"\0" + b[1:])
    refused("another layout", "use the same release", offer=lambda b: b[:4] + b"\x05" + b[5:])
    refused("another nonce", "is not what the peer offered", offer=lambda b: b[:8] + bytes(16))


def lingering_socket():
    """A descriptor whose last close waits for 20 s, unless that is prevented."""
    listener = socket.create_server(("127.0.0.1", 0))
    s = socket.create_connection(listener.getsockname())
    kept.extend((listener, listener.accept()[0]))
    s.setblocking(False)
    try:
        while True:
            s.send(b"x" * 65536)
    except BlockingIOError:
        pass
    s.setblocking(True)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
    return s


def closing_waits():
    """Make the target the last process with the descriptor."""
    for at in (0, 2, 100):
        linger = lingering_socket()
        target.drain(0.05)
        target.lines.clear()
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(5)
        s.connect(PLACE + "/" + find(target.address, b"shm")[2].hex())
        shake(s, target.address, stranger(), driver=b"shm")
        target.process.send_signal(signal.SIGSTOP)
        fds = [kept_null] * 101
        fds[at] = linger.fileno()
        socket.send_fds(s, [struct.pack("<II", 0x6D6873, layout()["layout"]) + bytes(16)], fds[:max(3, at + 1)])
        os.close(linger.detach())
        target.process.send_signal(signal.SIGCONT)
        harmed("a socket that lingers as descriptor %d" % at)
        s.close()


def event_abused():
    """The event is a right one, but its flags and count are changed later: rings neither block nor get lost."""
    event = event_make()
    link = shm(event=event, asleep=1)
    os.set_blocking(event, True)
    link.send(packet(CHANNEL, channel=1, body=b"x\0"))
    for i in range(20):
        link.send(packet(CHANNEL, channel=2 + i, body=b"y%d\0" % i))
        link.send(packet(CLOSE, channel=2 + i))
    harmed("an event that waits, full")
    link.close()
    event = event_make(2**63 + 1)
    link = shm(event=event, asleep=1)
    fcntl.fcntl(event, fcntl.F_SETFL, fcntl.fcntl(event, fcntl.F_GETFL) & ~os.O_NONBLOCK | os.O_ASYNC)
    busy(link)
    harmed("an event with other flags")
    link.close()


def bell_of_target():
    """All peers share the target's bell and event: none of them can silence these for the others."""
    link = shm()
    bell = link.fds[BELL]
    writable = True
    try:
        mmap.mmap(bell, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except PermissionError:
        writable = False
    check("a peer cannot map the bell to write", not writable)
    try:
        os.pwrite(os.open("/proc/self/fd/%d" % bell, os.O_RDWR), bytes(8), 0)
        check("nor write it otherwise", False)
    except PermissionError:
        check("nor write it otherwise", True)
    stop = threading.Event()
    os.set_blocking(link.fds[EVENT], False)

    def silence():
        while not stop.is_set():
            for call in (lambda: os.read(link.fds[EVENT], 8), lambda: os.write(link.fds[EVENT], struct.pack("<Q", 1)),
                         lambda: os.write(link.fds[EVENT], struct.pack("<Q", 2**63))):
                try:
                    call()
                except OSError:
                    pass

    thread = threading.Thread(target=silence)
    thread.start()
    late = 0.0
    for i in range(20):
        target.lines.clear()
        target.say("wait 3000")
        time.sleep(0.02)
        began = time.monotonic()
        member.send(target, "m%d" % i)
        good = target.wait("got from peer", 2)
        late = max(late, time.monotonic() - began)
        if not good:
            break
    stop.set()
    thread.join()
    check("a member's messages wake the target while a peer plays with its event", good and late < 1, "%.2f s" % late,
          target.lines[-5:])
    link.close()
    harmed("a peer that plays with the event")


def rings_flood():
    """Rings without messages cost the target at most as much as the ringing peer, and members are served."""
    link = shm()
    used, mine, end = target.processor(), time.process_time(), time.monotonic() + 2
    while time.monotonic() < end:
        link.ring()
    used, mine = target.processor() - used, time.process_time() - mine
    check("a flood of rings costs no more than it costs the peer", used < mine * 1.2 + 0.2, "%.2f s, the peer %.2f s" %
          (used, mine))
    harmed("a flood of rings")
    link.close()


def bytes_stray():
    for name, send in (("a byte", lambda s: s.send(b"x")), ("many bytes", lambda s: s.send(b"x" * 100000)),
                       ("a byte with descriptors", lambda s: socket.send_fds(s, [b"x"], [full_pipe()] * 3))):
        target.drain(0.05)
        target.lines.clear()
        link = shm()
        before, used = target.descriptors(), target.processor()
        try:
            send(link.socket)
        except PermissionError:  # if the kernel can refuse descriptors
            check(name + ": the kernel refuses it", True)
            link.socket.send(b"x")
        line = target.wait("sent bytes over the socket", 5)
        check(name + " on the socket ends the link, with a line", line, target.lines[-5:])
        time.sleep(0.5)
        check(name + " on the socket does not keep the target awake", target.processor() - used < 0.3,
              target.processor() - used)
        check(name + " on the socket: no descriptor stays", target.descriptors() <= before, before)
        harmed(name + " on the socket")
        link.close()


def flag_stalls():
    """A peer claims for ever that it is writing to the target's memory, and breaks the protocol."""
    at = layout()
    for again in range(8):
        target.drain(0.05)
        target.lines.clear()
        link = shm()
        link.memory[link.out + at["putting"]] = 1
        link.cell(packet(99))
        began = time.monotonic()
        good = target.answers()
        took = time.monotonic() - began
        check("a flag in memory holds the target for %.2f s" % took, good and took < STALL, target.lines[-5:])
        if not again:
            target.drain(0.2)
            check("one line tells of it", len(target.holding("the wait ends")) == 1, target.lines)
        link.close()


target = Target("target", ENV)
member = Target("member", ENV)
check("a member is let in", "success" in (member.send(target, "hello") or ""), member.lines)
for attack in (events_wrong, memory_wrong, counts_wrong, closing_waits, event_abused, bell_of_target, rings_flood, bytes_stray, flag_stalls):
    attack()
check("the member goes on sending", "success" in (member.send(target, "again") or ""), member.lines)
check("and its link is the one that it had", not member.holding("event"), member.lines)
member.end()
target.end()
finish()

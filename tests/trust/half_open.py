# SPDX-License-Identifier: BSD-3-Clause
"""A stranger that has seen an identity on the wire stops 256 handshakes before or after HELLO, and keeps their
connections open: members can connect all the same."""
import threading

from peer import *

ENV = {"MAD_DRIVERS": "tcp,self"}


def hold(target, greets):
    """Begin one handshake, and stop."""
    s = socket.create_connection(tcp_of(target.address), 5)
    s.settimeout(5)
    if greets:
        s.sendall(hello_frame(uid(target.address), os.urandom(16)))
        try:
            read_frame(s)
        except (EOFError, OSError):
            pass  # it was already closed to make room
    return s


def keep_up(target, held, stop):
    """Connect again for each handshake that is closed."""
    while not stop.is_set():
        for s in select.select(held, [], [], 0.01)[0]:
            held.remove(s)
            s.close()
            held.append(hold(target, True))


for greets in (False, True):
    name = "after HELLO" if greets else "before HELLO"
    target = Target("target", ENV)
    held = [hold(target, greets) for _ in range(300)]
    stop = threading.Event()
    again = threading.Thread(target=keep_up, args=(target, held, stop))
    again.start()
    members = [Target("member", ENV) for _ in range(3)]
    said = [m.send(target, "hello") for m in members]
    stop.set()
    again.join()
    check("members are let in while handshakes are held %s" % name, all(s and "success" in s for s in said), said)
    target.drain()
    lines = target.holding("has not proved the job's key, others wait")
    check("one line says that handshakes made room, %s" % name, len(lines) == 1, target.lines)
    for s in held:
        s.close()
    for t in members + [target]:
        t.end()
finish()

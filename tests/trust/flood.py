# SPDX-License-Identifier: BSD-3-Clause
"""A stranger without the key connects as often as it can, and sends nothing: members can connect all the same."""
import threading

from peer import *

ENV = {"MAD_DRIVERS": "tcp,self", "MAD_LOG": "error", "MAD_CONNECT_TIMEOUT": "3000"}
target = Target("target", ENV)
where = tcp_of(target.address)
stop = threading.Event()


def call_often():
    held = []
    while not stop.is_set():
        try:
            s = socket.create_connection(where, 1)
            held.append(s)
        except OSError:
            time.sleep(0.001)
        if len(held) > 600:
            for old in held[:300]:
                old.close()
            del held[:300]


caller = threading.Thread(target=call_often)
caller.start()
time.sleep(0.5)
said = []
for _ in range(4):
    member = Target("member", ENV)
    said.append(member.send(target, "x"))
    member.end()
stop.set()
caller.join()
check("members are let in while a stranger calls", all(s and "success" in s for s in said), said)
check("it still answers", target.answers(), target.lines[-5:])
target.end()
finish()

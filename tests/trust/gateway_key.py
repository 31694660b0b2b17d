# SPDX-License-Identifier: BSD-3-Clause
"""An attacker has taken over a gateway, and so has the gateway key: it is accepted as a gateway, but never as a rank,
whether it connects or accepts."""
import threading

from peer import *

ENV = {"MAD_DRIVERS": "tcp,self", "MAD_CONNECT_TIMEOUT": "3000"}
PASSIVE = b"P"


def refusal(target, own, **how):
    """Return the error with which a connection attempt ends; None if it is accepted."""
    try:
        dial(target.address, own, **how).close()
        return None
    except (ConnectionError, EOFError, OSError) as e:
        return str(e) or "closed"


def calls():
    target = Target("target", ENV)
    own = make_address(os.urandom(16), [SELF])
    why = refusal(target, own, role=RANK, key=GATEWAY_KEY)
    check("the gateway key does not prove a rank", why is not None)
    target.drain()
    check("the target says so in one line", len(target.holding("refused a caller")) == 1, target.lines)
    check("the job's key proves no rank either, only what follows from it",
          refusal(target, make_address(os.urandom(16), [SELF]), role=RANK, key=KEY) is not None)
    member = Target("member", ENV)
    said = member.send(target, "hello")
    check("a member is let in", said and "success" in said, said)
    check("the target goes on", target.answers())
    for t in (member, target):
        t.end()


def answer(listener, own, identity, role, seen):
    """Accept a connection, and send a proof that the gateway key makes."""
    try:
        s, _ = listener.accept()
        s.settimeout(5)
        kind, hello = read_frame(s)
        challenge = frame(CHALLENGE, os.urandom(16) + bytes([role, AUTH, 0, 0]))
        s.sendall(challenge)
        kind, said = read_frame(s)
        frames = [frame(HELLO, hello), challenge, said[:32]]
        body = struct.pack("<IIQ", 0, 0, 65536)
        s.sendall(frame(VERDICT, proof(GATEWAY_KEY, PASSIVE, b"tcp", frames, VERDICT, body) + body))
        while True:
            got = s.recv(65536)
            if not got:
                break
            seen.append(got)
    except (OSError, EOFError, struct.error):
        pass


def called(role):
    """The gateway listens at the port of a rank, and answers in the rank's place."""
    name = "as a gateway" if role == GATEWAY_ROLE else "as a rank"
    caller = Target("caller", ENV)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    identity, seen = os.urandom(16), []
    own = make_address(identity, [tcp_entry("127.0.0.1", listener.getsockname()[1])])
    thread = threading.Thread(target=answer, args=(listener, own, identity, role, seen), daemon=True)
    thread.start()
    caller.say("peer " + own.hex())
    number = (caller.wait("peer ", 5) or "peer -1").split()[1]
    caller.say("send %s secret" % number)
    said = caller.wait("sent to", 20)
    caller.drain()
    check("nothing is sent to a gateway that answers %s in a rank's stead" % name,
          said and "success" not in said and b"secret" not in b"".join(seen), said, caller.lines)
    lines = [line for line in caller.lines if "warning" in line or "error" in line]
    check("the caller says so in one line, %s" % name, len(lines) == 1, caller.lines)
    check("the caller goes on, %s" % name, caller.answers())
    caller.end()
    listener.close()


calls()
called(RANK)
called(GATEWAY_ROLE)
finish()

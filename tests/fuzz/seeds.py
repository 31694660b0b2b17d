#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the seed corpus: one well-formed input of each kind, with which the fuzzers start."""
import json
import os
import re
import struct

here = os.path.dirname(os.path.abspath(__file__))


def seed(target, name, data):
    folder = os.path.join(here, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def address(*entries, rank=0xFFFFFFFF, uid=b"\x77" * 16):
    body = b"".join(bytes([len(x)]) + x for e in entries for x in e)
    return struct.pack("<BBH16s8sI", 2, 0, 32 + len(body), uid, b"job-hash", rank) + body


def hdr(kind, flags, channel, length, seq, aux):
    return struct.pack("<BBHIII", kind, flags, channel, length, seq, aux)


def desc(length, kind=0, rmode=0, smode=2):
    return struct.pack("<Q", length | kind << 48 | rmode << 50 | smode << 51)


tcp4 = bytes([4, 0x58, 0x1B, 10, 1, 0, 3])
tcp6 = bytes([6, 0x58, 0x1B]) + b"\xfd" + bytes(14) + b"\1"
one = address((b"tcp", b"10.1.0.0/24", tcp4), (b"shm", b"0011223344556677", b"01234567"), (b"self", b"self", b""), rank=3)
seed("address", "three", one)
seed("address", "ipv6", address((b"tcp", b"fd00::/64", tcp6)))
seed("address", "implied", address((b"tcp", b"", tcp4 + bytes([24])), (b"tcp", b"", tcp6 + bytes([128])), (b"tcp", b"", tcp4 + bytes([33]))))
seed("address", "none", address())
seed("address", "behind", one + b"more")

# [hand] [type] [flags] [channel] [length 16] [seq 16] [aux 8 or 32] body
def packet(kind, flags, channel, body, seq=0, aux=0, hand=0, wide=True):
    out = struct.pack("<BBBBHH", hand | (4 if wide else 0), kind, flags, channel, len(body), seq)
    return out + (struct.pack("<I", aux) if wide else bytes([aux])) + body


def user(what, length=0):
    return bytes([0x80 | what | length << 4])


announce = packet(3, 0, 0, b"a\0") + packet(3, 0, 1, b"b\0")
seed("packets", "short", announce + packet(1, 3, 0, desc(8) + b"12345678", aux=64) + user(1) + user(2, 3) + user(5))
seed("packets", "posted", announce + user(7, 3) + packet(1, 3, 1, desc(8) + b"12345678" + desc(8, rmode=1) + b"abcdefgh", aux=64))
seed("packets", "pieces", announce + packet(1, 1, 0, desc(4) + b"1234", aux=64) + user(1) + user(2, 2) + user(3, 3) +
     packet(1, 2, 0, desc(8, rmode=1) + b"12345678", aux=64, hand=2) + user(5))
# A block that continues in the next packet, or in the next two.  It is opened before, after and between them, in all
# forms.  Then blocks that no peer sends.
begun = packet(1, 1, 0, desc(1000, rmode=1) + b"b" * 100, aux=128)
rest = packet(1, 10, 0, b"r" * 900, aux=960)
halves = packet(1, 8, 0, b"r" * 400, aux=448), packet(1, 10, 0, b"r" * 500, aux=576)
seed("packets", "continued", announce + begun + user(1) + user(3, 7) + rest + user(5) + begun + rest + user(1) + user(4, 7) + user(5) +
     begun + user(1) + packet(1, 10, 0, b"r" * 900, aux=960, hand=2) + user(3, 7) + user(5))
seed("packets", "continued-halves", announce + (begun + user(1) + halves[0] + user(4, 7) + halves[1] + user(5)) * 2 +
     user(7, 7) + begun + halves[0] + halves[1] + begun + user(1) + user(5) + halves[0] + halves[1] + user(0))
seed("packets", "continued-asked", announce + packet(1, 1, 0, desc(1000) + b"b" * 100, aux=128) + user(1) + user(2, 7) + user(15) + rest +
     user(15) + user(2, 7) + user(5) + user(10) + begun + rest + user(0))
for name, wrong in (("long", packet(1, 10, 0, b"r" * 901, aux=960)), ("short", packet(1, 10, 0, b"r" * 899, aux=960)),
                    ("none", packet(1, 2, 0, desc(8) + b"12345678", aux=64)), ("first", packet(1, 11, 0, b"r" * 900, aux=960))):
    seed("packets", "continued-" + name, announce + begun + user(1) + user(3, 7) + wrong + user(5) + user(0))
    seed("packets", "continued-unasked-" + name, announce + begun + wrong + user(1) + user(3, 7) + user(5) + user(0))
seed("packets", "rendezvous", announce + packet(1, 3, 0, desc(5000, 1, 1) + struct.pack("<II", 7, 10) + b"0123456789", aux=64) +
     user(1) + user(3, 0) + packet(2, 0, 0, b"x" * 100, seq=10, aux=0, wide=False))
seed("packets", "loan", announce + packet(1, 3, 0, desc(1000) + b"y" * 1000, aux=1024, hand=1) + user(1) + user(2, 7) + user(5))
seed("packets", "handler", announce + user(10) + packet(1, 3, 0, desc(40) + b"h" * 40, aux=64) + user(0) + user(11))
seed("packets", "grant", announce + user(8, 6) + user(0) + packet(4, 0, 0, struct.pack("<IIQII", 1 << 20, 1, 70000, 0, 0)) + user(0) +
     packet(5, 0, 0, struct.pack("<Q", 1 << 20)) + packet(6, 0, 0, struct.pack("<IIQQ", 0, 0, 8, 4)) + user(13))
at = packet(1, 3, 0, desc(20000, 2, 1) + struct.pack("<IIQ", 7, 0, 4096), aux=64)
waits = packet(1, 3, 0, struct.pack("<QIIQ", 20000 | 2 << 48 | 1 << 50 | 2 << 51 | 1 << 53, 7, 0, 4096), aux=64)
seed("packets", "read", announce + at + user(1) + user(2) + user(0) + user(5) + user(0))
seed("packets", "shared", announce + (waits + user(1) + user(2) + packet(2, 0, 0, b"x" * 40, seq=8000, wide=False) + user(0) + user(5)) * 4)
for name, end, more in (("share", 35000, 1), ("share-refused", 35000, 0), ("share-all", 70000, 1), ("share-odd", 35001, 0)):
    grant = packet(4, 0, 0, struct.pack("<IIQII", 1 << 20, 9, 70000, more, 0))
    seed("packets", name, announce + user(8, 6) + user(0) + packet(11, 0, 0, struct.pack("<IIQQQ", 1 << 20, 9, 70000, 8192 + end % 2, end)) +
         grant + user(0) + grant + user(0))
seed("packets", "bye", announce + packet(7, 0, 0, b"") + user(8, 3) + user(0))
# Up to the bounds of the ledger (bounds.c): channels, messages on them, unread answers.
seed("packets", "channels", b"".join(packet(3, 0, i, b"c%02d\0" % i) for i in range(20)) + user(0))
seed("packets", "waiting", packet(3, 0, 5, b"c\0") + b"".join(packet(1, 3, 5, b"", seq=i, aux=64) for i in range(24)) + user(0))
seed("packets", "unread", user(14) + (packet(3, 0, 0, b"x\0") + packet(8, 0, 0, b"")) * 120 + user(0) * 4)
seed("packets", "full", announce + user(14) + user(9, 2) + user(8, 3) + user(14) + user(0))

stream = hdr(3, 0, 0, 2, 0, 0) + b"a\0" + hdr(1, 3, 0, 16, 0, 64) + desc(8) + b"12345678"
seed("tcp", "short", bytes([4, 0x01, 0x32, 0x05, 0x00]) + stream)
big = hdr(1, 3, 0, 1008, 1, 1024) + desc(1000, rmode=1) + b"z" * 1000
seed("tcp", "body", bytes([6, 0x01, 0x32, 0x05, 0x01, 0x73, 0x05]) + stream + big)
rdv = hdr(1, 3, 0, 26, 0, 64) + desc(1000, 1, 1) + struct.pack("<II", 7, 10) + b"0123456789"
seed("tcp", "rendezvous", bytes([3, 0x01, 0x73, 0x00]) + hdr(3, 0, 0, 2, 0, 0) + b"a\0" + rdv +
     hdr(2, 0, 0, 100, 10, 1 << 20) + b"x" * 100)
begun = hdr(1, 1, 0, 108, 0, 128) + desc(1000, rmode=1) + b"b" * 100 + hdr(1, 10, 0, 900, 0, 960) + b"r" * 900
seed("tcp", "continued", bytes([9, 0x0E, 0x0E, 0x0E, 0x0E, 0x0E, 0x0E, 0x01, 0x73, 0x05]) + hdr(3, 0, 0, 2, 0, 0) + b"a\0" + begun * 2)
seed("tcp", "taken", bytes([4, 0xBF, 0x51, 0x01, 0x05]) + hdr(3, 0, 0, 2, 0, 0) + b"a\0" + hdr(1, 3, 0, 8, 0, 64) + desc(0))
seed("tcp", "taken-wrong", bytes([4, 0xBF, 0x51, 0x01, 0x05]) + hdr(3, 0, 0, 2, 0, 0) + b"a\0" + b"\1\3" + b"z" * 40)
seed("tcp", "garbage", bytes([0]) + b"GET / HTTP/1.0\r\n\r\n")

good = bytes([1, 1, 16]) + b"n" * 32
proof = struct.pack("<QII", 65536, 0, 0) + address((b"tcp", b"net", tcp4), uid=b"n" * 16)  # the identity in that HELLO
seed("hello", "called", b"\1" + good + bytes([2, len(proof) // 2 + 1]) + proof.ljust(len(proof) // 2 * 2 + 2, b"\0") + bytes([0, 8]) + hdr(3, 0, 0, 2, 0, 0))
lane = struct.pack("<QII", 65536, 7, 0) + proof[16:]
seed("hello", "lane", b"\1" + good + bytes([2, len(lane) // 2 + 1]) + lane.ljust(len(lane) // 2 * 2 + 2, b"\0"))
seed("hello", "calls", b"\0" + bytes([1, 2, 8]) + b"m" * 16 + bytes([2, 8]) + struct.pack("<IIQ", 0, 0, 65536))
seed("hello", "busy", b"\0" + bytes([1, 2, 8]) + b"m" * 16 + bytes([2, 8]) + struct.pack("<IIQ", 18, 0, 65536))
seed("hello", "refused", b"\0" + bytes([1, 5, 2]) + struct.pack("<I", 8))
seed("hello", "garbage", b"\1" + bytes([0, 20]) + b"SSH-2.0-OpenSSH_9.2p1 and so on, forty bytes"[:40])
seed("hello", "version", b"\1" + bytes([0, 6]) + b"MADH" + struct.pack("<HHI", 2, 1, 32))

# Handshakes in frames, from sources 7 and 8: pieces, connections, repetitions.
greet = bytes([2, 7, 1, 16]) + b"n" * 32
proof = struct.pack("<QII", 65536, 0, 0) + address((b"frames", b"net", b""), uid=b"n" * 16)
prove = bytes([3, 7, len(proof) // 2 + 1]) + proof.ljust(len(proof) // 2 * 2 + 2, b"d")
meet = bytes([2, 7, 2, 8]) + b"m" * 16
verdict = bytes([3, 7, 10]) + struct.pack("<IIQ", 0, 0, 65536) + b"dddd"
seed("stranger", "called", b"\1" + greet + prove)
seed("stranger", "again", b"\1" + greet + greet + bytes([6, 2]) + prove + bytes([6, 1]) + prove + bytes([2, 7, 6, 0]))
seed("stranger", "calls", b"\0" + meet + verdict)
seed("stranger", "refused", b"\0" + bytes([6, 3]) + bytes([6, 0]) + bytes([2, 7, 5, 2]) + struct.pack("<I", 8))
seed("stranger", "unknown", b"\0" + meet + bytes([2, 7, 6, 0]))
seed("stranger", "opened", b"\1" + bytes([5, 7]) + bytes([5, 8]) + greet + bytes([5, 0x87]))
seed("stranger", "pieces", b"\1" + greet + bytes([1, 7, 2, 255]) + b"p" * 510 + bytes([1, 7, 0, 255]) + b"q" * 510)
seed("stranger", "echo", b"\1" + greet + bytes([4, 7, 60]) + bytes([4, 7, 10]) + bytes([0, 9, 20]) + b"SSH-2.0-OpenSSH_9.2p1 and so on, forty bytes"[:40])

cell = hdr(3, 0, 0, 2, 0, 0) + b"a\0" + bytes(38)
message = hdr(1, 3, 0, 16, 0, 64) + desc(8) + b"12345678" + bytes(24)
seed("shm", "offered", b"\2" + b"\0" + struct.pack("<HH", 18, 0) + cell + b"\0" + struct.pack("<HH", 32, 0) + message + user(1) + user(2, 3) + user(5))
seed("shm", "offers", b"\3" + b"\0" + struct.pack("<HH", 18, 0) + cell + b"\0" + struct.pack("<HH", 32, 0) + message + user(1) + user(2, 3) + user(5))
run = hdr(1, 3, 0, 1008, 0, 1024) + bytes(40)
seed("shm", "run", b"\2" + b"\0" + struct.pack("<HH", 18, 0) + cell + b"\0" + struct.pack("<HH", 16, 1) + run + user(1) + user(2, 7) + user(5) + user(8, 8) + b"\4" + struct.pack("<HH", 16, 2) + run + b"\xff\0\0\0")
for how in (0, 1, 2, 3, 16, 32, 64, 65):
    seed("shm", "bad-offer-%d" % how, bytes([0, how, 2]))
for how in (0, 16, 128):
    seed("shm", "bad-answer-%d" % how, bytes([1, how, 0]) + b"\0" + struct.pack("<HH", 18, 0) + cell)

# [side] [cut] [n] [kind, how]...: correct ones, then each kind at each place, and each number.
right = [b"\0\0", b"\1\0", b"\2\0"]
for side, wanted in ((0, 3), (1, 2)):
    for n in range(5):
        seed("offer", "count-%d-%d" % (side, n), bytes([side, 1, n]) + b"".join((right * 2)[:n]))
    after = b"\0\x08\3\1\3\x81\2\x04\0\x18\2\x0a\3\2\3\x82\0\x09"
    seed("offer", "played-%d" % side, bytes([side, 1, wanted]) + b"".join(right[:wanted]) + after)
    for n in range(4):
        seed("offer", "stray-%d-%d" % (side, n), bytes([side, 1, wanted]) + b"".join(right[:wanted]) + bytes([1 + n * 4]))
    for at in range(wanted):
        for kind in range(3, 11):
            for how in (0, 7):
                things = right[:at] + [bytes([kind, how])] + right[at + 1:]
                seed("offer", "kind-%d-%d-%d-%d" % (side, at, kind, how), bytes([side, 1, wanted]) + b"".join(things[:wanted]))
    seed("offer", "bytes-%d" % side, bytes([side | 2, 1, wanted]) + b"".join(right[:wanted]) + b"\4\1")
    seed("offer", "short-%d" % side, bytes([side, 0x50, wanted]) + b"".join(right[:wanted]))


def frame(kind, rank, value, data):
    return struct.pack("<IIiI", kind, rank, value, len(data)) + data


spec = b"".join(str(n).encode() + b"\0" for n in (0, 2, 4, 0, -1, 0, 1)) + b"/tmp\0" + b"networks = {};\0" + b"1\0A=b\0" + b"2\0prog\0arg\0"
seed("spec", "one", spec)
seed("spec", "no-env", spec.replace(b"1\0A=b\0", b"0\0"))
seed("frames", "start", b"\xff" + frame(1, 0, 0, spec))
seed("frames", "many", b"\6" + frame(16, 1, 0, b"cmd=init\0") + frame(17, 1, 2, b"text\n") + frame(19, 1, 256, b"") + frame(21, 0, 0, b""))
seed("frames", "long", b"\x3f" + struct.pack("<IIiI", 17, 0, 1, 1 << 31) + b"x")

seed("pmi", "session", "0cmd=init pmi_version=1 pmi_subversion=1\n0cmd=get_maxes\n0cmd=get_my_kvsname\n0cmd=put kvsname=s key=k value=v\n"
     "1cmd=get kvsname=s key=k\n0cmd=barrier_in\n1cmd=barrier_in\n2cmd=barrier_in\n0cmd=finalize\n2cmd=abort exitcode=3\n1cmd=get_appnum\n")
seed("pmi", "gateway", b"3cmd=init\n3cmd=barrier_in\n0cmd=barrier_in\n1cmd=barrier_in\n2cmd=barrier_in\n3cmd=barrier_in\n\xff\3\n"
     b"3cmd=init\n0cmd=get key=mad-addr.3.0\n3cmd=abort\n")
seed("pmi", "ended", b"0cmd=init\n\xff\1\n0cmd=barrier_in\n\xff\2\n\xff\0\n0cmd=spawn\n0\n0=\n0cmd\n")
init = "cmd=response_to_init rc=0 mad_job=j mad_rank=0 mad_size=2 mad_gateways=1 mad_key=" + "0a" * 32 + "\n"
rest = "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=64\ncmd=my_kvsname kvsname=space\n"
more = "cmd=barrier_out\ncmd=put_result rc=0\ncmd=put_result rc=0\ncmd=get_result rc=0 value=5:ab\ncmd=get_result rc=0 value=cde\n"
seed("boot", "madrun", init + rest + more + "cmd=get_result rc=0 value=0:\ncmd=get_result rc=-1\ncmd=finalize_ack\n")
seed("boot", "gateway", init.replace("mad_rank=0", "mad_rank=2") + rest + more + "cmd=finalize_ack\n")
seed("boot", "others", "cmd=response_to_init rc=0 mad_rank=1\ncmd=universe_size size=3\n" + rest + more)
seed("boot", "refused", "cmd=response_to_init rc=-1\n")

for i, text in enumerate(("a", "a,b:4,c", "node[1-3,07-09]x:2,fe80::1%eth0", "a,a,a:3", "u@h.example:9", "n[1-", "-o", "n[9-1]", ",", "a:0")):
    seed("hosts", str(i), bytes([3]) + text.encode())

# Topology files: the examples, features that these lack, and faulty files.
examples = os.path.join(here, "../../examples/topology")
for name in sorted(n for n in os.listdir(examples) if n.endswith(".conf")):
    with open(os.path.join(examples, name)) as file:
        seed("topology", name.removesuffix(".conf"), file.read())
seed("topology", "gateway", 'networks={a={driver="tcp";hosts="x[0-2],g";};b={driver="tcp";hosts=["g","y"];};};'
     'gateways=({hosts="g";count=2;cores="0";networks="a,b";});')
seed("topology", "cycle", 'clusters={a={clusters="b";};b={clusters="a";};};'
     'networks={n={driver="shm";clusters="a";latency="1us";};};')
seed("topology", "nowhere", 'networks={red=1;};channels={c={network="red";};};virtual_channels={v={over="c";};};')

def fragment(what, flags, body=b"", seq=0, aux=0, channel=8, peer=0, hand=0, begin=b"", ack_ask=b""):
    return (bytes([what << 5 | hand << 2 | (2 if ack_ask else 0) | peer]) + ack_ask + bytes([flags, channel]) +
            struct.pack("<H", len(body)) + bytes([seq, aux]) + begin + body)


def opened(what, stream=1, turn=0, ack=0, limit=1, **more):
    return fragment(what, 0x82, begin=bytes([limit, stream, turn, ack]), **more)


with open(os.path.join(here, "../../src/core/wire/wire.h")) as file:
    version = int(re.search(r"define MADI_WIRE_VERSION (\d+)", file.read()).group(1))
to_me, to_peer = opened(1), opened(2)
hello = struct.pack("<IHHI", 0x4844414D, version, 1, 52) + bytes(16) + b"\x77" * 16 + b"\x78" * 16 + b"\0\1\0\0"
# On the existing virtual link: a stream that this process has opened has label 0, without the opener's flag.
got = b"\1\0"  # OPEN, and nothing else is acknowledged
ready = fragment(0, 5, ack_ask=got)
end_way, end_link = struct.pack("<II16x", 5, 1), struct.pack("<II16x", 5, 0)
named = fragment(3, 1, b"a\0", seq=1, begin=b"\3\0\2", hand=1, ack_ask=got)
packets = named + b"".join(fragment(3, 1, b"x" * 100, seq=i + 2, begin=b"\1\3\x64", hand=i & 3, ack_ask=got) for i in range(3))
again = opened(1, 0, 3, 1, aux=0)  # opened by the other end, with the turn of the accepting end
seed("forward", "end", b"\1" + to_me + fragment(0, 0x84, hello, seq=1) + user(0) + fragment(0, 0x86, end_link + b"bye"))
seed("forward", "transit", b"\1" + to_peer + user(0) + fragment(0, 0x84, hello, seq=1) +
     fragment(3, 0x81, b"12345678", seq=2, begin=b"\1\3\10") + fragment(0, 3, struct.pack("<Q", 1 << 30), peer=1) +
     fragment(0, 6, end_link, peer=1) + user(0) + fragment(0, 0x86, end_link) + user(0))
seed("forward", "stalled", b"\1" + to_peer + user(14) + b"".join(
    fragment(3, 0x81, b"x" * 900, seq=i, begin=b"\1\3\10", hand=i & 3) for i in range(40)) + user(14) + user(0))
seed("forward", "many", b"\1" + b"".join(opened(2, aux=i) for i in range(12)) + user(0))
# Likewise up to its bounds: labels, connections to unknown processes, answers, handshakes, announcements.
seed("forward", "labels", b"\1" + b"".join(opened(2, aux=8 * i) for i in range(30)) + user(0))
seed("forward", "unknown", b"\1" + b"".join(fragment(2, 0x82, aux=i, begin=bytes([255, 0x80 + i, 0, 0])) for i in range(12)) + user(0))
seed("forward", "handshakes", b"\1" + b"".join(fragment(1, 0x82, aux=i, begin=bytes([255, 0x41 + i, 0, 0])) for i in range(8)) + user(0))
seed("forward", "unread", b"\1" + user(14) + b"".join(fragment(0, 0x88, aux=i, ack_ask=b"\0\1") for i in range(60)) + user(0) * 4)
seed("forward", "acks", b"\1" + to_me + user(14) + b"".join(fragment(0, 0x87, ack_ask=b"\0\1") for i in range(60)) + user(0) * 4)
for active in (1, 0, 3, 2):  # the last two are encrypted
    begin = bytes([active]) + ready + user(8, 3) + user(9, 2)
    seed("forward", "packets-%d" % active, begin + packets + user(0) + fragment(0, 7, ack_ask=b"\2\1") + fragment(0, 6, end_link))
    seed("forward", "joined-%d" % active, begin + named + again + user(0) + fragment(0, 0x87, ack_ask=b"\1\1") +
         fragment(3, 0x81, b"y" * 100, seq=2, begin=b"\1\3\x64", ack_ask=b"\2\0") + user(0))
    seed("forward", "lost-%d" % active, begin + fragment(0, 6, end_way + b"gone") + user(15) + again + user(0) +
         fragment(0, 6, end_way) + user(15, 1))
seed("forward", "short", b"\1" + ready + fragment(0, 1, b"x", seq=1, ack_ask=got))
seed("forward", "ping", b"\1" + ready + fragment(0, 8, ack_ask=b"\0\1") + to_peer + fragment(0, 0x88, ack_ask=b"\0\1") + user(15) +
     fragment(0, 8, ack_ask=b"\0\0") + fragment(0, 9) + fragment(0, 0x89) + user(0))

# Return a packet that changes while it is read: see fuzz_race.c.  changes: (offset in the body, other value) of 16
# bits.
def racing(kind, what, begin=b"", body=b"", changes=(), flags=0, seq=0, aux=0, channel=0, times=2, cell=False):
    return (bytes([what << 4 | (8 if cell else 0) | times, kind, flags, channel, seq, aux]) +
            struct.pack("<H", len(body)) + begin + body + bytes([len(changes)]) +
            b"".join(struct.pack("<HH", *change) for change in changes))


named = racing(3, 0, body=b"a\0", times=0)
receive = user(1) + user(1, 5)
opening = bytes([1, 2, 0])
seed("race", "know", b"\0" + racing(10, 4, changes=((10, 0xffff),), flags=11) + racing(10, 4, changes=((8 + 32, 0xff), (8 + 48, 0)), flags=11) + user(0))
seed("race", "open", b"\0" + b"".join(racing(10, what, opening, changes=((8 + 24 + 2, 0xffff), (8 + 24 + 32, 0xff)), flags=0x80 | kind,
                                             aux=aux, channel=8) for what, kind, aux in ((1, 2, 0), (2, 2, 1), (2, 10, 2))) + user(0))
seed("race", "passing", b"\0" + racing(10, 2, opening, flags=0x82, aux=1, channel=8, times=0) + b"".join(
    racing(10, 3, b"\1\3\0", b"x" * 600, changes=((8, 0xffff), (20, 1)), flags=0x80 | kind, seq=i, aux=1, times=0)
    for i, kind in enumerate((4, 1, 1, 5, 7, 9, 8, 3, 6))) + user(0))
seed("race", "close", b"\2" + racing(10, 0, body=bytes(8) + struct.pack("<II", 5, 1) + b"gone", changes=((8, 0), (12, 2)), flags=6))
seed("race", "hello", b"\0" + racing(10, 1, opening, flags=0x82, channel=8, times=0) +
     racing(10, 0, body=bytes(8) + hello, changes=((8, 0), (16, 0xffff)), flags=0x84, seq=1, times=0))
seed("race", "packet", b"\2" + racing(10, 0, body=b"\1" + bytes(7), flags=5, times=0) +
     racing(10, 3, b"\3\0\2", b"a\0", changes=((12, 0xffff),), flags=1, seq=1, times=0) +
     b"".join(racing(10, 3, b"\1\3" + bytes([len(body)]), body, changes=((8, 2), (12, 0xffff), (24, 0xffff)), flags=1, seq=i + 2, times=0) + user(1) + user(2, 3) + user(15) + user(5)
              for i, body in enumerate((desc(8) + b"12345678", desc(100) + b"1" * 100, desc(200) + b"2" * 200))))
for i, change in enumerate(((0, 0xffff), (6, 1), (6, 2), (6, 3))):
    seed("race", "block-%d" % i, b"\0" + named + racing(1, 5, bytes(3), b"y" * 1000, changes=(change,), flags=3) +
         (user(1) + user(2, 7) + user(15) + user(5)) * 2 + (user(1) + user(15) + user(15) + user(5)) * 2)
    announced = struct.pack("<II", 7, 100) + b"e" * 700
    seed("race", "announced-%d" % i, b"\0" + named + racing(1, 5, struct.pack("<HB", 1000, 1 + i % 2), announced, changes=(change, (12, 0xffff)), flags=3, times=1) +
         (user(1) + user(2, 7) + user(0) + user(5) + user(1) + user(15) + user(0) + user(15) + user(5)) * 2 + user(1) + user(3, 7) + user(5))
for i, (kind, flags) in enumerate(((1, 0), (1, 8), (2, 8), (4, 8), (6, 8), (8, 8), (3, 8), (5, 8))):
    begin = bytes(3) + bytes([kind, flags, 7, 0, 1, 0])
    seed("race", "head-%d" % i, b"\1" + named + user(1, 4) + user(1, 4) + user(8, 4) + b"".join(
        racing(1, 6, begin + struct.pack("<H", 850), b"z" * 850, changes=((8, other), (8 + 32, 0xffff)), flags=3, times=1) + user(0) * 2
        for other in (2, 0x0801, 16)) + user(4, 1) + user(5, 5))
seed("race", "unfinished", b"\1" + named + user(1, 4) + racing(
    1, 6, bytes(3) + bytes([1, 0, 7, 0, 1, 0]) + struct.pack("<H", 20), b"u" * 850, flags=1, times=0) + user(0) * 3)
for kind in range(8):
    begin = bytes(3) + bytes([kind, 0, 7, 0, 1, 2]) + struct.pack("<H", 80) + bytes([8, 64, 1, 80, 16, 1])
    seed("race", "access-%d" % kind, b"\1" + named + user(9, 2) + b"".join(
        racing(1, 7, begin, b"\0" * (160 if kind == 5 else 80), changes=change, flags=3, times=1) + user(0) * 2
        for change in (((8, 1),), ((12, 0xff),), ((8 + 32 + 8, 0xffff), (8 + 32, 0xffff)))))

seed("job", "one", "madeleine-job 4\ngateway-key 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\naddress 0102\naddress 03 00000000000000aa\n"
     "topology 4\na=1\naddress 04\n")

session = {"pid": 7, "version": "0.1.0", "rank": 0, "size": 2, "launcher": "madrun", "host": "a", "waiting": {
    "spin_us": 20, "sleeps": 3, "wakes": 2, "categories": [{"category": "shm", "polls": 5, "hits": 1}]},
    "marcel": {"workers": 2, "created": 3}, "peers": [{"peer": 1, "channel": "", "state": "up", "ways": [{"driver": "tcp"}]}],
    "channels": [{"channel": "x", "open": True, "messages_waiting": 0}], "networks": [{
        "network": "n", "driver": "tcp", "messages_sent": 1, "bytes_sent": 1e9, "messages_received": 2, "bytes_received": 7}],
    "adapters": [{"driver": "tcp", "name": "lo", "network": "n"}], "knobs": [{"knob": "MAD_SPIN", "value": "0", "source": "default"}],
    "forwarding": {"streams": 1, "fragments": 9, "bytes": 8, "routes": [{"from": "a", "via": "g", "to": "b"}]}}
for how in (0, 1, 8, 9, 10, 12, 13, 14):
    seed("info", "how-%d" % how, bytes([how]) + json.dumps(session).encode())
short = b"\2" + b"i" * 16 + bytes([32 + 24, 0x34, 0x12, 10, 1, 2, 3])
seed("name", "ip", b"\0" + short)
seed("name", "all", b"\2" + short + b"\1" + b"n" * 8 + b"s" * 8 + b"\2" + b"n" * 8 + b"\3" + b"b" * 8 + b"\1\2" + b"\5" + b"t" * 8 + b"\4\0abc" +
     bytes([96 + 64, 1, 2]) + b"6" * 16 + bytes([16 + 4, 2]) + b"nw" + b"\3byt")

# [0 passive, 1 active] bytes of a stranger; [2] then [type] [length 16] bytes of records
hello_tls = bytes.fromhex("16030100720100006e0303") + bytes(range(32)) + bytes.fromhex(
    "00000213010100004300 0a00060004001d0017 002b0003020304 002d00020101 00330026 0024001d0020".replace(" ", "")) + bytes(32)
seed("seal", "client", b"\0" + hello_tls)
seed("seal", "server", b"\1" + bytes.fromhex("160303003a020000360303") + bytes(32) + bytes.fromhex("001301000e002b000203040033000400000000"))
seed("seal", "alert", b"\1" + bytes.fromhex("15030300020228"))


def record(kind, body):
    return bytes([kind]) + struct.pack("<H", len(body)) + body


seed("seal", "data", b"\2" + record(23, b"hello") + record(23, b"x" * 2000) + record(22, bytes([24, 0, 0, 1, 1])) + record(23, b"y" * 9))
seed("seal", "end", b"\2" + record(23, b"z" * 1500) + record(21, bytes([1, 0])))
seed("seal", "odd", b"\2" + record(22, bytes([4, 0, 0, 40]) + bytes(40)))
seed("seal", "padded", b"\2" + record(23, b"a" * 30 + bytes(1200)) + record(1, bytes(20)))
seed("seal", "clear", b"\2" + record(23, b"ok") + record(0, bytes([23, 3, 3, 0, 30]) + bytes(30)))

# [length] frame of the driver eth, repeated
def eth_frame(kind, flags=0, number=0, ack=0, body=b"", key=1):
    head = struct.pack("<BBBBIQIIHHI", 1, kind, flags, 0, 5, key, number, ack, len(body), 0, 0)
    frame = b"\2" * 6 + b"\4" * 6 + b"\x88\xb5" + head + body
    return bytes([len(frame)]) + frame


seed("eth", "segments", b"".join(eth_frame(2, 3, n, n, b"x" * 20) for n in range(6)))
seed("eth", "early", b"".join(eth_frame(2, 3, n, 0, b"y" * 20) for n in (2, 1, 511, 512, 0, 1)))
seed("eth", "acks", eth_frame(3, 0, 0, 2, b"\6" + bytes(63)) + eth_frame(3, 8, 0, 40) + eth_frame(3, 0, 0, 60, b"\xff" * 64))
seed("eth", "others", eth_frame(1, 0, 9, 0, b"hello", 0) + eth_frame(4, 0, 3) + eth_frame(5) + eth_frame(2)[:20])

# [length] own address of UCX, then the peer's
tcp_13 = bytes.fromhex(
    "2084956572393cbccf20920102bb956f7aa63737acf9ffffef00000000cf"
    "1917b75138539e3e4bd7e0373701132300828e05")
tcp_23 = bytes.fromhex(
    "208b1f61a02be221e5000e0102bb956f7aa63737acf9ffffefcf1917b751"
    "38539e3e4bd7e03737011323008295918780")
memory_1 = bytes.fromhex(
    "20f237a0e3cf3627a74008bb956f7aa637372ca7d377cc2b32004c3e5077ccab33004f230088ca5300c0020000"
    "c02188bb956f7aa637372c478bbd37063600242e5077ccab330092210084ca530000")
memory_2 = bytes.fromhex(
    "0102b9d6120a3f9469bf0008bb956f7aa637372ca7d34475430081009b00"
    "88e75300c0020000c00188bb956f7aa637372c478bfb5543000000990084e7530000")
for name, own, peer in (("tcp", tcp_13, tcp_23), ("memory", memory_1, memory_1), ("formats", memory_1, memory_2)):
    seed("ucx", name, bytes([len(own)]) + own + peer)


def operation(kind, length, progress=True, in_place=False):
    """Begin the operation of that kind (coll/choose.h)."""
    return bytes([0x80 | in_place << 6 | progress << 5 | (kind - 1)]) + struct.pack("<H", length)


def coll(which, length, fields=b"", mask=0, strange=False):
    """A message with the envelope of the which-th pending operation; an even length: of member 1, an odd one: of member 2."""
    return bytes([strange << 6 | mask << 3 | which]) + fields + struct.pack("<H", length) + b"x" * min(length, 64)


for kind in range(1, 16):
    seed("coll", "kind-%d" % kind, operation(kind, 8) + coll(0, 8) + coll(0, 9) + coll(0, 8, b"\0\1", 1) + operation(kind, 16000) + coll(0, 16000))
seed("coll", "early", coll(7, 0) + coll(7, 1) + coll(7, 0, b"\1\1", 1) + operation(1, 0) + operation(1, 0) + coll(0, 0))
seed("coll", "differs", operation(4, 8) + coll(0, 8, b"\1\0", 2) + operation(2, 8) + coll(0, 8, b"\1", 4))
seed("coll", "abort", operation(2, 8) + coll(0, 0, b"\xfe\0", 2) + operation(1, 0))
seed("coll", "strange", coll(7, 100, strange=True) * 20 + coll(7, 65535))

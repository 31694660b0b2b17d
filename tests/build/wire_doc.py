# SPDX-License-Identifier: BSD-3-Clause
"""Compare doc/wire.md with the code: wire_doc.py SOURCE.  Prints "ok NAME", or "not ok NAME" and both sides.

The page's side is in its tables and pictures, as "name (bytes)"; the code's side is read from the headers."""
import os
import re
import sys

source = sys.argv[1]
WIDTH = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8}


def read(name):
    with open(os.path.join(source, name)) as f:
        return f.read()


class Code:
    """The definitions in the headers."""

    def __init__(self):
        self.text = "\n".join(read("src/core/" + n) for n in (
            "wire/wire.h", "connect/hello_inside.h", "security/proof.h", "security/secret.h", "security/secret.c", "wire/address.c"))
        self.shm = read("src/drivers/shm/shm.h")
        self.gateway = read("src/gateway/state.h")
        self.text = re.sub(r"/\*.*?\*/", "", self.text, flags=re.S)
        self.defines = dict(re.findall(r"#define (\w+) (\w+)", self.text + self.shm + self.gateway))

    def number(self, name):
        value = self.defines[name].rstrip("uU")
        return int(value, 0)

    def enum(self, prefix):
        """Return {number: name} of the constants whose names begin with this prefix."""
        return {int(n): name for name, n in re.findall(r"\b%s(\w+) = (\d+)" % prefix, self.text)}

    def controls(self):
        """Return [(number, name, structure of the body or "")] from the rows of control packets."""
        return [(int(number), name, struct)
                for name, number, struct in re.findall(r"^    W\((\w+), (\d+), (?:sizeof\((\w+)_t\))?", self.text, re.M)]

    def struct(self, name):
        """Return the sizes of the members, in order."""
        body = re.search(r"typedef struct %s \{(.*?)\} %s_t;" % (name, name), self.text, re.S).group(1)
        sizes = []
        for kind, members in re.findall(r"(uint\d+_t|unsigned char) ([^;]+);", body):
            for member in members.split(","):
                count = re.search(r"\[(\w+)\]", member)
                n = 1
                if count:
                    n = int(count.group(1)) if count.group(1).isdigit() else self.number(count.group(1))
                sizes.append(WIDTH.get(kind, 1) * n)
        return sizes


def row(doc, number, name):
    """Return the row of a table that begins with these two cells."""
    found = re.search(r"^\| %d \| %s \|(.*)$" % (number, name), doc, re.M)
    return found.group(1) if found else ""


def sizes(text):
    """The numbers of bytes in "name (8), other (4)"."""
    return [int(n) for n in re.findall(r"\((\d+)\)", text)]


def frame(doc, kind, number):
    """What the picture of the handshake says of a frame: from its name on, up to the next arrow back or the next frame."""
    at = doc.index("%s %d " % (kind, number))
    lines = doc[at:doc.index("\n\n", at)].split("\n")
    text = lines[0].split("->")[0]
    for line in lines[1:]:
        if "<-" in line or re.search(r"[A-Z]{4,} \d ", line):
            break
        text += line
    return text


def compare(doc, code):
    """[(name, what the page says, what the code says)]"""
    out = [("version", re.search(r"^Version (\d+)", doc, re.M).group(1), str(code.number("MADI_WIRE_VERSION"))),
           ("layout of shm", sorted(set(re.findall(r"[Ll]ayout (\d+)", doc))), [str(code.number("SHM_LAYOUT"))]),
           ("layout of an address", re.search(r"version of the layout: (\d+)", doc).group(1), str(code.number("ADDRESS_VERSION"))),
           ("magic", re.search(r"magic (0x[0-9a-f]+)", doc).group(1), "0x4844414d"),
           ("labels of keys", set(re.findall(r'"(madeleine \w+ key)"', doc)), set(re.findall(r'"(madeleine \w+ key)"', code.text)))]
    header = re.search(r"A packet is a header of 16 bytes.*?\n\n(.*?)\n\n", doc, re.S).group(1)
    out.append(("packet header", [int(n) for n in re.findall(r"^\| \d+ \| (\d+) \|", header, re.M)], code.struct("madi_wire_hdr")))
    packets, fragments = doc.split("\n## Fragments")
    for what, text, prefix in (("packet", packets, "MADI_WIRE_"), ("fragment", fragments, "MADI_FORWARD_")):
        table = re.search(r"^\| (?:type|kind) \| name \|.*?\n\n", text, re.M | re.S).group(0)
        numbers = {int(n): name for n, name in re.findall(r"^\| (\d+) \| (\w+) \|", table, re.M)}
        body = re.search(r"enum madi_%s \{(.*?)\}" % ("wire_type" if what == "packet" else "forward_kind"), code.text, re.S).group(1)
        enum = {int(n): name for name, n in re.findall(r"%s(\w+) = (\d+)" % prefix, body)}
        if what == "packet":
            enum.update({number: name for number, name, _ in code.controls()})
        out.append(("kinds of %ss" % what, numbers, enum))
    for number, name, struct in code.controls():
        if struct:
            out.append(("body of %s" % name, sizes(row(packets, number, name)), code.struct(struct)))
    for number, name, struct in ((2, "OPEN", "open"), (3, "CREDIT", "credit"), (6, "CLOSE", "close")):
        said = sizes(row(fragments, number, name))
        want = code.struct("madi_wire_" + struct)
        out.append(("body of fragment %s" % name, said[:len(want)], want))
    hello = code.enum("MADI_HELLO_")
    shown = dict((int(n), k) for k, n in re.findall(r"\b(HELLO|CHALLENGE|PROOF|VERDICT|REFUSE|END) (\d)\b", doc))
    out.append(("kinds of the handshake", shown, {n: k for n, k in hello.items() if n}))
    for number, name, struct in ((1, "HELLO", "madi_greeting"), (2, "CHALLENGE", "madi_challenge"), (3, "PROOF", "madi_hello_proof"),
                                 (4, "VERDICT", "madi_hello_verdict")):
        want = ([32] if number > 2 else []) + code.struct(struct)
        out.append(("frame %s" % name, sizes(frame(doc, name, number)), want))
    return out


code = Code()
page = read("doc/wire.md")
bad = 0
for name, said, want in compare(page, code):
    if said == want:
        print("ok", name)
    else:
        bad += 1
        print("not ok", name, "\n  doc/wire.md: %s\n  the code:    %s" % (said, want))

# The check itself is tested: it must report a change of either side.
for name, old, new in (("version", "Version %d" % code.number("MADI_WIRE_VERSION"), "Version 3"), ("length of a field", "length (8), drop (4)", "length (4), drop (4)"),
                       ("number of a kind", "| 7 | BYE |", "| 8 | BYE |"), ("frame of the handshake", "nonce (16), role (1)", "nonce (8), role (1)")):
    assert old in page, old
    try:
        seen = any(said != want for said_name, said, want in compare(page.replace(old, new), code))
    except (AttributeError, ValueError):
        seen = True
    print("%s a wrong %s is found" % ("ok" if seen else "not ok", name))
    bad += not seen
sys.exit(1 if bad else 0)

# SPDX-License-Identifier: BSD-3-Clause
"""Count names that do not tell what they stand for, in a backtrace, in a search, or to the linker.

What a compiler would see is approximated: comments, strings and preprocessor lines are left out, braces are counted.
"""
import re

import ctext

RULES = {
    "type-twice": "two types of one name",
    "external-twice": "two external functions (or functions of headers) of one name",
    "static-twice": "static functions of one name in several files: name the object",
    "one-word": "a static function of one word in a file of more than one object: name the object",
    "prefix": "an external function without the prefix of its folder",
}
# Folder of src: prefixes that its external functions may have, besides madi_, mad_ and the folder's own name.
PREFIXES = {
    "marcel": ("marcel_", "marceli_"),
    "engine": ("marcel_", "marceli_"),
    "gateway": ("gw_",),
    "mpi/device": ("dev_",),
    "mpi/openmpi": ("mca_",),
    "mpi/pml": ("mca_",),
    "mpi/ofi": ("fi_",),
}
# The linker or the C library calls these functions by name.
KNOWN = {"main", "_init", "_fini"}
CALL = re.compile(r"(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:__attribute__\s*\(\(.*?\)\)\s*)?$", re.S)
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "__attribute__", "defined", "START_TEST"}


def top_level(code):
    """Yield (line, head, body, tail) of each outermost brace block; head: the text before it; tail: the text up to the
    next ';'."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), code, flags=re.M)
    code = re.sub(r'extern\s+""\s*\{', lambda m: " " * len(m.group()), code)
    depth, start, head_from, head = 0, 0, 0, ""
    line, counted = 1, 0
    for m in re.finditer(r"[{};]", code):
        char, at = m.group(), m.start()
        if char == "{":
            if depth == 0:
                head, start = code[head_from:at], at
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
            if depth == 0:
                begin = head_from + len(head) - len(head.lstrip())
                line += code.count("\n", counted, begin)
                counted = begin
                end = code.find(";", at)
                yield line, head.strip(), code[start + 1:at], code[at + 1:end] if end >= 0 else ""
                head_from = at + 1
        elif depth == 0:
            begin = head_from + len(code[head_from:at]) - len(code[head_from:at].lstrip())
            line += code.count("\n", counted, begin)
            counted = begin
            yield line, code[head_from:at].strip(), None, ""
            head_from = at + 1


class Scan:
    """Types and functions of one tree."""

    def __init__(self, root):
        self.types = {}      # name with _t -> {definition: place}, without forward declarations
        self.functions = []  # (name, path, line, is static, type of the first argument)
        for area in ("src", "include"):
            for path in ctext.area_files(root, area):
                if path.endswith((".c", ".h")):
                    self.file(path, ctext.c_pieces(ctext.read(root, path))[0])

    def file(self, path, code):
        for line, head, body, tail in top_level(code):
            tag = re.search(r"\b(struct|union|enum)\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?(\w+)$", head)
            if body is not None and tag:
                self.type(tag.group(2) + "_t", path, line)
            if head.startswith("typedef"):
                text = tail if body is not None else head
                name = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", text) or re.search(r"(\w+)\s*(?:\[[^]]*\])?\s*$", text)
                if name:
                    forward = re.match(r"typedef\s+(?:struct|union|enum)\s+(\w+)\s+\w+$", head) if body is None else None
                    if not forward:
                        self.type(name.group(1), path, line)
                    elif forward.group(1) + "_t" != name.group(1):
                        self.type(name.group(1), forward.group(1), line, path)
            elif body is not None and not tag and "=" not in head:
                call = CALL.search(head)
                if call and call.group(1) not in NOT_FUNCTIONS and not call.group(1).isupper():
                    first = re.match(r"\s*(?:const\s+)?(?:struct\s+)?(\w+)\s*\*", call.group(2))
                    self.functions.append((call.group(1), path, line, bool(re.search(r"\bstatic\b", head)),
                                           first.group(1) if first else None))

    def type(self, name, definition, line, path=None):
        self.types.setdefault(name, {}).setdefault(definition, f"{path or definition}:{line}")


def folder(path):
    parts = path.split("/")[1:-1]
    return "/".join(parts[:2]) if parts and parts[0] in ("mpi", "drivers") else "/".join(parts[:1])


def has_prefix(name, path):
    where = folder(path)
    allowed = ("madi_", "mad_", where.split("/")[-1] + "_") + PREFIXES.get(where, ())
    return name in KNOWN or name.startswith(allowed)


def twice(functions):
    """Return the place of each function whose name an earlier function already has."""
    seen, found = {}, []
    for name, path, line, _, _ in sorted(functions):
        if name in seen and seen[name] != path:
            found.append(f"{path}:{line}: {name}, also in {seen[name]}")
        seen.setdefault(name, path)
    return found


def find(root):
    scan = Scan(root)
    found = {(rule, "src"): [] for rule in RULES}
    for name, places in sorted(scan.types.items()):
        where = sorted(places.values())
        found["type-twice", "src"] += [f"{w}: {name}, also at {where[0]}" for w in where[1:]]
    shared = [f for f in scan.functions if f[0] != "main" and (not f[3] or f[1].endswith(".h"))]
    static = [f for f in scan.functions if f[3] and f[1].endswith(".c")]
    # An external function may also be defined in a header, to be inlined.
    found["external-twice", "src"] = (twice(f for f in shared if f[1].endswith(".h")) +
                                      twice(f for f in shared if f[1].endswith(".c")))
    found["static-twice", "src"] = twice(static)
    objects = {}
    for _, path, _, _, first in static:
        if first and first not in ("char", "void", "int", "uint8_t", "FILE"):
            objects.setdefault(path, set()).add(first)
    found["one-word", "src"] = [f"{path}:{line}: {name}" for name, path, line, _, _ in static
                                if "_" not in name and len(objects.get(path, ())) > 1]
    found["prefix", "src"] = [f"{path}:{line}: {name}" for name, path, line, is_static, _ in scan.functions
                              if not is_static and path.endswith(".c") and not has_prefix(name, path)]
    return found

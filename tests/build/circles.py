# SPDX-License-Identifier: BSD-3-Clause
"""Find circles of files in the core, and calls that point from a lower folder to a higher one.

    circles.py ROOT               the limits, one a line: "NAME COUNT"
    circles.py ROOT --explain     the largest circle, and every edge that points backwards, with its functions

A file depends on another if one of its functions names a function of the other: in a call, or to take its address.  An
inlined function or a macro of a header has no file of its own: what it names counts for every file that names it.
"""
import collections
import pathlib
import re
import sys

import ctext
import names

# Folders in the order of their layers: each may name functions of its own layer and of lower ones.
LAYERS = (("base", "boot", "topology", "engine"), ("security", "wire"), ("link",), ("conn",), ("send", "recv"), ("connect",),
          ("dispatch.c",), ("rails",), ("progress",), ("api",), ("memory",), ("inspect",), ("session",))
MACRO = re.compile(r"^#define (\w+)((?:[^\n]*\\\n)*[^\n]*)", re.M)
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}


class Core:
    """Functions of src/core: the file that defines each, and the functions that it names."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.home = {}  # external or inlined function: the file that defines it
        self.body = collections.defaultdict(set)  # (file, inlined function): words of its body; (a .c file, ""): of all bodies
        core = self.root / "src/core"
        for path in sorted(list(core.rglob("*.c")) + list(core.rglob("*.h"))):
            self._read(path, str(path.relative_to(core)))
        self.edges = collections.defaultdict(lambda: collections.defaultdict(set))
        for file in self.files():
            self._follow(file, self.body[file, ""], set())

    def _read(self, path, file):
        code = ctext.c_pieces(path.read_text())[0]
        for macro, text in MACRO.findall(code if file.endswith(".h") else ""):
            self.home[macro] = file
            self.body[file, macro] |= set(re.findall(r"\w+", text))
        for _, head, body, _ in names.top_level(code):
            words = set(re.findall(r"\w+", body or ""))
            function = names.CALL.search(head) if body is not None and "=" not in head else None
            if function and file.endswith(".h"):
                self.home[function.group(1)] = file
                self.body[file, function.group(1)] |= words
            elif function and not re.search(r"\bstatic\b", head):
                self.home.setdefault(function.group(1), file)
            if file.endswith(".c"):
                self.body[file, ""] |= words

    def _follow(self, file, words, seen):
        for word in words:
            home = self.home.get(word)
            if home is None or home == file or word in seen:
                continue
            seen.add(word)
            if home.endswith(".h"):
                self._follow(file, self.body[home, word], seen)
            else:
                self.edges[file][home].add(word)

    def files(self):
        return sorted(file for file, function in self.body if not function)

    def circles(self):
        """Return the strongly connected components of more than one file, the largest first."""
        index, low, stack, found = {}, {}, [], []

        def visit(file):
            index[file] = low[file] = len(index)
            stack.append(file)
            for other in self.edges[file]:
                if other not in index:
                    visit(other)
                    low[file] = min(low[file], low[other])
                elif other in stack:
                    low[file] = min(low[file], index[other])
            if low[file] == index[file]:
                circle = stack[stack.index(file):]
                del stack[stack.index(file):]
                if len(circle) > 1:
                    found.append(sorted(circle))

        for file in self.files():
            if file not in index:
                visit(file)
        return sorted(found, key=len, reverse=True)

    def backwards(self):
        """Return (file, other, functions) for each edge from a lower layer to a higher one."""
        return [(file, other, sorted(functions)) for file in self.files()
                for other, functions in sorted(self.edges[file].items()) if level(file) < level(other)]


def level(file):
    return LEVEL[file.split("/")[0]]


def main():
    core = Core(sys.argv[1])
    circles, backwards = core.circles(), core.backwards()
    if "--explain" in sys.argv:
        for circle in circles:
            print(f"a circle of {len(circle)} files:", *circle)
        for file, other, functions in backwards:
            print(f"{file} -> {other}:", *functions)
    print("largest-circle", len(circles[0]) if circles else 1)
    print("backward-edges", len(backwards))


if __name__ == "__main__":
    main()

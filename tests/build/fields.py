# SPDX-License-Identifier: BSD-3-Clause
"""Find fields of the core's structures that are used outside of the folder that owns them.

    fields.py ROOT                        the breaches, one a line
    fields.py ROOT --table [STRUCTURE...] each field, by default of src/core/object, with the folders that use it
    fields.py ROOT --unknown              the accesses whose object has a type that is not known

A structure is private to a folder of src/core if it is called madi_FOLDER_OBJECT, or stands in a header whose first comment
says "Private to src/core/FOLDER"; no other folder includes such a header.  Tests of the inside may look into all of them.
A field of any other structure in src/core/object is used by at least two folders.  Structures of the fast paths (FAST) may
have fields of one folder, since a message or a connection is one allocation with a layout by cache lines.

What a compiler would see is approximated: the declarations of a function give the types of its variables, and chains of
accesses are followed from there.  Where that fails, the name decides if only private structures have a field of that name.
"""
import collections
import pathlib
import re
import sys

import ctext
import names

OBJECTS = "session|channel|gate|conn|request|message|tx|rx"
FOLDERS = "object|security|wire|link|conn|send|recv|connect|rails|progress|api|memory|inspect|session"
PART = re.compile(rf"madi_({FOLDERS})_({OBJECTS})")
OWN = {"madi_session_own": "session"}
FAST = {"madi_conn", "madi_conn_array", "madi_tx", "madi_piece", "madi_rx_msg", "madi_rx_packet", "madi_rx_early",
        "mad_message", "mad_request", "madi_waitable"}
QUALIFIERS = r"(?:(?:const|static|extern|struct|union|register|volatile|inline|_Thread_local)\s+)*"
WORD = re.compile(r"\w+")
ACCESS = re.compile(r"(->|(?<![\w.])\.|(?<=\w)\.(?!\d)|(?<=[\])]) ?\.)\s*([A-Za-z_]\w*)")


def matching(code, at, step):
    """Return the place of the bracket that matches the one at `at`, or -1; step: 1 to search forwards, -1 backwards."""
    opening, closing = ("([{", ")]}") if step > 0 else (")]}", "([{")
    depth = 0
    while 0 <= at < len(code):
        depth += (code[at] in opening) - (code[at] in closing)
        if depth == 0:
            return at
        at += step
    return -1


def split(text, char):
    """Split a text at a separator that is outside of brackets."""
    parts, depth, last = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == char and depth == 0:
            parts.append(text[last:at])
            last = at + 1
    return parts + [text[last:]]


def blanked(text):
    """Return the code with comments, strings, attributes and preprocessor lines replaced by blanks, so that offsets
    stay valid."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group())

    text = ctext.TOKEN.sub(blank, text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", blank, text)


class File:
    def __init__(self, path, text):
        self.path, self.text, self.code = path, text, blanked(text)
        self.head = " ".join(text.split("#", 1)[0].replace(" * ", " ").split())  # its first comments
        self.aliases, self.globals = {}, {}


class Tree:
    """The structures of a tree, and the uses of their fields."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.structs = {}    # tag: {field: type}
        self.home = {}       # tag of a structure: the file that defines it
        self.defined = {}    # tag as the source writes it: the file that defines it
        self.pointers = {}   # (tag, field): the structure to which the field points, as the source writes it
        self.aliases = {}    # name of a typedef in a header: its tag
        self.returns = {}    # function: type
        self.uses = collections.defaultdict(lambda: collections.defaultdict(list))  # (tag, field): folder: places of use
        self.unknown = []    # (place, field)
        self.places = {}     # (path, offset): the (tag, field) that is used there
        self.macros = {}     # macro of src/core/object: its text
        self.inlined = collections.defaultdict(set)  # inlined function of src/core/object: each (tag, field) that it uses
        self.files = []
        for area in ("include", "src", "tests", "bench"):
            for path in sorted((self.root / area).rglob("*.[ch]")):
                name = str(path.relative_to(self.root))
                self.files.append(File(name, path.read_text(errors="replace")))
        for step in (self._typedefs, self._structs, self._functions, self._uses, self._inlined_uses):
            for file in self.files:
                step(file)

    # ---- Types ----

    def _typedefs(self, file):
        """Collect the names of structures.  Those of a .c file are known in that file only."""
        to = self.aliases if file.path.endswith(".h") else file.aliases
        for m in re.finditer(r"\btypedef\s+(?:const\s+)?(?:struct\s+)?(\w+)\s*\**\s*(\w+)\s*;", file.code):
            to[m.group(2)] = m.group(1)
        for m in re.finditer(r"\b(typedef\s+)?(?:struct|union)\s*(?:_Alignas\s*\([^()]*\)\s*)?(\w*)\s*\{", file.code):
            end = matching(file.code, m.end() - 1, 1)
            tail = re.match(r"\s*(\w+)\s*;", file.code[end + 1:]) if m.group(1) else None
            variable = re.match(r"\s*(\w+)\s*(?:\[[^]]*\]\s*)*[=;]", file.code[end + 1:]) if not m.group(1) else None
            if variable and not m.group(2):  # a variable of a structure without a tag
                tag = f"{file.path}:{variable.group(1)}"
                self.structs[tag], self.home[tag] = {"{": file.code[m.end():end]}, file.path
                file.globals[variable.group(1)] = tag
                continue
            tag = m.group(2) or (tail.group(1) if tail else "")
            if tag and file.path.startswith("src/core/"):
                self.defined[tag] = file.path
            if tag and file.path.endswith(".c"):
                tag = file.path + ":" + tag
                file.aliases[m.group(2) or tail.group(1)] = tag
            if tail:
                to[tail.group(1)] = tag
            if tag:
                self.structs[tag] = {}
                self.home[tag] = file.path
                self.structs[tag]["{"] = file.code[m.end():end]

    def tag(self, file, word):
        """Return the structure that a word names, or None."""
        seen = set()
        while word not in seen:
            seen.add(word)
            if word in file.aliases and file.aliases[word] != word:
                word = file.aliases[word]
            elif word in self.aliases and self.aliases[word] != word:
                word = self.aliases[word]
        return word if word in self.structs else None

    def type_of(self, file, text):
        """Return the first structure that a declaration names."""
        for word in WORD.findall(text):
            tag = self.tag(file, word)
            if tag:
                return tag
        return None

    def _structs(self, file):
        for tag, fields in list(self.structs.items()):
            if self.home[tag] == file.path and "{" in fields:
                self._fields(file, fields.pop("{"), fields, tag)

    def home_of_pointer(self, tag, field):
        """Return the folder of the structure to which a field points, or None if it is no pointer to an opaque
        structure."""
        home = self.defined.get(self.pointers.get((tag, field)))
        return folder(home) if home else None

    def _fields(self, file, body, fields, tag=None):
        body = re.sub(r"^[ \t]*#[^\n]*", "", body, flags=re.M)
        for part in split(body, ";"):
            nested = re.match(r"\s*(?:typedef\s+)?(?:struct|union)\s*(\w*)\s*\{", part)
            if nested:
                end = matching(part, nested.end() - 1, 1)
                inner, name = part[nested.end():end], re.match(r"\s*(\w+)", part[end + 1:])
                if not name:
                    self._fields(file, inner, fields, tag)
                else:
                    below = nested.group(1) or f"{file.path}:{name.group(1)}"
                    self.structs[below] = {}
                    self.home[below] = file.path
                    self._fields(file, inner, self.structs[below], below)
                    fields[name.group(1)] = below
                continue
            part = re.sub(r"_Alignas\s*\([^()]*\)", "", part).split("{")[0]
            kind = self.type_of(file, part.split("(*")[0] if "(*" in part else part)
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", part)
            if pointer:
                fields[pointer.group(1)] = kind
                continue
            part = re.sub(r"_Atomic\s*\(([^()]*)\)", lambda m: "x " + re.sub(r"\W", "_", m.group(1)), part)
            for declarator in split(part, ","):
                name = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*(?::\s*\w+\s*)?$", declarator)
                if name:
                    fields[name.group(1)] = kind
                    target = re.match(r"\s*struct\s+(\w+)\s*\*", part)
                    if target:
                        self.pointers[tag, name.group(1)] = target.group(1)

    # ---- Functions ----

    def _functions(self, file):
        for _, head, body, _ in names.top_level(file.code):
            m = re.match(r"([\w\s*]*?)\b(\w+)\s*\(", head)
            if m and "=" not in head and not head.startswith("typedef"):
                self.returns.setdefault(m.group(2), self.type_of(file, m.group(1)))
        for m in re.finditer(rf"^{QUALIFIERS}(\w+)\s*\**\s*(\w+)\s*(?=[;=\[])", file.code, re.M):
            if self.tag(file, m.group(1)):
                file.globals[m.group(2)] = self.tag(file, m.group(1))

    def variables(self, file, text):
        """Return the variables that a function declares: {name: type}."""
        found = {}
        for m in WORD.finditer(text):
            if text[m.end():m.end() + 1] not in " ":
                continue
            tag = self.tag(file, m.group())
            if not tag:
                continue
            at = m.end()
            while True:
                name = re.compile(r"\s*(?:const\s+)?[\s*]*(?:const\s+)?(\w+)\s*(?=[,;=\[)])").match(text, at)
                if not name:
                    break
                found[name.group(1)] = tag
                at = name.end()
                while at < len(text) and text[at] not in ",;)":  # behind the initialiser
                    if text[at] in "([{":
                        at = matching(text, at, 1)
                        if at < 0:
                            return found
                    at += 1
                if text[at:at + 1] != ",":
                    break
                at += 1
        for m in re.finditer(r"_Atomic\s*\((\w+)[\s*]*\)\s*\**(\w+)", text):
            if self.tag(file, m.group(1)):
                found[m.group(2)] = self.tag(file, m.group(1))
        return found

    def _uses(self, file):
        at = 0
        for _, head, body, tail in names.top_level(file.code):
            if body is None or re.match(r"(typedef\s+)?(struct|union|enum)\b[^()=]*$", head):
                continue
            start = file.code.find(body, at)
            at = start + len(body)
            self._accesses(file, head + " {" + body + "}", start - len(head) - 2)
            function = names.CALL.search(head)
            if function and file.path.startswith("src/core/object/"):
                inside = range(start, at)
                self.inlined[function.group(1)] |= {use for (path, place), use in self.places.items()
                                                    if path == file.path and place in inside}
        for m in re.finditer(r"\b(?:offsetof|MADI_CONTAINER)\s*\(([^(),]*(?:\([^()]*\))?[^(),]*),\s*(\w+)(?:,\s*(\w+))?\s*\)", file.code):
            tag, field = (m.group(2), m.group(3)) if m.group(3) else (m.group(1).strip().split()[-1], m.group(2))
            tag = self.tag(file, tag)
            if tag and field in self.structs[tag]:
                self.use(file, tag, field, m.start(3) if m.group(3) else m.start(2))

        for line, text in enumerate(re.sub(r"\\\n", "  ", ctext.TOKEN.sub(" ", file.text)).split("\n"), 1):
            macro = re.match(r"\s*#\s*define\s+(\w+)(.*)", text)
            if macro and file.path.startswith("src/core/object/"):
                self.macros[macro.group(1)] = macro.group(2)
            if macro:  # the types of a macro's arguments are not known
                self.unknown += [(file.path, line, m.group(2)) for m in ACCESS.finditer(text)]

    def _inlined_uses(self, file):
        """Count what an inlined function of src/core/object uses for each file that calls it, also by a macro."""
        text = file.code
        for macro, body in self.macros.items():
            if re.search(rf"\b{macro}\b", text):
                text += body
        for word in set(WORD.findall(text)) & set(self.inlined):
            for use in self.inlined[word]:
                self.uses[use][folder(file.path)].append(f"{file.path}: by {word}")

    def use(self, file, tag, field, at):
        self.places[file.path, at] = (tag, field)
        self.uses[tag, field][folder(file.path)].append(f"{file.path}:{file.code.count(chr(10), 0, at) + 1}")

    def _accesses(self, file, text, begin):
        """Find the accesses of a function; begin: the offset of its text in the file."""
        self.scope = self.variables(file, text)
        for m in ACCESS.finditer(text):
            known = self.object(file, text, m.start())
            if known and m.group(2) in self.structs[known]:
                self.use(file, known, m.group(2), begin + m.start(2))
            elif not known:
                self.unknown.append((file.path, file.code.count("\n", 0, begin + m.start(2)) + 1, m.group(2)))

    def object(self, file, text, end):
        """Return the type of the expression that ends before `end`."""
        end = len(text[:end].rstrip())
        if not end:
            return None
        char = text[end - 1]
        if char in "{,":
            return self.initialised(file, text, end - 1)
        if char == "]":
            return self.object(file, text, matching(text, end - 1, -1))
        if char == ")":
            begin = matching(text, end - 1, -1)
            before = text[:begin].rstrip()
            called = re.search(r"\w+$", before)
            if called and called.group() not in ("return", "if", "while", "sizeof", "case"):
                return self.result(file, text, called, text[begin + 1:end - 1])
            inside = text[begin + 1:end - 1]
            cast = re.match(r"\s*\(\s*(?:const\s+)?(?:struct\s+)?(\w+)\s*\**\s*\)", inside)
            if cast and self.tag(file, cast.group(1)):
                return self.tag(file, cast.group(1))
            return self.object(file, text[:begin + 1] + inside, begin + 1 + len(inside.rstrip()))
        if char == "}":  # (type){...}
            begin = matching(text, end - 1, -1)
            return self.object(file, text, begin) if begin > 0 and text[:begin].rstrip().endswith(")") else None
        word = re.search(r"\w+$", text[:end])
        if not word:
            return None
        return self.named(file, text, word.group(), word.start())

    def named(self, file, text, word, begin):
        """Return the type of the field or variable whose name is at `begin`."""
        before = text[:begin].rstrip()
        if before.endswith("->") or before.endswith(".") and not before.endswith(".."):
            outer = self.object(file, text, len(before) - (2 if before.endswith("->") else 1))
            return self.structs[outer].get(word) if outer else None
        if word in self.scope:
            return self.scope[word]
        return file.globals.get(word)

    def result(self, file, text, called, arguments):
        if called.group() in ("MADI_CONTAINER",):
            return self.tag(file, split(arguments, ",")[1].strip().split()[-1])
        if called.group().startswith("atomic_load"):
            inside = split(arguments, ",")[0]
            return self.object(file, inside, len(inside))
        before = text[:called.start()].rstrip()
        if before.endswith("->") or before.endswith("."):
            return self.named(file, text, called.group(), called.start())
        return self.returns.get(called.group())

    def initialised(self, file, text, at):
        """Return the type of the structure whose initialiser has a `.field =` at `at`."""
        depth = 0
        while at >= 0:
            depth += (text[at] in ")]}") - (text[at] in "([{")
            if depth < 0:
                break
            at -= 1
        before = text[:at].rstrip()
        if before.endswith("="):
            variable = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*=$", before)
            return self.named(file, text, variable.group(1), variable.start()) if variable else None
        cast = re.search(r"\(\s*(?:const\s+)?(?:struct\s+)?(\w+)\s*(?:\[[^]]*\])?\s*\)$", before)
        if cast:
            return self.tag(file, cast.group(1))
        if before.endswith(("{", ",")):
            return self.initialised(file, text, len(before) - 1)
        return None


def folder(path):
    parts = path.split("/")
    if parts[:2] == ["src", "core"]:
        return parts[2]
    return parts[1] if parts[0] == "src" else parts[0]


class Rules:
    """The private structures and headers, and the accesses that break the rule."""

    def __init__(self, tree):
        self.tree = tree
        self.headers = {}  # private header: the folder that owns it
        for file in tree.files:
            said = re.search(r"Private to src/core/(\w+)", file.head)
            if file.path.startswith("src/core/") and said:
                self.headers[file.path[len("src/"):]] = said.group(1)
        self.owner = {}    # private structure: the folder that owns it
        for tag, home in tree.home.items():
            part = PART.fullmatch(tag)
            folder_of = OWN.get(tag) or (part and part.group(1)) or self.headers.get(home[len("src/"):])
            if folder_of and home.endswith(".h") and home.startswith("src/core/"):
                self.owner[tag] = folder_of

    def includes(self):
        for file in self.tree.files:
            for header in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.text, re.M):
                owner = self.headers.get(header)
                if owner and folder(file.path) not in (owner, "tests"):
                    yield f"{file.path}: includes {header}, which is private to src/core/{owner}"

    def private(self):
        for (tag, field), used in sorted(self.tree.uses.items()):
            for other in sorted(used) if tag in self.owner else ():
                if other not in (self.owner[tag], "object", "tests"):
                    yield f"{used[other][0]}: uses {field} of {tag}, which is private to src/core/{self.owner[tag]}"

    def unknown(self):
        names_of = collections.defaultdict(set)  # field: folders of the private structures that have it; "" for others
        for tag, fields in self.tree.structs.items():
            for field in fields:
                names_of[field].add(self.owner.get(tag, ""))
        for path, line, field in self.tree.unknown:
            owners = names_of.get(field, {""})
            if path.startswith(("src/core/", "src/gateway/")) and "" not in owners and folder(path) not in owners:
                yield f"{path}:{line}: uses {field}, which is a field of private structures only"

    def shared(self):
        for tag, fields in sorted(self.tree.structs.items()):
            if not self.tree.home[tag].startswith("src/core/object/") or tag in self.owner or tag in FAST:
                continue
            for field in fields:
                used = set(self.tree.uses[tag, field]) - {"object", "tests"}
                target = self.owner.get(fields[field]) or self.tree.home_of_pointer(tag, field)
                if not used:
                    yield f"{self.tree.home[tag]}: nobody uses {field} of {tag}"
                elif len(used) == 1 and used != {"dispatch.c"} and used != {target}:
                    yield f"{self.tree.home[tag]}: only {min(used)} uses {field} of {tag}: move it to that folder's part"

    def breaches(self):
        return [*self.includes(), *self.private(), *self.unknown(), *self.shared()]


def main():
    tree = Tree(sys.argv[1])
    rules = Rules(tree)
    if "--unknown" in sys.argv:
        for path, line, field in tree.unknown:
            print(f"{path}:{line}: {field}")
    elif "--table" in sys.argv:
        only = sys.argv[sys.argv.index("--table") + 1:]
        for tag, fields in sorted(tree.structs.items()):
            if tag in only if only else tree.home[tag].startswith("src/core/object/"):
                print(tag, f"({tree.home[tag]})", f"private to {rules.owner[tag]}" if tag in rules.owner else "")
                for field in fields:
                    print(f"  {field:22}", *(f"{name}({len(places)})" for name, places in sorted(tree.uses[tag, field].items())))
    else:
        for breach in rules.breaches():
            print(breach)


if __name__ == "__main__":
    main()

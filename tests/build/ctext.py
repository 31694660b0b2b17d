# SPDX-License-Identifier: BSD-3-Clause
"""Split sources into comments, strings and code.  The checks of prose and of names share it."""
import os
import re

# Folders and files of an area.  Areas are coarse, so that a file may move within one without a change of the limits.
AREAS = {
    "src": ["src"],
    "include": ["include"],
    "examples": ["examples"],
    "bench": ["bench"],
    "tests": ["tests"],
    "doc": ["doc"],
    "man": ["man"],
    "README": ["README.md"],
    "NEWS": ["NEWS"],
    "CONTRIBUTING": ["CONTRIBUTING.md"],
    "SECURITY": ["SECURITY.md"],
    "build": ["Makefile.am", "configure.ac", "check.sh", "quickstart.sh", "autogen.sh", "packaging"],
}
C_FILE = (".c", ".h", ".S", ".cc", ".cpp")
HASH_FILE = (".sh", ".py", ".am", ".ac", ".awk", ".map", ".supp")
TEXT_FILE = (".md", ".1", ".3", ".5", ".7", ".8")


def kind(path):
    """Return "c", "hash" or "text", or None for a file without prose."""
    name = os.path.basename(path)
    base = name[:-3] if name.endswith(".in") else name
    if base.endswith(C_FILE):
        return "c"
    if base.endswith(HASH_FILE):
        return "hash"
    if base.endswith(TEXT_FILE) or name == "NEWS":
        return "text"
    if "." not in name and name not in ("LICENSE", "prose_limits", "names_limits"):
        try:
            with open(path, "rb") as f:
                begin = f.read(400)
            return "hash" if begin.startswith(b"#!") and b"libtool" not in begin else None
        except OSError:
            return None
    return None


def area_files(root, area):
    """Return the files of an area, sorted; built files and caches are left out."""
    found = []
    for place in AREAS[area]:
        full = os.path.join(root, place)
        if os.path.isfile(full):
            found.append(place)
        for folder, below, names in os.walk(full):
            below[:] = sorted(d for d in below if d != "__pycache__" and not d.startswith("."))
            for name in names:
                path = os.path.join(folder, name)
                made = os.path.exists(path + ".in")  # written by configure, if the build is inside the source folder
                if not made and os.path.isfile(path) and kind(path):
                    found.append(os.path.relpath(path, root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def c_pieces(text):
    """Return (code, pieces): the code with comments and strings blanked, and (line, "comment" or "string", text) each.
    Consecutive // lines are one comment, consecutive strings one string."""
    code, pieces, last = [], [], 0
    line, counted = 1, 0
    for m in TOKEN.finditer(text):
        line += text.count("\n", counted, m.start())
        counted = m.start()
        code.append(text[last:m.start()])
        token = m.group()
        between = text[last:m.start()]
        if token[0] == "/":
            body = re.sub(r"\n[ \t]*\*(?!/)", "\n", token[2:-2] if token[1] == "*" else token[2:])
            if token[1] == "/" and pieces and pieces[-1][1] == "//" and not between.strip():
                pieces[-1][2] += "\n" + body
            else:
                pieces.append([line, "comment" if token[1] == "*" else "//", body])
            code.append(" " + "\n" * token.count("\n"))
        else:
            if token[0] == '"':
                if pieces and pieces[-1][1] == "string" and not between.strip():
                    pieces[-1][2] += token[1:-1]
                else:
                    pieces.append([line, "string", token[1:-1]])
            code.append(token[0] * 2)
        last = m.end()
    code.append(text[last:])
    return "".join(code), [(n, "comment" if k == "//" else k, t) for n, k, t in pieces]


def hash_pieces(text):
    """Return the comments of a script or a makefile: (line, "comment", text), consecutive lines joined."""
    pieces, last = [], -1
    for number, line in enumerate(text.split("\n"), 1):
        m = re.match(r"^\s*(?:#|dnl)(?!!)\s?(.*)$", line)
        if not m:
            m = re.match(r"^[^'\"]*?\s#\s(.*)$", line)
            if m:
                pieces.append([number, "comment", m.group(1)])
            continue
        if last == number - 1:
            pieces[-1][2] += "\n" + m.group(1)
        else:
            pieces.append([number, "comment", m.group(1)])
        last = number
    return [tuple(p) for p in pieces]


def text_pieces(text, path):
    """Return the paragraphs of a document, a manual page or NEWS: (line, "text", text).  Programs, tables and synopses are
    left out."""
    pieces, fence, synopsis, block, start = [], False, False, [], 0

    def end():
        if block:
            pieces.append((start, "text", "\n".join(block)))
            block.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"^\.SH\b", line):
            synopsis = "SYNOPSIS" in line
        if line.lstrip().startswith("```") or re.match(r"^\.(nf|EX|TS)\b", line):
            fence = not fence or line.startswith(".")
            end()
            continue
        if re.match(r"^\.(fi|EE|TE)\b", line):
            fence = False
        if fence or synopsis:
            continue
        if path.endswith(".md") and not block and line.startswith("    "):  # a program
            continue
        if re.match(r'^\.\\"|^\.TH|^\.so|^\.\\', line):
            continue
        heading = line.startswith(("#", ".SH", ".SS"))
        new = heading or not line.strip() or re.match(r"^\s*([-*|]|\d+\.)\s|^\.(PP|TP|TQ|IP|RS|RE|P)\b|^\s*\|", line)
        if new:
            end()
        words = re.sub(r"^\.(?:BR|B|I|IR|RB|RI|BI|IB|TP|TQ|PP|P|IP|RS|RE|SM)\b ?", "", line)
        words = re.sub(r"\\f[BIRP]|\\&", "", words).replace("\\-", "-")
        if not block:
            start = number
        if words.strip():
            block.append(words)
        if heading:
            end()
    end()
    return pieces


def pieces(root, path):
    text = read(root, path)
    what = kind(os.path.join(root, path))
    if what == "c":
        return c_pieces(text)[1]
    if what == "hash":
        return hash_pieces(text)
    return text_pieces(text, path)

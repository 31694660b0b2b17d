# SPDX-License-Identifier: BSD-3-Clause
"""Check that names of functions, types, constants, knobs and files that documents show in `backquotes` exist in the
tree.

doc_names.py ROOT prints "FILE:LINE: NAME" for each that does not.  NEWS and rationale.md are about the past, so only
files that are named with their folder are checked there.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import ctext  # noqa: E402

# These documents mention programs, profiles and tests of other projects, so only names with our prefixes are checked
# there.
OTHERS = ("doc/mpi.md", "doc/performance.md", "doc/figures.md")
OURS = ("mad_", "madi_", "marcel_", "marceli_", "MAD_", "MADI_")
PAST = ("doc/rationale.md", "NEWS")
CODE = ("src", "include", "examples", "bench", "tests", "man", "packaging", "configure.ac", "Makefile.am", "check.sh",
        "quickstart.sh", "autogen.sh")
# Names of other projects, and names of what a reader may create.  A name that ends with * is a prefix.
FOREIGN = ("mynet*", "snake_case", "MADELEINE_1", "GROW", "FUTURE_WRITE", "SSL_*", "MPI_*", "mpi_*", "UCX_*", "FI_*", "fi_*", "OMPI_*", "PMIX_*", "SLURM_*", "pthread_*", "ABT_*", "zmq_*")
FILE = re.compile(r"^[\w./-]*\w\.(?:c|h|S|sh|py|pml|am|md)$")
NAME = re.compile(r"^(?:[A-Za-z]\w*_\w+|[A-Z][A-Z0-9]{3,})$")
CALL = re.compile(r"^(\w+)\((?:\.\.\.)?\)$")


def walk(root):
    """Yield the paths of all files in the folders that contain code."""
    for place in CODE:
        full = os.path.join(root, place)
        if os.path.isfile(full):
            yield place
        for folder, below, names in os.walk(full):
            below[:] = [d for d in below if d != "__pycache__" and not d.startswith(".")]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), root)


def documents(root):
    for folder in (".", "doc"):
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if name.endswith(".md") or name == "NEWS":
                yield os.path.normpath(os.path.join(folder, name))


def foreign(name):
    return any(name.startswith(f[:-1]) if f.endswith("*") else name == f for f in FOREIGN)


def main():
    root = sys.argv[1]
    words, files = set(), set()
    for path in walk(root):
        files.add(os.path.basename(path))
        if ctext.kind(os.path.join(root, path)) or path.endswith(".in"):
            text = ctext.read(root, path)
            code = ctext.c_pieces(text)[0] if path.endswith((".c", ".h")) else text
            words.update(re.findall(r"\w+", re.sub(r"\b(?:struct|union|enum)\s+\w+", " ", code)))  # not tags
            words.update(re.findall(r"\w+", " ".join(re.findall(r'"[^"\n]*"', text))))
            words.update(w for macro in re.findall(r"#define\s+\w*\([^\n]*##[^\n]*", text) for w in re.findall(r"\w+", macro))
    missing = 0
    for doc in documents(root):
        fence = False
        for number, line in enumerate(ctext.read(root, doc).split("\n"), 1):
            if line.lstrip().startswith("```"):
                fence = not fence
            if fence:
                continue
            for shown in re.findall(r"`([^`]+)`", line):
                call = CALL.match(shown)
                name = call.group(1) if call else shown.rstrip("*")
                if foreign(name) or doc in PAST and "/" not in name or doc in OTHERS and not name.startswith(OURS):
                    continue
                if FILE.match(name):
                    there = os.path.exists(os.path.join(root, name)) if "/" in name else name in files
                    there = there or any(os.path.exists(os.path.join(root, p, name)) for p in ("src", "doc", "include"))
                elif call or NAME.match(name):
                    there = name in words or shown.endswith("*") and any(w.startswith(name) for w in words)
                else:
                    continue
                if not there:
                    print(f"{doc}:{number}: {shown}")
                    missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

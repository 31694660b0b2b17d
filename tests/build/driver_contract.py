# SPDX-License-Identifier: BSD-3-Clause
"""Check that the contract of drivers is complete: driver_contract.py src/core/driver.h prints what is missing.

The comment of each operation must end with its lock, whether it waits, the owner and the errors.  The table of locks
must list the operation under that lock, and the diagram of its group must show it.  Each function of the core for
drivers must be in the table of locks.
"""
import re
import sys

LINE = re.compile(r"Lock: (\w+)\.  Waits: .+?\.  Owner: .+?\.  Errors: .+?\.", re.S)
UPCALLS = "---- Functions of the core for drivers"
READY = {"ready": "session"}  # an operation of a watch, which is not in the table of operations


def locks(text, title):
    """Return {name: lock} from the table whose last column has this title."""
    found, lock = {}, None
    begin = text.index(title)
    column = begin - text.rindex("\n", 0, begin) - 1
    for line in text[begin:].split("\n")[1:]:
        if len(line) < 5:
            break
        lock = line[5:15].split()[0] if line[5] != " " else lock
        for name in line[column:].split():
            found[name] = "twice" if name in found else lock
    return found


def operations(text):
    """Yield (comment of the group, comment, name) of each operation."""
    for head, body in re.findall(r"/\*((?:(?!\*/).)*)\*/\n(?:typedef )?struct madi_driver(?:_\w+)? \{\n(.*?)\n\}", text, re.S):
        for comment, name in re.findall(r"/\*((?:(?!\*/).)*)\*/\n    [^\n;]*\(\*(\w+)\)\(", body, re.S):
            yield head, " ".join(comment.replace("\n     *", " ").split(" ")), name


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    table, wrong, seen = locks(text, "operations of the driver"), [], set(READY)
    for name, lock in READY.items():
        if table.get(name) != lock:
            wrong.append(f"{name}: not in the table of locks under {lock}")
    for head, comment, name in operations(text):
        seen.add(name)
        line = LINE.search(comment)
        if not line:
            wrong.append(f"{name}: no line with Lock, Waits, Owner and Errors")
        elif table.get(name) != line.group(1):
            wrong.append(f"{name}: Lock: {line.group(1)}, but in the table of locks: {table.get(name)}")
        if not re.search(rf"\b{name}\b", head.partition("\n *\n")[2]):
            wrong.append(f"{name}: not in the diagram of its group")
    for name in re.findall(r"\(\*(\w+)\)\(", text[text.index("---- Operations"):text.index(UPCALLS)]):
        if name not in seen:
            wrong.append(f"{name}: no comment before it")
    wrong += [f"{name}: in the table of locks, but no operation" for name in table if name not in seen]
    upcalls = locks(text, "functions of the core that it may call")
    for name in re.findall(r"^(?:\w[\w ]*[ *])(madi_\w+)\([^;{]*\)(?:;|\n\{)", text[text.index(UPCALLS):], re.M):
        if name not in upcalls:
            wrong.append(f"{name}: not in the table of locks")
    print("\n".join(sorted(set(wrong))))
    sys.exit(bool(wrong) or len(seen) < 40)


main()
